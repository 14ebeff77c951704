// Tests only: random histories of a group of rows, on the oracles.
//
// Whatever happened, each query sees exactly the newest min(position + 1, window) tokens of its
// row. A row is a list of tokens with unique names, so that a key left over from a rolled-back
// token is not mistaken for the one that replaced it. Groups live in both of the documents' forms:
// rows with rings of their own under one RotatingPositions, and one ring in a layout.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "oracles/layouts.h"
#include "oracles/test_tokens.h"

namespace gyre::oracles {

// What has been met, so that the test can say that it went everywhere.
struct Counts {
  int64_t queries = 0, block_queries = 0, rotated_block_queries = 0, ancestor_wrong = 0;
  std::map<std::string, int64_t> operations;
};

// Sees every step of a history, and what the oracle's masks showed: another mechanism can follow.
class Watcher {
 public:
  // Per row, per query: the visible tokens, ascending.
  using Seen = std::vector<std::vector<Tokens>>;
  virtual ~Watcher() = default;
  virtual void start(int64_t window) = 0;
  virtual void join(const std::vector<Tokens>& rows) = 0;  // behind those that are there
  virtual void realign() = 0;
  virtual void filter(const std::vector<size_t>& keep) = 0;
  // Each row's own tokens, without padding; rows may have none.
  virtual void write(const std::vector<Tokens>& tokens, const Seen& seen) = 0;
  virtual void committed(const std::vector<Tokens>& tokens, const Seen& seen) = 0;
  virtual void begin_round(int64_t tokens) = 0;
  virtual void end_round(const Numbers& keep) = 0;
  virtual bool may_trim(int64_t tokens) = 0;  // asked before the oracle's rows are trimmed
  virtual void trim(int64_t tokens) = 0;
};

class History {
 public:
  // `watcher` may be null.
  History(uint64_t seed, Counts& counts, Watcher* watcher = nullptr)
      : random_(seed), counts_(counts), watcher_(watcher) {
    window_ = static_cast<int64_t>(1 + random_() % (random_() % 3 == 0 ? 40 : 8));
    speculative_ = random_() % 2 == 0;
    layout_ = fresh_layout();
    positions_ = std::make_unique<RotatingPositions>(window_);
    if (watcher_) watcher_->start(window_);
    join(1 + random_() % 4);
  }

  void step() {
    switch (random_() % 12) {
      case 0:
        return filter();
      case 1:
        return join(1 + random_() % 2);
      case 2:
        return realign();
      case 3:
        return padded_prefill();
      case 4:
      case 5:
        return speculative_round();
      case 6:
        return trim();
      case 7:
        return convert();
      case 8:
        return committed();
      case 9:
      case 10:
        return block(2 + random_() % 4);
      default:
        return block(1);
    }
  }

 private:
  using Blocks = std::vector<Tokens>;
  bool in_layout() const { return layout_->ring() != nullptr; }
  uint64_t below(uint64_t n) { return random_() % n; }

  std::unique_ptr<RotatingLayout> fresh_layout() const {
    if (speculative_) return std::make_unique<SpeculativeRotatingLayout>(window_, 64, 4);
    return std::make_unique<RotatingLayout>(window_, 64, 4);
  }

  Tokens fresh(int64_t count) {
    next_ += count;
    return run(next_ - count, count);
  }

  // Solo rows of random writes, some of them coded, some empty.
  SoloRing solo(Tokens& history) {
    SoloRing ring(window_, below(2) == 0 ? RowKind{} : quantized_kind(4, 64));
    for (uint64_t i = below(6); i > 0; --i) {
      const Tokens tokens = fresh(static_cast<int64_t>(1 + below(5)));
      ring.append(tokens);
      history.insert(history.end(), tokens.begin(), tokens.end());
    }
    return ring;
  }

  // Back to rows of their own: what a change of membership does.
  std::vector<SoloRing> take_out() {
    std::vector<SoloRing> out;
    if (in_layout()) {
      for (size_t row = 0; row < histories_.size(); ++row) out.push_back(layout_->extract_row(row));
      layout_ = fresh_layout();
    } else {
      const bool limited = below(2) == 0;
      for (const AlignedRow& row : rows_)
        out.push_back(limited ? row.extract(window_) : row.extract());
      rows_.clear();
    }
    return out;
  }

  void put_in(std::vector<SoloRing> rings) {
    rows_ = align_rotating_rows(rings);
    positions_->sync(rows_);
    adopt_when_coded();
  }

  void adopt_when_coded() {
    if (!std::all_of(rows_.begin(), rows_.end(), [](auto& r) { return r.is_quantized(); })) return;
    layout_->adopt_aligned_rows(rows_);
    for (const int64_t queries : {1, 3})
      ASSERT_EQ(layout_->RotatingLayout::make_mask(queries), positions_->make_mask(queries));
    rows_.clear();
    ++counts_.operations["adopt"];
  }

  void join(uint64_t count) {
    if (histories_.size() + count > 5) return;
    std::vector<SoloRing> rings = take_out();
    const size_t first = histories_.size();
    for (; count > 0; --count) {
      histories_.emplace_back();
      rings.push_back(solo(histories_.back()));
    }
    put_in(std::move(rings));
    if (watcher_)
      watcher_->join({histories_.begin() + static_cast<int64_t>(first), histories_.end()});
    ++counts_.operations["join"];
  }

  void realign() {
    put_in(take_out());
    if (watcher_) watcher_->realign();
    ++counts_.operations["realign"];
  }

  void filter() {
    std::vector<size_t> keep;
    for (uint64_t i = 1 + below(histories_.size()); i > 0; --i)
      keep.push_back(below(histories_.size()));  // reordered and doubled
    std::vector<Tokens> kept;
    for (const size_t row : keep) kept.push_back(histories_[row]);
    histories_ = std::move(kept);
    if (watcher_) watcher_->filter(keep);
    if (in_layout()) {
      layout_->filter_rows(keep);
    } else {
      std::vector<AlignedRow> rows;
      for (const size_t row : keep) rows.push_back(rows_[row]);
      rows_ = std::move(rows);
      positions_->filter_rows(keep);
      ASSERT_EQ(positions_->position(), combined_position(rows_));
      adopt_when_coded();
    }
    ++counts_.operations["filter"];
  }

  void convert() {
    if (in_layout()) return;
    for (AlignedRow& row : rows_)
      if (row.can_convert() && row.ring().columns().count() > 0 && below(2) == 0)
        row = row.to_quantized(64, 4);
    adopt_when_coded();
    ++counts_.operations["convert"];
  }

  RotatingPosition position() const {
    return in_layout() ? layout_->ring()->position() : positions_->position();
  }

  int64_t valid_offset(size_t row) const {
    return in_layout() ? layout_->ring()->valid_offset(row) : rows_[row].offset();
  }

  // One write of a block for all rows; a token of kNoToken is padding.
  void write(const Blocks& block) {
    const auto count = static_cast<int64_t>(block[0].size());
    const RotatingPosition before = position();
    std::vector<AttentionRead> reads;
    if (in_layout()) {
      reads.push_back(count == 1 && !before.prefill_ends ? layout_->append_decode(block)
                                                         : layout_->append_window(block));
    } else {
      const Mask shared = positions_->make_mask(count);
      for (size_t row = 0; row < rows_.size(); ++row) {
        reads.push_back(rows_[row].append(block[row]));
        for (int64_t i = 0; i < count; ++i)
          ASSERT_EQ(shared.text(row, i), reads.back().mask.text(0, i));
      }
      positions_->sync(rows_);
    }
    for (size_t row = 0; row < block.size(); ++row)
      for (const Token token : block[row])
        if (token != kNoToken) histories_[row].push_back(token);
    check(block, before, reads);
  }

  void check(const Blocks& block, const RotatingPosition& before,
             const std::vector<AttentionRead>& reads) {
    const auto count = static_cast<int64_t>(block[0].size());
    const bool many = count > 1 || before.prefill_ends;
    Watcher::Seen seen(block.size());
    std::vector<Tokens> own(block.size());
    const Mask ancestor = batched_mask(before, count, window_, many, BlockRule::ancestor);
    for (size_t row = 0; row < block.size(); ++row) {
      ASSERT_EQ(valid_offset(row), static_cast<int64_t>(histories_[row].size()));
      const AttentionRead& read = reads.size() == 1 ? reads[0] : reads[row];
      const size_t place = reads.size() == 1 ? row : 0;
      const auto real = std::count_if(block[row].begin(), block[row].end(),
                                      [](Token token) { return token != kNoToken; });
      const auto old = static_cast<int64_t>(histories_[row].size()) - real;
      for (int64_t i = 0; i < real; ++i) {
        const Tokens expected = newest(histories_[row], old + i + 1, window_);
        seen[row].push_back(sorted(read.visible(place, i)));
        own[row].push_back(block[row][static_cast<size_t>(i)]);
        ASSERT_EQ(seen[row].back(), expected)
            << "window " << window_ << " row " << row << " query " << i;
        ++counts_.queries;
        counts_.block_queries += many;
        counts_.rotated_block_queries += many && before.rotated;
        counts_.ancestor_wrong +=
            sorted(seen_under(ancestor, row, i, read.keys.row(place))) != expected;
      }
    }
    if (watcher_) watcher_->write(own, seen);
  }

  static Tokens seen_under(const Mask& mask, size_t row, int64_t query, const Tokens& keys) {
    Tokens out;
    for (int64_t j = 0; j < mask.columns; ++j)
      if (mask.sees(row, query, j)) out.push_back(keys[static_cast<size_t>(j)]);
    return out;
  }
  static Tokens sorted(Tokens tokens) {
    std::sort(tokens.begin(), tokens.end());
    return tokens;
  }

  Blocks fresh_block(int64_t count) {
    Blocks block;
    for (size_t row = 0; row < histories_.size(); ++row) block.push_back(fresh(count));
    return block;
  }

  void block(uint64_t count) {
    write(fresh_block(static_cast<int64_t>(count)));
    ++counts_.operations[count == 1 ? "decode" : "block"];
  }

  void committed() {
    if (!in_layout()) return;
    const Blocks block = fresh_block(3);
    const auto reads = layout_->append_committed(block);
    Watcher::Seen seen(block.size());
    for (size_t row = 0; row < block.size(); ++row)
      for (size_t i = 0; i < 3; ++i) {
        histories_[row].push_back(block[row][i]);
        const auto count = static_cast<int64_t>(histories_[row].size());
        seen[row].push_back(sorted(reads[i].visible(row, 0)));
        ASSERT_EQ(seen[row].back(), newest(histories_[row], count, window_));
      }
    if (watcher_) watcher_->committed(block, seen);
    ++counts_.operations["committed"];
  }

  void speculative_round() {
    const auto count = static_cast<int64_t>(2 + below(4));
    const Numbers before = position().offsets;
    Numbers keep;
    for (size_t row = 0; row < histories_.size(); ++row)
      keep.push_back(static_cast<int64_t>(below(static_cast<uint64_t>(count) + 1)));
    if (below(3) == 0) keep.assign(keep.size(), keep[0]);
    if (in_layout()) layout_->spec_round_begin();
    if (watcher_) watcher_->begin_round(count);
    write(fresh_block(count));
    for (size_t row = 0; row < keep.size(); ++row)
      histories_[row].resize(static_cast<size_t>(before[row] + keep[row]));
    if (in_layout()) {
      layout_->spec_round_rollback(keep);
    } else {
      for (size_t row = 0; row < keep.size(); ++row)
        rows_[row].rollback(before[row], keep[row], true);
      positions_->sync(rows_);
    }
    if (watcher_) watcher_->end_round(keep);
    ++counts_.operations[in_layout() ? "rollback of a ring" : "rollback of aligned rows"];
  }

  void padded_prefill() {
    if (!in_layout()) return;
    Numbers lengths;
    for (size_t row = 0; row < histories_.size(); ++row)
      lengths.push_back(static_cast<int64_t>(below(7)));
    const int64_t width = *std::max_element(lengths.begin(), lengths.end());
    if (width == 0) return;
    layout_->prepare_prefill(lengths);
    for (int64_t done = 0; done < width;) {
      const int64_t count = std::min(width - done, static_cast<int64_t>(1 + below(4)));
      Blocks block(lengths.size());
      for (size_t row = 0; row < lengths.size(); ++row)
        for (int64_t i = done; i < done + count; ++i)
          block[row].push_back(i < lengths[row] ? fresh(1)[0] : kNoToken);
      write(block);
      done += count;
    }
    layout_->finalize_prefill();
    for (size_t row = 0; row < lengths.size(); ++row)
      ASSERT_EQ(layout_->row_offsets()[row], static_cast<int64_t>(histories_[row].size()));
    ++counts_.operations["padded prefill"];
  }

  void trim() {
    const RotatingPosition at = position();
    if (at.total_offset >= window_) return;
    const Numbers& offsets = at.offsets;
    const int64_t most = *std::min_element(offsets.begin(), offsets.end());
    const auto count = static_cast<int64_t>(below(static_cast<uint64_t>(most) + 1));
    if (watcher_ && !watcher_->may_trim(count)) return;
    if (in_layout()) layout_->trim(count);
    for (AlignedRow& row : rows_) row.trim(count);
    if (!in_layout()) positions_->sync(rows_);
    for (Tokens& history : histories_) history.resize(history.size() - static_cast<size_t>(count));
    if (watcher_) watcher_->trim(count);
    ++counts_.operations["trim"];
  }

  std::mt19937_64 random_;
  Counts& counts_;
  Watcher* watcher_;
  int64_t window_ = 1;
  bool speculative_ = false;
  Token next_ = 0;
  std::vector<Tokens> histories_;
  std::vector<AlignedRow> rows_;  // while any row is plain
  std::unique_ptr<RotatingPositions> positions_;
  std::unique_ptr<RotatingLayout> layout_;  // afterwards
};

}  // namespace gyre::oracles
