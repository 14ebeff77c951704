// Sequences against a plain model: the set of positions that must still be readable.
#include "kv/sequence.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace gyre::kv {
namespace {

constexpr uint32_t kMax = 100'000;

LayerSpec full(uint32_t heads = 1, uint32_t dim = 8) {
  return {Place::full, 0, {heads, dim, dim, kernels::kBf16Code}, -1};
}
LayerSpec sliding(uint32_t window, uint32_t dim = 8) {
  return {Place::sliding, window, {1, dim, dim, kernels::kBf16Code}, -1};
}
LayerSpec donor(int of) {
  return {Place::full, 0, {}, of};
}

Sequence open(PagePool& pool, std::vector<LayerSpec> layers, uint32_t max = kMax) {
  auto made = Sequence::make(pool, {layers, max});
  EXPECT_TRUE(made.ok()) << made.error().text;
  return std::move(*made);
}

TEST(Sequence, ReservesWholePagesAndCommits) {
  PagePool pool(0);
  Sequence s = open(pool, {full(), full(2, 16)});
  const size_t page = 64 * 8 * 4, wide = 64 * 2 * 16 * 4;
  EXPECT_EQ(s.projected_bytes(65), 2 * (page + wide));
  ASSERT_TRUE(s.reserve(65).ok());
  EXPECT_EQ(s.bytes(), 2 * (page + wide));
  EXPECT_EQ(pool.bytes_in_use(), s.bytes());
  EXPECT_EQ(s.length(), 0u);
  EXPECT_EQ(s.reserved(), 65u);
  EXPECT_FALSE(s.commit(66).ok());
  ASSERT_TRUE(s.commit(65).ok());
  EXPECT_EQ(s.length(), 65u);
  EXPECT_EQ(s.projected_bytes(63), 0u);
  EXPECT_EQ(s.projected_bytes(64), page + wide);
  EXPECT_NE(s.view(1, false).page(63), s.view(1, false).page(64));
  EXPECT_EQ(s.view(1, false).page(64), s.view(1, false).pages[1]);
  EXPECT_EQ(s.view(0, false).page(128), nullptr);
}

TEST(Sequence, AWindowReleasesWhatNobodyCanSee) {
  for (uint32_t window : {1u, 2u, 5u, 63u, 64u, 65u, 100u, 512u}) {
    PagePool pool(0);
    Sequence s = open(pool, {sliding(window)});
    for (uint32_t t = 0; t < 3 * window + 200; ++t) {
      ASSERT_TRUE(s.reserve(1).ok());
      const Visible seen = s.visible(0, t);
      EXPECT_EQ(seen.begin, t + 1 > window ? t + 1 - window : 0);
      EXPECT_EQ(seen.end, t + 1);
      for (uint32_t p = seen.begin; p < seen.end; ++p) ASSERT_NE(s.view(0, false).page(p), nullptr);
      if (seen.begin >= 64) {
        EXPECT_EQ(s.view(0, false).page(seen.begin - 64), nullptr);
      }
      ASSERT_TRUE(s.commit(1).ok());
    }
    EXPECT_LE(s.bytes(), ((window + 126) / 64 + 1) * size_t{64 * 8 * 4});
  }
}

TEST(Sequence, APromptLongerThanTheWindowKeepsItsPagesUntilCommit) {
  PagePool pool(0);
  Sequence s = open(pool, {sliding(10), full()});
  ASSERT_TRUE(s.reserve(1000).ok());
  for (uint32_t p = 0; p < 1000; ++p) ASSERT_NE(s.view(0, false).page(p), nullptr);
  ASSERT_TRUE(s.commit(1000).ok());
  EXPECT_EQ(s.view(0, false).page(959), nullptr);
  EXPECT_NE(s.view(0, false).page(991), nullptr);
  EXPECT_NE(s.view(1, false).page(0), nullptr);
}

TEST(Sequence, TruncateIsRefusedOnlyWhereAWindowHasMovedOn) {
  PagePool pool(0);
  Sequence s = open(pool, {sliding(70), full()});
  ASSERT_TRUE(s.reserve(400).ok());
  ASSERT_TRUE(s.commit(400).ok());
  // The query at 400 sees 331 and later; page 5 starts at 320.
  EXPECT_EQ(s.minimum_reusable_length(), 320u + 70 - 1);
  const size_t held = s.bytes();
  const Status refused = s.truncate(388);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().text.find("389"), std::string::npos);
  EXPECT_EQ(s.length(), 400u);
  EXPECT_EQ(s.bytes(), held);
  EXPECT_FALSE(s.truncate(401).ok());
  ASSERT_TRUE(s.truncate(389).ok());
  EXPECT_EQ(s.length(), 389u);
  for (uint32_t p = s.visible(0, 389).begin; p < 389; ++p)
    EXPECT_NE(s.view(0, false).page(p), nullptr);
  ASSERT_TRUE(s.truncate(0).ok());
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  ASSERT_TRUE(s.reserve(3).ok());
  EXPECT_NE(s.view(0, false).page(0), nullptr);
}

TEST(Sequence, DonorsOwnNothingAndReadTheirLayer) {
  PagePool pool(0);
  Sequence s = open(pool, {donor(2), full(), sliding(7), donor(1)});
  ASSERT_TRUE(s.reserve(10).ok());
  EXPECT_EQ(s.view(0, false).pages, s.view(2, false).pages);
  EXPECT_EQ(s.view(3, false).page(4), s.view(1, false).page(4));
  EXPECT_EQ(s.visible(0, 9).begin, 3u);
  EXPECT_EQ(s.bytes(), 2u * 64 * 8 * 4);
  EXPECT_FALSE(s.owns(0));
  EXPECT_EQ(s.view(0, false).layout.k_dim, 8u);
}

TEST(Sequence, ALatentRowMayHaveNoValues) {
  PagePool pool(0);
  Sequence s = open(pool, {{Place::full, 0, {1, 576, 0, kernels::kBf16Code}, -1}});
  ASSERT_TRUE(s.reserve(1).ok());
  EXPECT_EQ(s.bytes(), 64u * 576 * 2);
}

TEST(Sequence, RefusesLayersThatCannotBe) {
  PagePool pool(0);
  const auto refused = [&](LayerSpec spec) {
    const LayerSpec layers[] = {full(), spec};
    return Sequence::make(pool, {layers, kMax}).error().text;
  };
  EXPECT_NE(refused(sliding(0)).find("KV layer 1: window"), std::string::npos);
  EXPECT_NE(refused(donor(1)).find("donor"), std::string::npos);
  EXPECT_NE(refused(donor(9)).find("donor"), std::string::npos);
  EXPECT_NE(refused({Place::full, 0, {0, 8, 8, {}}, -1}), "");
  EXPECT_NE(refused({Place::full, 0, {1, 7, 8, {}}, -1}), "");
  EXPECT_NE(refused({Place::full, 0, {1, 8, 9, {}}, -1}), "");
  EXPECT_NE(refused({Place::full, 0, {1, 1u << 30, 8, {}}, -1}), "");
  const LayerSpec one[] = {full()};
  EXPECT_EQ(Sequence::make(pool, {one, ~0u}).error().code, ErrorCode::context_overflow);
  Sequence s = open(pool, {full()}, 100);
  EXPECT_EQ(s.reserve(101).error().code, ErrorCode::context_overflow);
  EXPECT_EQ(s.reserve(~0u).error().code, ErrorCode::context_overflow);
  EXPECT_TRUE(s.reserve(100).ok());
}

TEST(Sequence, EveryFailedAllocationLeavesTheSequenceIntact) {
  for (long n = 0;; ++n) {
    PagePool pool(0);
    Sequence s = open(pool, {full(), sliding(30, 16), donor(0), full(8, 128)});
    ASSERT_TRUE(s.reserve(70).ok());
    ASSERT_TRUE(s.commit(70).ok());
    std::memset(s.view(3, false).page(69), 0x5a, 10);
    const size_t held = s.bytes();
    fail_allocation_after(n);
    const Status status = s.reserve(3000);  // new tables, new slabs, many pages
    fail_allocation_after(-1);
    if (status.ok()) {
      EXPECT_GT(n, 20);
      return;
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(s.length(), 70u);
    EXPECT_EQ(s.reserved(), 70u);
    EXPECT_EQ(s.bytes(), held);
    EXPECT_EQ(pool.bytes_in_use(), held);
    EXPECT_EQ(s.view(3, false).page(128), nullptr);
    EXPECT_EQ(s.view(3, false).page(69)[9], std::byte{0x5a});
    ASSERT_TRUE(s.reserve(3000).ok());
    s.reset();
    EXPECT_EQ(pool.bytes_in_use(), 0u);
  }
}

TEST(Sequence, AFullPoolRefusesAllOrNothing) {
  PagePool pool(2 * os::Pages::kStep);
  Sequence s = open(pool, {full(64, 128), sliding(64)});  // 2 MiB a page, and 2 KiB
  ASSERT_TRUE(s.reserve(64).ok());
  ASSERT_TRUE(s.commit(64).ok());
  const size_t held = s.bytes();
  EXPECT_EQ(s.reserve(1).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(s.bytes(), held);
  EXPECT_EQ(pool.bytes_in_use(), held);
  EXPECT_EQ(s.reserved(), 64u);
}

// Random histories. The model is a list of what was written at each position of each layer; after
// each step every position that a later query can see must read back as written.
class History {
 public:
  History(uint32_t seed, PagePool& pool)
      : random_(seed),
        layers_{full(), sliding(1 + random_() % 150), sliding(1), donor(1)},
        sequence_(open(pool, layers_, 4000)),
        written_(layers_.size()) {}

  void step() {
    const uint32_t length = sequence_.length();
    switch (random_() % 8) {
      case 0: {
        const uint32_t to = length == 0 ? 0 : random_() % (length + 1);
        const bool allowed = to == 0 || to >= sequence_.minimum_reusable_length();
        EXPECT_EQ(sequence_.truncate(to).ok(), allowed);
        if (allowed) forget(to);
        break;
      }
      case 1:
        if (random_() % 20 == 0) sequence_.reset(), forget(0);
        break;
      default: {
        const uint32_t n = random_() % (random_() % 4 == 0 ? 300 : 5);
        const bool allowed = length + n <= 4000;
        const size_t before = sequence_.bytes(), projected = sequence_.projected_bytes(n);
        ASSERT_EQ(sequence_.reserve(n).ok(), allowed);
        if (!allowed) break;
        EXPECT_EQ(sequence_.bytes(), before + projected);
        for (uint32_t p = length; p < length + n; ++p) write(p);
        // Queries of the block read before anything is committed.
        for (uint32_t p = length; p < length + n; p += 1 + n / 4) read(p);
        const uint32_t kept = random_() % 3 == 0 ? random_() % (n + 1) : n;
        ASSERT_TRUE(sequence_.commit(kept).ok());
        forget(length + kept);
      }
    }
    EXPECT_EQ(sequence_.length(), written_[0].size());
    if (sequence_.length() != 0) read(sequence_.length());
  }

  const Sequence& sequence() const { return sequence_; }

 private:
  std::byte* cell(size_t layer, uint32_t p) {
    std::byte* page = sequence_.view(layer, false).page(p);
    EXPECT_NE(page, nullptr) << "layer " << layer << " position " << p;
    return page == nullptr ? nullptr : page + p % 64 * 4;
  }
  void write(uint32_t p) {
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      if (!sequence_.owns(layer)) continue;
      const uint32_t value = random_();
      written_[layer].push_back(value);
      if (std::byte* at = cell(layer, p)) std::memcpy(at, &value, 4);
    }
  }
  // What a query at `p` sees, except its own position, which may not be written yet.
  void read(uint32_t p) {
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      const std::vector<uint32_t>& own = written_[sequence_.owns(layer) ? layer : 1];
      const Visible seen = sequence_.visible(layer, p);
      for (uint32_t j = seen.begin; j < std::min<size_t>(seen.end, own.size()); ++j) {
        uint32_t value = 0;
        if (std::byte* at = cell(layer, j)) std::memcpy(&value, at, 4);
        ASSERT_EQ(value, own[j]) << "layer " << layer << " position " << j << " query " << p;
      }
    }
  }
  void forget(uint32_t length) {
    for (auto& layer : written_) {
      if (layer.size() > length) layer.resize(length);
    }
  }

  std::mt19937 random_;
  std::vector<LayerSpec> layers_;
  Sequence sequence_;
  std::vector<std::vector<uint32_t>> written_;
};

TEST(Sequence, RandomHistoriesReadBackWhatWasWritten) {
  PagePool pool(0);
  pool.set_placement_seed(77);
  for (uint32_t seed = 0; seed < 60; ++seed) {
    History a(2 * seed, pool), b(2 * seed + 1, pool);  // two rows share the pool
    for (int i = 0; i < 60; ++i) {
      a.step();
      b.step();
      ASSERT_EQ(pool.bytes_in_use(), a.sequence().bytes() + b.sequence().bytes());
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace gyre::kv
