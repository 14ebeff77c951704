// The same random histories on pages and on the documents' rings: what a query reads of the pages
// is what the oracle's mask shows.
//
// A token's V is 1 in the channel token mod 64, its K is random, and queries are zero: attention
// then weighs all keys alike, so its output times their number counts them by channel. Rows mix
// codes, starts and lengths.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kv/group.h"
#include "kv/sequence_fixture.h"
#include "oracles/random_history.h"

namespace gyre::oracles {
namespace {

constexpr uint32_t kDim = 64;

class Pages final : public Watcher {
 public:
  int64_t reads = 0, coded_reads = 0, turned_reads = 0, floors_met = 0;

  void start(int64_t window) override {
    window_ = static_cast<uint32_t>(window);
    EXPECT_TRUE(scratch_.reserve(1, 1, kDim, kv::testing::kMost).ok());
    tools_ = {&kernels::attention_ops(kernels::available_isas().back()), &threads_, &scratch_};
    auto made = kv::KvGroup::make(blank(0), tools_);
    ASSERT_TRUE(made.ok());
    group_.emplace(std::move(*made));
  }

  void join(const std::vector<Tokens>& rows) override {
    std::vector<kv::Sequence> own;
    for (const Tokens& tokens : rows) {
      own.push_back(blank(++made_));
      feed(own.back(), tokens);
      histories_.push_back(tokens);
    }
    std::vector<kv::RowSource> sources = {{.group = &*group_}};
    for (const kv::Sequence& row : own) sources.push_back({.row = &row});
    ASSERT_TRUE(group_->merge_rows(sources).ok());
  }

  void realign() override {
    const kv::RowSource sources[] = {{.group = &*group_}};
    ASSERT_TRUE(group_->merge_rows(sources).ok());
  }

  void filter(const std::vector<size_t>& keep) override {
    ASSERT_TRUE(group_->filter_rows(keep).ok());
    std::vector<Tokens> kept;
    for (const size_t row : keep) kept.push_back(histories_[row]);
    histories_ = std::move(kept);
  }

  void write(const std::vector<Tokens>& tokens, const Seen& seen) override {
    std::vector<uint32_t> counts;
    std::vector<Tokens> shown;
    Tokens all;
    for (size_t row = 0; row < tokens.size(); ++row) {
      counts.push_back(static_cast<uint32_t>(tokens[row].size()));
      all.insert(all.end(), tokens[row].begin(), tokens[row].end());
      shown.insert(shown.end(), seen[row].begin(), seen[row].end());
      histories_[row].insert(histories_[row].end(), tokens[row].begin(), tokens[row].end());
    }
    auto step = group_->append_window(counts);
    ASSERT_TRUE(step.ok()) << step.error().text;
    run(*step, all, shown);
    ASSERT_TRUE(step->commit().ok());
  }

  void committed(const std::vector<Tokens>& tokens, const Seen& seen) override {
    const std::vector<uint32_t> counts(tokens.size(), static_cast<uint32_t>(tokens[0].size()));
    for (size_t row = 0; row < tokens.size(); ++row)
      histories_[row].insert(histories_[row].end(), tokens[row].begin(), tokens[row].end());
    const Status done =
        group_->append_committed(counts, [&](kv::Append& step, uint32_t offset) -> Status {
          Tokens now;
          std::vector<Tokens> shown;
          for (uint32_t t = 0; t < step.tokens(); ++t) {
            now.push_back(tokens[step.row_of(t)][offset]);
            shown.push_back(seen[step.row_of(t)][offset]);
          }
          run(step, now, shown);
          return {};
        });
    ASSERT_TRUE(done.ok());
  }

  void begin_round(int64_t tokens) override {
    const uint32_t drafts[] = {static_cast<uint32_t>(tokens - 1)};
    ASSERT_TRUE(group_->can_begin(drafts));
    ASSERT_TRUE(group_->spec_round_begin(drafts).ok());
    round_ = tokens;
  }

  void end_round(const Numbers& keep) override {
    const std::vector<uint32_t> numbers(keep.begin(), keep.end());
    const Status done = group_->spec_round_rollback(numbers);
    ASSERT_TRUE(done.ok()) << done.error().text;
    for (size_t row = 0; row < keep.size(); ++row)
      histories_[row].resize(histories_[row].size() - static_cast<size_t>(round_ - keep[row]));
  }

  // A row whose bf16 past is gone cannot go back below its start; the documents' floor.
  bool may_trim(int64_t tokens) override {
    bool every = true;
    for (size_t row = 0; row < histories_.size(); ++row) {
      const auto count = static_cast<uint32_t>(tokens);
      const bool may = group_->is_trimmable(row, count);
      const uint32_t length = group_->row(row).length() - count;
      EXPECT_EQ(may, length == 0 || length >= group_->minimum_reusable_offset(row));
      every &= may;
    }
    floors_met += !every;
    return every;
  }

  void trim(int64_t tokens) override {
    const std::vector<uint32_t> counts(histories_.size(), static_cast<uint32_t>(tokens));
    ASSERT_TRUE(group_->trim(counts).ok());
    for (Tokens& history : histories_) history.resize(history.size() - static_cast<size_t>(tokens));
  }

 private:
  // Rows alternate between bf16, 8-bit codes, and 8-bit codes from a position on.
  kv::Sequence blank(uint32_t number) {
    const LayerCodes codes = code_of(number);
    const kv::LayerSpec layers[] = {kv::testing::sliding(window_, codes.code),
                                    kv::testing::full(codes.code)};
    auto made = kv::Sequence::make(pool_, {layers, kv::testing::kMost, codes.start});
    EXPECT_TRUE(made.ok());
    return std::move(*made);
  }
  struct LayerCodes {
    kernels::LayerCode code;
    uint32_t start;
  };
  static LayerCodes code_of(uint32_t number) {
    const kernels::LayerCode coded = kv::testing::affine(8, 8, 64);
    if (number % 3 == 0) return {kernels::kBf16Code, 0};
    return {coded, number % 3 == 1 ? 0 : 5 * number};
  }

  // A row's past, alone and in one piece.
  void feed(kv::Sequence& row, const Tokens& tokens) {
    if (tokens.empty()) return;
    auto alone = kv::KvGroup::make(blank(0), tools_);
    const kv::Sequence* rows[] = {&row};
    ASSERT_TRUE(alone->adopt_rows(rows).ok());
    const uint32_t counts[] = {static_cast<uint32_t>(tokens.size())};
    auto step = alone->append_window(counts);
    ASSERT_TRUE(step.ok());
    for (size_t layer = 0; layer < 2; ++layer) write_layer(*step, layer, tokens);
    ASSERT_TRUE(step->commit().ok());
    row = std::move(*alone->extract_row(0));
  }

  void write_layer(kv::Append& step, size_t layer, const Tokens& tokens) {
    std::vector<float> k, v(tokens.size() * kDim, 0.0f);
    for (size_t t = 0; t < tokens.size(); ++t) {
      const auto row = kv::testing::fake_row(7, layer, static_cast<uint32_t>(t), false, kDim);
      k.insert(k.end(), row.begin(), row.end());
      v[t * kDim + static_cast<size_t>(tokens[t]) % kDim] = 1.0f;
    }
    EXPECT_TRUE(step.write(layer, k.data(), v.data(), nullptr));
  }

  // Writes and reads both layers; shown: what the oracle's mask of the sliding one shows.
  void run(kv::Append& step, const Tokens& tokens, const std::vector<Tokens>& shown) {
    const size_t count = tokens.size();
    ASSERT_EQ(step.tokens(), count);
    const std::vector<float> q(count * kDim, 0.0f);
    std::vector<float> out(q.size());
    for (size_t layer = 0; layer < 2; ++layer) {
      write_layer(step, layer, tokens);
      step.read(layer,
                {.heads = 1, .q = q.data(), .q_ld = kDim, .out = out.data(), .out_ld = kDim});
      for (uint32_t t = 0; t < count; ++t) {
        const size_t row = step.row_of(t);
        const Tokens& history = histories_[row];
        const Tokens past(history.begin(), history.begin() + step.position(t) + 1);
        ASSERT_EQ(past.back(), tokens[t]);
        compare(&out[t * kDim], layer == 0 ? shown[t] : past);
        const kv::Sequence& held = group_->row(row);
        coded_reads += step.position(t) >= held.coded_from(layer);
      }
    }
    for (const Tokens& tokens_seen : shown) turned_reads += tokens_seen.size() == window_;
  }

  void compare(const float* out, const Tokens& expected) {
    std::vector<int> counts(kDim, 0);
    for (const Token token : expected) ++counts[static_cast<size_t>(token) % kDim];
    for (uint32_t d = 0; d < kDim; ++d)
      ASSERT_NEAR(out[d] * static_cast<float>(expected.size()), counts[d], 0.3) << "channel " << d;
    ++reads;
  }

  kv::PagePool pool_{0};
  ThreadPool threads_{1};
  kernels::AttentionScratch scratch_;
  kv::GroupTools tools_;
  uint32_t window_ = 0, made_ = 0;
  int64_t round_ = 0;
  std::vector<Tokens> histories_;
  std::optional<kv::KvGroup> group_;
};

TEST(GroupOracle, PagesShowWhatTheDocumentsMasksShow) {
  Counts counts;
  int64_t reads = 0, coded = 0, turned = 0, floors = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pages pages;
    History history(seed, counts, &pages);
    for (int step = 0; step < 25 && !testing::Test::HasFailure(); ++step) history.step();
    if (testing::Test::HasFailure()) return;
    reads += pages.reads;
    coded += pages.coded_reads;
    turned += pages.turned_reads;
    floors += pages.floors_met;
  }
  EXPECT_GT(reads, 20'000);
  RecordProperty("reads", std::to_string(reads));
  RecordProperty("coded", std::to_string(coded));
  RecordProperty("turned", std::to_string(turned));
  RecordProperty("floors", std::to_string(floors));
  EXPECT_GT(coded, 10'000);
  EXPECT_GT(turned, 8'000);
  EXPECT_GT(floors, 0);
  for (const char* operation :
       {"join", "adopt", "realign", "filter", "decode", "block", "committed", "rollback of a ring",
        "rollback of aligned rows", "padded prefill", "trim"})
    EXPECT_GT(counts.operations[operation], 20) << operation;
}

// Masks "", "causal" and arrays of the speculative layout, around total + N = window, padded rows
// or not: always the interval that pages are read with.
TEST(GroupOracle, EveryKindOfMaskIsTheIntervalOfPages) {
  constexpr int64_t kWindow = 6;
  kv::PagePool pool(0);
  const kv::Sequence row = kv::testing::open(pool, {kv::testing::sliding(kWindow)});
  std::map<MaskKind, int> kinds;
  for (int64_t a = 0; a <= 14; ++a) {
    for (int64_t b = 0; b <= 14; ++b) {
      for (int64_t n = 1; n <= 7; ++n) {
        SpeculativeRotatingLayout layout(kWindow, 64, 4);
        SoloRing first(kWindow, quantized_kind(4, 64)), second = first;
        if (a > 0) first.append(run(0, a));
        if (b > 0) second.append(run(0, b));
        const RotatingLayout::Source sources[] = {&first, &second};
        layout.merge_rows(sources);
        const MaskKind kind = layout.make_mask(n).kind;
        const auto read = layout.append_window({run(a, n), run(b, n)});
        for (int64_t i = 0; i < n; ++i) {
          for (const size_t r : {size_t{0}, size_t{1}}) {
            const int64_t at = (r == 0 ? a : b) + i;
            const kernels::Visible seen = row.visible(0, static_cast<uint32_t>(at));
            Tokens shown = read.visible(r, i);
            std::sort(shown.begin(), shown.end());
            ASSERT_EQ(shown, run(seen.begin, seen.end - seen.begin)) << a << " " << b << " " << n;
          }
        }
        ++kinds[kind];
      }
    }
  }
  EXPECT_GT(kinds[MaskKind::none], 4);
  EXPECT_GT(kinds[MaskKind::causal], 10);
  EXPECT_GT(kinds[MaskKind::array], 1000);
}

}  // namespace
}  // namespace gyre::oracles
