// Random histories of groups: joins, leaves, clones, blocks, decodes, committed spans, ragged
// rollbacks, conversions at each row's start, trims, saves and loads, steps that fail.
//
// A row is a list of tokens. Whatever happened around it, each query sees exactly the newest
// min(position + 1, window) positions, its attention has the bits, and the row's pages have the
// bytes, of a fresh row that only ever saw the surviving tokens, one by one and alone. The visible
// sets are also those of the documents' rings (tests/oracles).
//
// GYRE_HISTORIES = how many (1500 if not set), GYRE_HISTORIES_FIRST = the first seed.
// `./dev histories` runs 100,000.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>

#include "kv/group_fixture.h"
#include "kv/saved_row.h"
#include "oracles/solo_ring.h"

namespace gyre::kv {
namespace {

using namespace testing;  // NOLINT

constexpr size_t kMostRows = 4, kLongest = 190;

// What was met, so that the test can say that it went everywhere.
using Counts = std::map<std::string, long>;

// One row's codes and start.
struct Form {
  std::vector<LayerSpec> layers;
  uint32_t start = 0;
};

// The documents' ring of one row and one window, fed as the row is.
struct Ring {
  explicit Ring(uint32_t window) : ring(window) {}
  oracles::SoloRing ring;
  bool last_was_block = false;
};

struct Member {
  Form form;
  Story story;
  std::vector<uint32_t> checkpoints;  // lengths, ascending; of rows with recurrent layers
  std::vector<Ring> rings;  // of the sliding layers, in order; none: this history has no oracle
};

// Names no two tokens of a row share, so that a key left over from a rolled-back token shows.
oracles::Token name_of(uint32_t token, size_t position) {
  return static_cast<oracles::Token>(position) << 32 | token;
}

class History {
 public:
  History(uint64_t seed, PagePool& pool, PagePool& apart, Workshop& shop, Counts& counts)
      : random_(seed * 0x9e3779b97f4a7c15 + 1),
        pool_(pool),
        apart_(apart),
        shop_(shop),
        counts_(counts),
        with_oracle_(below(4) == 0),
        shape_(random_shape()),
        group_(make_group(pool, shop, shape_)) {
    for (size_t i = 1 + below(3); i > 0; --i) join();
  }

  void run() {
    for (size_t i = 4 + below(7); i > 0 && !::testing::Test::HasFailure(); --i) step();
    for (size_t r = 0; r < members_.size() && !::testing::Test::HasFailure(); ++r) verify(r);
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  bool chance(uint64_t of) { return below(of) == 0; }
  void count(const char* what, long n = 1) {
    counts_[what] += n;
    if (n != 0) log_ += std::string(", ") + what;
  }

  uint32_t random_window() {
    static constexpr uint32_t kWindows[] = {1, 2, 3, 5, 8, 17, 33, 63, 64, 65, 70, 100};
    return kWindows[below(std::size(kWindows))];
  }

  std::vector<LayerSpec> random_shape() {
    switch (below(7)) {
      case 5:
        return {recurrent(), full()};
      case 6:
        return {sliding(random_window()), recurrent(), recurrent(), donor(0)};
      case 0:
        return {full()};
      case 1:
        return {sliding(random_window())};
      case 2:
        return {sliding(random_window()), full(), donor(0)};
      case 3:
        return {sliding(random_window()), sliding(random_window()), donor(0)};
      default:
        return {full(), sliding(random_window())};
    }
  }

  Form random_form() {
    static const LayerCode kCodes[] = {
        kBf16Code,   affine(8, 8), affine(4, 4, 64), affine(3, 5),   turbo(8, 4),
        turbo(8, 3), turbo(4, 2),  anchored(4, 4),   anchored(5, 4), anchored(6, 3)};
    Form form{shape_, 0};
    const LayerCode one = kCodes[below(std::size(kCodes))];
    const bool uniform = !chance(4);  // else as a configuration: by layer
    for (LayerSpec& layer : form.layers) {
      if (layer.donor < 0 && layer.place != Place::recurrent)
        layer.layout.code = uniform ? one : kCodes[below(std::size(kCodes))];
    }
    if (chance(2)) form.start = static_cast<uint32_t>(chance(3) ? below(150) : below(40));
    return form;
  }

  std::vector<uint32_t> fresh_tokens(size_t n) {
    std::vector<uint32_t> out(n);
    for (uint32_t& token : out) token = static_cast<uint32_t>(below(1u << 31));
    return out;
  }

  void step() {
    switch (members_.empty() ? 0 : below(17)) {
      case 16:
        return checkpoint();
      case 0:
        return join();
      case 1:
        return filter();
      case 2:
        return clone();
      case 3:
        return trim();
      case 4:
        return save_and_load();
      case 5:
        return fail_step();
      case 6:
        return committed();
      case 7:
      case 8:
      case 9:
        return round();
      case 10:
        return block(1);
      case 11:
        return block(150);
      default:
        return block(chance(3) ? 1 : 40);
    }
  }

  void join() {
    if (members_.size() == kMostRows) return;
    Member member{random_form(), {}, {}, {}};
    for (const LayerSpec& layer : shape_) {
      if (with_oracle_ && layer.donor < 0 && layer.place == Place::sliding)
        member.rings.emplace_back(layer.window);
    }
    Sequence row = open(pool_, member.form.layers, member.form.start);
    const size_t at = below(members_.size() + 1);
    std::vector<RowSource> sources;
    for (size_t i = 0; i < members_.size(); ++i) sources.push_back({.row = &group_.row(i)});
    sources.insert(sources.begin() + static_cast<ptrdiff_t>(at), {.row = &row});
    ASSERT_TRUE(group_.merge_rows(sources).ok());
    members_.insert(members_.begin() + static_cast<ptrdiff_t>(at), std::move(member));
    count("join");
  }

  void take(const std::vector<size_t>& keep) {
    std::vector<Member> kept;
    for (size_t row : keep) kept.push_back(members_[row]);
    ASSERT_TRUE(group_.filter_rows(keep).ok());
    members_ = std::move(kept);
  }

  // Leaves and reorders.
  void filter() {
    if (chance(2)) verify(below(members_.size()));
    std::vector<size_t> keep;
    for (size_t i = 0; i < members_.size(); ++i) {
      if (!chance(3)) keep.push_back(i);
    }
    std::shuffle(keep.begin(), keep.end(), random_);
    take(keep);
    count("filter");
  }

  void clone() {
    if (members_.size() == kMostRows) return;
    std::vector<size_t> keep(members_.size());
    for (size_t i = 0; i < keep.size(); ++i) keep[i] = i;
    keep.push_back(below(members_.size()));
    std::shuffle(keep.begin(), keep.end(), random_);
    take(keep);
    count("clone");
  }

  // Up to `most` tokens for each row, none for some.
  std::vector<std::vector<uint32_t>> random_tokens(size_t most) {
    std::vector<std::vector<uint32_t>> ids(members_.size());
    for (size_t r = 0; r < ids.size(); ++r) {
      const size_t room = kLongest - members_[r].story.tokens.size();
      size_t n = most == 1 ? 1 : chance(5) ? 0 : 1 + below(most);
      ids[r] = fresh_tokens(std::min(n, room));
    }
    return ids;
  }

  // One step: the group's, the stories' and the oracle's. Visible sets are looked at query by
  // query.
  void write(const std::vector<std::vector<uint32_t>>& ids) {
    std::vector<Story> stories;
    std::vector<uint32_t> before;
    for (size_t r = 0; r < ids.size(); ++r) {
      before.push_back(group_.row(r).length());
      stories.push_back(std::move(members_[r].story));
      if (!ids[r].empty()) look_around(r, ids[r].size());
    }
    ASSERT_TRUE(append(group_, stories, ids).ok());
    for (size_t r = 0; r < ids.size(); ++r) {
      members_[r].story = std::move(stories[r]);
      if (!ids[r].empty()) check_visible(r, before[r], ids[r]);
    }
  }

  // Counts what a step of n tokens will meet.
  void look_around(size_t r, size_t n) {
    const Sequence& row = group_.row(r);
    const uint32_t from = row.length(), to = from + static_cast<uint32_t>(n);
    count("page crossings", to / 64 - from / 64);
    bool coded = false;
    for (size_t layer = 0; layer < row.layers(); ++layer) {
      if (!row.owns(layer)) continue;
      coded = coded || row.coded_from(layer) != UINT32_MAX;
      const uint32_t window = row.spec(layer).window;
      if (window != 0 && to > window) count("wraps");
      if (window != 0 && from == 0 && to > window) count("prompts longer than a window");
    }
    if (coded && row.start() > 0 && from <= row.start() && to > row.start()) count("conversions");
    row.for_each_part([&](const StoredPart& part) {
      if (part.shared && is_page(part.part) && part.page == from / 64 && from % 64 != 0)
        count("shared pages copied");
    });
  }

  void check_visible(size_t r, uint32_t from, const std::vector<uint32_t>& tokens) {
    const Sequence& row = group_.row(r);
    std::vector<oracles::Token> names;
    for (size_t i = 0; i < tokens.size(); ++i) names.push_back(name_of(tokens[i], from + i));
    size_t at = 0;
    for (size_t layer = 0; layer < row.layers(); ++layer) {
      if (shape_[layer].place == Place::recurrent) continue;
      const LayerSpec& spec =
          shape_[shape_[layer].donor < 0 ? layer : static_cast<size_t>(shape_[layer].donor)];
      std::optional<oracles::AttentionRead> read;
      if (shape_[layer].donor < 0 && spec.place == Place::sliding && with_oracle_) {
        Ring& ring = members_[r].rings[at++];
        read = ring.ring.append(names);
        ring.last_was_block = names.size() > 1;
      }
      for (uint32_t i = 0; i < tokens.size(); ++i) {
        const uint32_t p = from + i;
        const uint32_t most = spec.place == Place::full ? p + 1 : std::min(p + 1, spec.window);
        const Visible seen = row.visible(layer, p);
        ASSERT_EQ(seen.end, p + 1);
        ASSERT_EQ(seen.end - seen.begin, most);
        if (!read) continue;
        auto theirs = read->visible(0, i);
        std::sort(theirs.begin(), theirs.end());
        ASSERT_EQ(theirs.size(), most);
        for (uint32_t j = 0; j < most; ++j)
          ASSERT_EQ(theirs[j], name_of(members_[r].story.tokens[seen.begin + j], seen.begin + j));
        count("visible sets of the oracle");
      }
    }
    count("queries", static_cast<long>(tokens.size()));
  }

  // The story ends at `length`; the oracle's rings too, by their own means where these can.
  void cut(size_t r, size_t length, bool after_block) {
    Member& member = members_[r];
    const size_t lost = member.story.tokens.size() - length;
    member.story.cut(length);
    for (Ring& ring : member.rings) {
      if (lost == 0) continue;
      if (after_block && ring.last_was_block) {
        ring.ring.trim_block(static_cast<int64_t>(lost));
        ring.last_was_block = false;
        continue;
      }
      oracles::SoloRing made(ring.ring.max_size());
      for (size_t i = 0; i < length; ++i) made.append({name_of(member.story.tokens[i], i)});
      ring.ring = made;
      ring.last_was_block = false;
    }
  }

  void block(size_t most) {
    write(random_tokens(most));
    count(most == 1 ? "decode" : "block");
  }

  void committed() {
    auto ids = random_tokens(6);
    std::vector<uint32_t> counts;
    for (const auto& row : ids) counts.push_back(static_cast<uint32_t>(row.size()));
    std::vector<uint32_t> before;
    for (size_t r = 0; r < ids.size(); ++r) {
      before.push_back(group_.row(r).length());
      look_around(r, ids[r].size());
    }
    const Status status = group_.append_committed(counts, [&](Append& step, uint32_t offset) {
      std::vector<uint32_t> now;
      for (uint32_t t = 0; t < step.tokens(); ++t) now.push_back(ids[step.row_of(t)][offset]);
      const auto digests = run_step(step, group_, now);
      for (uint32_t t = 0; t < step.tokens(); ++t) {
        Story& story = members_[step.row_of(t)].story;
        story.tokens.push_back(now[t]);
        story.read.push_back(digests[t]);
      }
      return Status();
    });
    ASSERT_TRUE(status.ok());
    for (size_t r = 0; r < ids.size(); ++r) {
      for (size_t i = 0; i < ids[r].size(); ++i)
        check_visible(r, before[r] + static_cast<uint32_t>(i), {ids[r][i]});
    }
    count("committed span");
  }

  // A round of drafts: in one block or in several steps, then each row keeps what it likes.
  void round() {
    std::vector<uint32_t> drafts;
    std::vector<size_t> lengths;
    for (const Member& member : members_) {
      lengths.push_back(member.story.tokens.size());
      if (lengths.back() + 10 > kLongest) return;
      drafts.push_back(static_cast<uint32_t>(chance(8) ? below(70) : below(9)));
      drafts.back() = std::min<uint32_t>(drafts.back(), kLongest - lengths.back() - 1);
    }
    ASSERT_TRUE(group_.can_begin(drafts));
    ASSERT_TRUE(group_.spec_round_begin(drafts).ok());
    std::vector<std::vector<uint32_t>> ids;
    const bool halves = chance(3);
    for (uint32_t n : drafts) ids.push_back(fresh_tokens((n + 1) / (halves ? 2 : 1)));
    write(ids);
    if (halves) {
      for (size_t r = 0; r < ids.size(); ++r)
        ids[r] = fresh_tokens(below(drafts[r] + 2 - ids[r].size()));
      write(ids);
    }
    std::vector<uint32_t> keep;
    for (size_t r = 0; r < ids.size(); ++r)
      keep.push_back(
          static_cast<uint32_t>(below(members_[r].story.tokens.size() - lengths[r] + 1)));
    if (chance(5)) {
      ASSERT_TRUE(group_.spec_round_commit().ok());
      count("whole rounds");
      return;
    }
    ASSERT_TRUE(group_.spec_round_rollback(keep, replay_toy).ok());
    if (is_recurrent()) count("recurrent rollbacks");
    for (size_t r = 0; r < ids.size(); ++r) {
      const size_t lost = members_[r].story.tokens.size() - lengths[r] - keep[r];
      count(lost == 0 ? "kept rounds" : "rollbacks");
      cut(r, lengths[r] + keep[r], !halves);
    }
  }

  bool is_recurrent() const {
    return std::any_of(shape_.begin(), shape_.end(),
                       [](const LayerSpec& layer) { return layer.place == Place::recurrent; });
  }

  // Every row remembers its recurrent states.
  void checkpoint() {
    if (!is_recurrent()) return;
    for (size_t r = 0; r < members_.size(); ++r) {
      ASSERT_TRUE(group_.row(r).checkpoint().ok());
      const uint32_t length = group_.row(r).length();
      auto& known = members_[r].checkpoints;
      if (length != 0 && (known.empty() || known.back() != length)) known.push_back(length);
    }
    count("checkpoints");
  }

  bool can_trim(size_t r, uint32_t to) const {
    if (to == 0 || to == group_.row(r).length()) return true;
    if (to < group_.minimum_reusable_offset(r)) return false;
    const auto& known = members_[r].checkpoints;
    return !is_recurrent() || std::find(known.begin(), known.end(), to) != known.end();
  }

  // Some positions back, where every row can.
  void trim() {
    std::vector<uint32_t> counts;
    for (size_t r = 0; r < members_.size(); ++r) {
      const auto length = static_cast<uint32_t>(members_[r].story.tokens.size());
      auto n = static_cast<uint32_t>(chance(6) ? length : below(chance(2) ? 100 : 12));
      const auto& known = members_[r].checkpoints;
      if (!known.empty() && chance(2)) n = length - known[below(known.size())];
      const uint32_t to = length - std::min(n, length);
      ASSERT_LE(group_.minimum_reusable_offset(r), length);
      ASSERT_EQ(group_.is_trimmable(r, n), can_trim(r, to));
      if (!can_trim(r, to)) {
        count("trims refused");
        std::vector<uint32_t> all(members_.size(), 0);
        all[r] = n;
        ASSERT_EQ(group_.trim(all).error().code, ErrorCode::unsupported);
      }
      counts.push_back(group_.is_trimmable(r, n) ? n : 0);
    }
    ASSERT_TRUE(group_.trim(counts).ok());
    for (size_t r = 0; r < members_.size(); ++r) {
      const size_t length = members_[r].story.tokens.size();
      if (counts[r] != 0 && length != 0) count(is_recurrent() ? "returns to checkpoints" : "trims");
      auto& known = members_[r].checkpoints;
      while (!known.empty() && known.back() > group_.row(r).length()) known.pop_back();
      cut(r, length - std::min<size_t>(counts[r], length), false);
    }
  }

  // A row goes through a state file and takes its own place again.
  void save_and_load() {
    const size_t r = below(members_.size());
    const Story& story = members_[r].story;
    const std::vector<int32_t> tokens(story.tokens.begin(), story.tokens.end());
    const RowOwner owner{"model", "scheme"};
    auto bytes = pack_row(group_.row(r), owner, tokens, "note");
    ASSERT_TRUE(bytes.ok()) << bytes.error().text;
    auto file = StateFile::parse(bytes->span(), "state");
    ASSERT_TRUE(file.ok()) << file.error().text;
    const Sequence blank = open(pool_, members_[r].form.layers, members_[r].form.start);
    auto loaded = load_row(*file, owner, blank);
    ASSERT_TRUE(loaded.ok()) << loaded.error().text;
    EXPECT_SAME_ROW(*loaded, group_.row(r));
    std::vector<RowSource> sources;
    for (size_t i = 0; i < members_.size(); ++i)
      sources.push_back({.row = i == r ? &*loaded : &group_.row(i)});
    ASSERT_TRUE(group_.merge_rows(sources).ok());
    members_[r].checkpoints.clear();  // a file holds the state alone
    count("saves and loads");
  }

  // A step whose n-th allocation fails, or that is written and dropped: nothing happened.
  void fail_step() {
    // Copies of last pages that were shared may stay: they hold the same positions.
    size_t most = pool_.bytes_in_use();
    for (size_t r = 0; r < members_.size(); ++r) {
      group_.row(r).for_each_part([&](const StoredPart& part) {
        if (part.shared) most += PagePool::page_cost(part.bytes.size());
      });
    }
    std::vector<uint32_t> counts;
    std::vector<uint32_t> all;
    for (const auto& row : random_tokens(80)) {
      counts.push_back(static_cast<uint32_t>(row.size()));
      all.insert(all.end(), row.begin(), row.end());
    }
    if (chance(2)) {
      fail_allocation_after(static_cast<long>(below(12)));
      auto step = group_.append_window(counts);
      fail_allocation_after(-1);
      if (!step.ok()) {
        ASSERT_EQ(step.error().code, ErrorCode::out_of_memory);
        count("failed steps");
      }
    } else {
      auto step = group_.append_window(counts);
      ASSERT_TRUE(step.ok());
      run_step(*step, group_, all);
      count("dropped steps");
    }
    ASSERT_LE(pool_.bytes_in_use(), most);
  }

  // The row against one that saw its tokens one by one, alone.
  void verify(size_t r) {
    Member& member = members_[r];
    SCOPED_TRACE("row " + std::to_string(r) + ": " + group_.row(r).signature() + log_);
    const Sequence& row = group_.row(r);
    ASSERT_EQ(row.length(), member.story.tokens.size());
    // Trimmed to exactly its start a coded row stays coded, where the fresh one is plain yet: what
    // a query reads is the same, and one more token makes the bytes so.
    if (row.length() == member.form.start && row.length() != 0 && row.holds_codes() &&
        !row.holds_plain()) {
      std::vector<std::vector<uint32_t>> ids(members_.size());
      ids[r] = fresh_tokens(1);
      write(ids);
    }
    auto [other, story] =
        alone(apart_, shop_, member.form.layers, member.form.start, member.story.tokens);
    ASSERT_EQ(member.story.read, story.read);
    EXPECT_SAME_ROW(group_.row(r), other.row(0));
    compare_pages(group_.row(r), other.row(0));
    count("rows verified");
  }

  // Byte for byte, without same_bytes. What lies behind the length in a page that was shared may
  // still be another row's, until a step writes there.
  void compare_pages(const Sequence& a, const Sequence& b) {
    const auto pages = [](const Sequence& row) {
      std::vector<std::vector<std::byte>> out;
      row.for_each_part([&](const StoredPart& part) {
        out.emplace_back(part.bytes.begin(), part.bytes.end());
        if (is_page(part.part) && part.page == row.length() / 64)
          kernels::erase_positions(part.layout, out.back().data(), row.length() % 64, 64);
      });
      return out;
    };
    const auto mine = pages(a);
    ASSERT_EQ(mine, pages(b));
    count("pages compared", static_cast<long>(mine.size()));
  }

  std::mt19937_64 random_;
  PagePool &pool_, &apart_;
  Workshop& shop_;
  Counts& counts_;
  bool with_oracle_;
  std::vector<LayerSpec> shape_;
  KvGroup group_;
  std::vector<Member> members_;
  std::string log_;  // what was counted, in order
};

long number_from(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::strtol(text, nullptr, 10);
}

TEST(KvHistories, EveryRowIsAsIfItHadBeenAlone) {
  const long histories = number_from("GYRE_HISTORIES", 1500);
  const long first = number_from("GYRE_HISTORIES_FIRST", 0);
  Counts counts;
  PagePool pool(0), apart(0);
  pool.set_placement_seed(0x5eed);
  Workshop best, scalar(kernels::Isa::scalar);
  for (long seed = first; seed < first + histories; ++seed) {
    SCOPED_TRACE("GYRE_HISTORIES_FIRST=" + std::to_string(seed) + " GYRE_HISTORIES=1");
    // Now and then the definition itself runs the history.
    Workshop& shop = seed % 32 == 31 ? scalar : best;
    {
      History history(static_cast<uint64_t>(seed), pool, apart, shop, counts);
      history.run();
    }
    if (::testing::Test::HasFailure()) return;
    ASSERT_EQ(pool.bytes_in_use(), 0u);
    ASSERT_EQ(apart.bytes_in_use(), 0u);
  }
  for (const auto& [what, n] : counts) std::printf("  %-30s %ld\n", what.c_str(), n);
  if (histories < 1000) return;  // a seed looked at by itself
  for (const char* what : {"wraps",
                           "page crossings",
                           "conversions",
                           "rollbacks",
                           "recurrent rollbacks",
                           "checkpoints",
                           "returns to checkpoints",
                           "shared pages copied",
                           "join",
                           "filter",
                           "clone",
                           "trims",
                           "trims refused",
                           "saves and loads",
                           "failed steps",
                           "dropped steps",
                           "committed span",
                           "decode",
                           "block",
                           "whole rounds",
                           "prompts longer than a window",
                           "visible sets of the oracle",
                           "rows verified",
                           "pages compared"})
    EXPECT_GT(counts[what], 0) << what;
}

}  // namespace
}  // namespace gyre::kv
