// Rows with recurrent layers among paged ones: one row, one length, one round.
#include <gtest/gtest.h>

#include <cstring>

#include "base/memory.h"
#include "kv/sequence_fixture.h"
#include "kv/toy_mixer.h"

namespace gyre::kv::testing {
namespace {

const ToyMixer kMixer{2, 4, 8, 3};

LayerSpec recurrent() {
  return {Place::recurrent, 0, {}, -1, kMixer.shape()};
}
// The layers of a hybrid model, with codes from position 70 on.
std::vector<LayerSpec> hybrid() {
  return {recurrent(), recurrent(), full(affine(8, 8)), recurrent(), sliding(40, anchored(4, 4)),
          full()};
}
constexpr uint32_t kStart = 70;

const auto mix = [](size_t, const RecurrentToken& token) { return kMixer.mix(token, nullptr); };

// Position p's token differs by layer and salt.
uint32_t token_id(uint64_t salt, size_t layer, uint32_t p) {
  return static_cast<uint32_t>(salt * 100'000 + layer * 10'000 + p);
}

Status hybrid_step(Sequence& row, uint32_t n, uint64_t salt = 0) {
  GYRE_TRY(row.reserve(n));
  GYRE_TRY(row.convert(scalar_ops(), nullptr));
  const uint32_t begin = row.length();
  write_step(row, begin, begin + n, salt);
  for (size_t layer = 0; layer < row.layers(); ++layer) {
    if (row.recurrent(layer) == nullptr) continue;
    for (uint32_t p = begin; p < begin + n; ++p) {
      const auto input = kMixer.input(token_id(salt, layer, p));
      EXPECT_TRUE(row.recurrent(layer)->advance(
          input.data(), [](const RecurrentToken& token) { return kMixer.mix(token, nullptr); }));
    }
  }
  return row.commit(n);
}

Sequence grown(PagePool& pool, uint32_t length, uint32_t chunk) {
  Sequence row = open(pool, hybrid(), kStart);
  while (row.length() < length)
    EXPECT_TRUE(hybrid_step(row, std::min(chunk, length - row.length())).ok());
  return row;
}

TEST(SequenceRecurrent, AnyChunksGiveTheSameRow) {
  PagePool pool(0);
  const Sequence whole = grown(pool, 100, 100);
  for (const uint32_t chunk : {1u, 7u, 64u}) {
    const Sequence row = grown(pool, 100, chunk);
    EXPECT_SAME_ROW(row, whole);
    EXPECT_EQ(row.digest(), whole.digest());
  }
  const Sequence other = grown(pool, 99, 50);
  EXPECT_FALSE(other.same_bytes(whole));
  EXPECT_NE(whole.signature().find("recurrent"), std::string::npos);
  EXPECT_FALSE(whole.owns(0));
  EXPECT_TRUE(whole.owns(2));
}

TEST(SequenceRecurrent, EveryKeepOfARoundAcrossTheStart) {
  PagePool pool(0);
  for (const uint32_t chunk : {9u, 4u, 1u}) {
    for (uint32_t keep = 0; keep <= 9; ++keep) {
      Sequence row = grown(pool, 66, 66);
      Sequence other = std::move(*row.clone());
      ASSERT_TRUE(row.can_begin(8));
      ASSERT_TRUE(row.begin(8).ok());
      for (uint32_t done = 0; done < 9; done += chunk)
        ASSERT_TRUE(hybrid_step(row, std::min(chunk, 9 - done)).ok());
      ASSERT_TRUE(row.resolve(keep, mix).ok());
      EXPECT_SAME_ROW(row, grown(pool, 66 + keep, 30));
      EXPECT_SAME_ROW(other, grown(pool, 66, 30));
      while (row.length() < 90) ASSERT_TRUE(hybrid_step(row, 1).ok());
      EXPECT_SAME_ROW(row, grown(pool, 90, 30));
    }
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(SequenceRecurrent, APartNeedsTheMixers) {
  PagePool pool(0);
  Sequence row = grown(pool, 10, 10);
  for (const uint32_t keep : {0u, 3u}) {  // nothing and all need no replay
    const uint32_t from = row.length();
    ASSERT_TRUE(row.begin(2).ok());
    ASSERT_TRUE(hybrid_step(row, 3).ok());
    ASSERT_TRUE(row.resolve(keep).ok());
    EXPECT_SAME_ROW(row, grown(pool, from + keep, 4));
  }
  ASSERT_TRUE(row.begin(2).ok());
  ASSERT_TRUE(hybrid_step(row, 3).ok());
  EXPECT_EQ(row.resolve(2).error().code, ErrorCode::internal);
  EXPECT_EQ(row.round(), Round::poisoned);
  row.reset();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  ASSERT_TRUE(hybrid_step(row, 10).ok());
  EXPECT_SAME_ROW(row, grown(pool, 10, 10));
  ASSERT_TRUE(row.begin(2).ok());
  ASSERT_TRUE(hybrid_step(row, 3).ok());
  const auto broken = [](size_t layer, const RecurrentToken& token) {
    return layer != 3 && kMixer.mix(token, nullptr);
  };
  EXPECT_EQ(row.resolve(2, broken).error().code, ErrorCode::non_finite);
  EXPECT_EQ(row.round(), Round::poisoned);
  EXPECT_FALSE(row.reserve(1).ok());
}

TEST(SequenceRecurrent, AStepIsCommittedWholeOrNotAtAll) {
  PagePool pool(0);
  Sequence row = grown(pool, 68, 10);
  ASSERT_TRUE(row.reserve(5).ok());
  ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
  write_step(row, 68, 73);
  const auto input = kMixer.input(1);
  for (const size_t layer : {0u, 1u})
    row.recurrent(layer)->advance(input.data(),
                                  [](const RecurrentToken& t) { return kMixer.mix(t, nullptr); });
  EXPECT_EQ(row.commit(5).error().code, ErrorCode::internal);  // layer 3 has not moved
  EXPECT_EQ(row.commit(1).error().code, ErrorCode::internal);
  EXPECT_EQ(row.length(), 68u);
  ASSERT_TRUE(row.commit(0).ok());
  EXPECT_SAME_ROW(row, grown(pool, 68, 68));
  ASSERT_TRUE(hybrid_step(row, 5).ok());
  EXPECT_SAME_ROW(row, grown(pool, 73, 68));
}

TEST(SequenceRecurrent, TruncationMeetsCheckpoints) {
  PagePool pool(0);
  Sequence row = grown(pool, 75, 10);
  EXPECT_EQ(row.minimum_reusable_length(), 75u);
  EXPECT_EQ(row.reusable_length(74), 0u);
  ASSERT_TRUE(row.checkpoint().ok());
  while (row.length() < 90) ASSERT_TRUE(hybrid_step(row, 3).ok());
  ASSERT_TRUE(row.checkpoint().ok());
  while (row.length() < 96) ASSERT_TRUE(hybrid_step(row, 3).ok());
  Sequence clone = std::move(*row.clone());
  EXPECT_EQ(clone.minimum_reusable_length(), 75u);
  EXPECT_EQ(clone.reusable_length(95), 90u);
  EXPECT_EQ(clone.reusable_length(89), 75u);
  EXPECT_EQ(clone.reusable_length(74), 0u);
  EXPECT_EQ(clone.reusable_length(1000), 96u);
  const Status refused = clone.truncate(91);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().text.find("at 90"), std::string::npos);
  EXPECT_SAME_ROW(clone, row);
  ASSERT_TRUE(clone.truncate(75).ok());
  EXPECT_SAME_ROW(clone, grown(pool, 75, 8));
  ASSERT_TRUE(clone.truncate(0).ok());
  EXPECT_SAME_ROW(clone, open(pool, hybrid(), kStart));
  EXPECT_SAME_ROW(row, grown(pool, 96, 8));
  // A checkpoint that the start makes useless: the row is coded from 70 on.
  Sequence early = grown(pool, 60, 60);
  ASSERT_TRUE(early.checkpoint().ok());
  EXPECT_EQ(early.minimum_reusable_length(), 60u);
  ASSERT_TRUE(hybrid_step(early, 20).ok());
  EXPECT_EQ(early.minimum_reusable_length(), 80u);
  EXPECT_EQ(early.reusable_length(79), 0u);
  EXPECT_FALSE(early.truncate(60).ok());
}

TEST(SequenceRecurrent, BytesAreExactAndRestoredRowsGoOn) {
  PagePool pool(0);
  Sequence row = open(pool, hybrid(), kStart);
  while (row.length() < 90) {
    const size_t before = pool.bytes_in_use();
    const size_t projected = row.projected_bytes(6);
    ASSERT_TRUE(row.reserve(6).ok());
    EXPECT_EQ(pool.bytes_in_use(), before + projected);
    ASSERT_TRUE(hybrid_step(row, 6).ok());
    EXPECT_EQ(pool.bytes_in_use(), row.bytes());
  }
  Sequence back = open(pool, hybrid(), kStart);
  ASSERT_TRUE(back.restore(row.length(), true).ok());
  std::vector<std::span<std::byte>> parts;
  row.for_each_part([&](const StoredPart& part) { parts.push_back(part.bytes); });
  size_t at = 0, states = 0;
  back.for_each_part([&](const StoredPart& part) {
    ASSERT_EQ(part.bytes.size(), parts[at].size());
    std::memcpy(part.bytes.data(), parts[at++].data(), part.bytes.size());
    states += part.part == Part::recurrent;
  });
  EXPECT_EQ(states, 3u);
  EXPECT_SAME_ROW(row, back);
  ASSERT_TRUE(hybrid_step(row, 9).ok());
  ASSERT_TRUE(hybrid_step(back, 9).ok());
  EXPECT_SAME_ROW(row, back);
}

TEST(SequenceRecurrent, EveryFailedAllocation) {
  for (long n = 0;; ++n) {
    PagePool pool(0);
    Sequence other = grown(pool, 60, 60);
    fail_allocation_after(n);
    auto cloned = other.clone();
    Status status = cloned.ok() ? Status() : Status(cloned.error());
    if (status.ok()) status = cloned->checkpoint();
    if (status.ok()) status = cloned->begin(14);
    if (status.ok()) status = hybrid_step(*cloned, 8);
    if (status.ok()) status = hybrid_step(*cloned, 7);
    const bool done = status.ok();
    if (status.ok()) status = cloned->resolve(12, mix);
    const bool resolved = status.ok();
    fail_allocation_after(-1);
    EXPECT_EQ(done, resolved);  // resolve takes nothing
    EXPECT_SAME_ROW(other, grown(pool, 60, 60));
    if (done) {
      EXPECT_GT(n, 20);
      EXPECT_SAME_ROW(*cloned, grown(pool, 72, 60));
      break;
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    if (cloned.ok()) cloned->reset();
    EXPECT_EQ(pool.bytes_in_use(), other.bytes());
  }
}

TEST(SequenceRecurrent, RefusesShapesAndDonors) {
  PagePool pool(0);
  const LayerSpec reads_state[] = {recurrent(), donor(0)};
  EXPECT_EQ(Sequence::make(pool, {reads_state, kMost}).error().code, ErrorCode::bad_file);
  const LayerSpec empty[] = {{Place::recurrent, 0, {}, -1, {}}};
  EXPECT_EQ(Sequence::make(pool, {empty, kMost}).error().code, ErrorCode::bad_file);
}

}  // namespace
}  // namespace gyre::kv::testing
