// Alignment of solo rows to one geometry: the tables, ownership, and single adoption in order.
#include "oracles/aligned_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "oracles/require.h"
#include "oracles/test_tokens.h"

namespace gyre::oracles {
namespace {

SoloRing solo(int64_t window, const std::vector<Tokens>& writes, RowKind kind = {}) {
  SoloRing ring(window, kind);
  for (const Tokens& write : writes) ring.append(write);
  return ring;
}

std::vector<AlignedRow> align(std::vector<SoloRing> rows) {
  auto out = align_rotating_rows(rows);
  EXPECT_TRUE(rows.empty());  // taken over
  return out;
}

TEST(RotatingSourcePosition, StatesOfASoloRing) {
  struct Case {
    std::vector<Tokens> writes;
    int64_t index;
    bool rotated;
  };
  const Case cases[] = {
      {{}, 0, false},                              // empty
      {{run(1, 1)}, 1, false},                     // growing, spare capacity
      {{run(1, 4)}, 4, false},                     // exactly full
      {{run(1, 7)}, 7, false},                     // oversized
      {{run(1, 4), {5}, {6}}, 2, true},            // in the middle of a turn
      {{run(1, 4), {5}, {6}, {7}, {8}}, 4, false}  // turned exactly to the end: temporal again
  };
  for (const Case& c : cases) {
    const SoloRing ring = solo(4, c.writes);
    const RotatingPosition at = rotating_source_position(ring);
    EXPECT_EQ(at.offsets, Numbers{ring.offset()});
    EXPECT_EQ(at.left_pad, Numbers{0});
    EXPECT_EQ(at.total_offset, ring.offset());
    EXPECT_EQ(at.ring_index, c.index);
    EXPECT_EQ(at.rotated, c.rotated) << c.index;
    EXPECT_FALSE(at.prefill_ends);
  }
}

TEST(AlignRotatingRows, ThreeRowsOfWindowFour) {
  auto rows = align({solo(4, {run(1, 6)}), solo(4, {run(11, 2)}), SoloRing(4)});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(text(rows[0].ring().columns().row(0)), "3 4 5 6");
  EXPECT_EQ(text(rows[1].ring().columns().row(0)), "· · 11 12");
  EXPECT_EQ(text(rows[2].ring().columns().row(0)), "· · · ·");
  RotatingPosition at = combined_position(rows);
  EXPECT_EQ(at.left_pad, (Numbers{0, 2, 4}));
  EXPECT_EQ(at.offsets, (Numbers{6, 2, 0}));
  EXPECT_EQ(at.total_offset, 4);
  EXPECT_EQ(at.ring_index, 4);
  EXPECT_FALSE(at.rotated);
  const char* const masks[4][3] = {{"1111", "1011", "1000"},
                                   {"1111", "1111", "1100"},
                                   {"1111", "1111", "1110"},
                                   {"1111", "1111", "1111"}};
  for (int step = 0; step < 4; ++step) {
    const Mask mask = batched_mask(combined_position(rows), 1, 4, false);
    for (size_t row = 0; row < 3; ++row) {
      EXPECT_EQ(mask.text(row, 0), masks[step][row]) << "step " << step << " row " << row;
      rows[row].append({static_cast<Token>(100 * row) + step});
    }
  }
  EXPECT_EQ(combined_position(rows).left_pad, (Numbers{-4, -2, 0}));
}

TEST(AlignRotatingRows, OneWrappedRowKeepsItsPhase) {
  auto rows = align({solo(4, {run(1, 3), {4}, {5}, {6}})});
  const BatchedRing& ring = rows[0].ring();
  EXPECT_EQ(text(ring.columns().row(0)), "5 6 3 4");
  EXPECT_EQ(ring.position().ring_index, 2);
  EXPECT_EQ(ring.position().total_offset, 6);
  EXPECT_TRUE(ring.position().rotated);
  const AttentionRead read = rows[0].append({7});
  EXPECT_EQ(read.mask.text(0, 0), "1111");
  EXPECT_EQ(text(read.keys.row(0)), "5 6 7 4");  // column 2
}

TEST(AlignRotatingRows, OneOversizedRowDropsToTheNewest) {
  auto rows = align({solo(4, {run(1, 3), run(4, 3)})});
  EXPECT_EQ(text(rows[0].ring().columns().row(0)), "1 2 3 4 5 6");
  EXPECT_EQ(rows[0].ring().position().ring_index, 6);
  EXPECT_FALSE(rows[0].ring().position().rotated);
  const AttentionRead read = rows[0].append({7});
  EXPECT_EQ(text(read.keys.row(0)), "7 4 5 6");
  EXPECT_EQ(rows[0].ring().position().left_pad, Numbers{-3});
  EXPECT_EQ(rows[0].ring().position().ring_index, 1);
}

TEST(AlignRotatingRows, NoRowsAndEmptyRows) {
  EXPECT_TRUE(align({}).empty());
  auto rows = align({SoloRing(4), SoloRing(4)});
  EXPECT_EQ(rows[0].ring().columns().count(), 0);
  EXPECT_EQ(combined_position(rows).total_offset, 0);
  EXPECT_EQ(align({SoloRing(4)})[0].offset(), 0);
}

TEST(AlignRotatingRows, WhatNoRingCanAdoptIsRefusedAndKept) {
  for (const size_t others : {size_t{0}, size_t{2}}) {
    std::vector<SoloRing> rows(others, solo(4, {run(1, 5)}));
    rows.emplace_back(4, RowKind{RowKind::Form::foreign});
    try {
      align_rotating_rows(rows);
      FAIL() << "adopted";
    } catch (const PreconditionError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rotating layout cannot adopt kv:foreign"));
    }
    EXPECT_EQ(rows.size(), others + 1);
  }
}

TEST(AlignRotatingRows, WindowsMustAgree) {
  std::vector<SoloRing> rows = {SoloRing(4), SoloRing(5)};
  EXPECT_THROW(align_rotating_rows(rows), PreconditionError);
  EXPECT_EQ(rows.size(), 2u);
}

TEST(AlignRotatingRows, KindsMayDifferAndStay) {
  auto rows = align({solo(4, {run(1, 5)}), solo(4, {run(11, 2)}, quantized_kind(4, 64)),
                     SoloRing(4, quantized_kind(8, 32))});
  EXPECT_TRUE(rows[0].can_convert());
  EXPECT_EQ(rows[1].ring().kind(), quantized_kind(4, 64));
  EXPECT_EQ(rows[2].ring().kind(), quantized_kind(8, 32));
  EXPECT_EQ(rows[1].signature(), "kv:rotating-affine:4:64:4");
}

// Not in the documents: there, such a row's planes come out one column short.
TEST(AlignRotatingRows, ARowThatLostItsNewestColumnIsPadded) {
  SoloRing ring = solo(4, {run(1, 4), run(5, 3)});
  ring.trim_block(3);
  auto rows = align({ring, solo(4, {run(11, 4)})});
  EXPECT_EQ(text(rows[0].ring().columns().row(0)), "· 2 3 4");
  EXPECT_EQ(combined_position(rows).left_pad, (Numbers{1, 0}));
  EXPECT_EQ(text(rows[0].append({8}).visible(0, 0)), "8 2 3 4");
}

TEST(AlignedRow, TheGroupsTotalDecidesWhetherARowTrims) {
  auto rows = align({solo(4, {run(1, 4)}), solo(4, {run(11, 2)})});
  EXPECT_FALSE(rows[1].is_trimmable());  // two tokens of its own, yet the group fills the window
  auto small = align({solo(4, {run(1, 3)}), solo(4, {run(11, 2)})});
  EXPECT_TRUE(small[1].is_trimmable());
  small[1].trim(1);
  EXPECT_EQ(small[1].offset(), 1);
}

TEST(AlignedRow, ExtractGivesAnIndependentRow) {
  auto rows = align({solo(4, {run(1, 6)}), SoloRing(4, quantized_kind(4, 64))});
  rows[0].append(run(7, 3));
  rows[1].append(run(11, 3));
  SoloRing all = rows[0].extract(), limited = rows[0].extract(4);
  EXPECT_EQ(text(all.stored()), "4 5 6 7 8 9");
  EXPECT_EQ(text(limited.stored()), "6 7 8 9");
  EXPECT_EQ(all.offset(), 9);
  all.append({10});
  EXPECT_EQ(rows[0].offset(), 9);
  EXPECT_EQ(text(rows[1].extract().stored()), "11 12 13");
  auto empty = align({SoloRing(4, quantized_kind(4, 64))});
  empty[0].minimum_reusable_offset = 7;
  EXPECT_EQ(empty[0].extract().kind(), quantized_kind(4, 64));
  EXPECT_EQ(empty[0].extract().minimum_reusable_offset, 7);
}

TEST(AlignedRow, ConversionKeepsColumnsPositionAndFloor) {
  SoloRing ring = solo(4, {run(1, 4), {5}});
  ring.minimum_reusable_offset = 3;
  auto rows = align({ring});
  const AlignedRow converted = rows[0].to_quantized(32, 8);
  EXPECT_EQ(converted.ring().columns(), rows[0].ring().columns());
  EXPECT_EQ(converted.ring().position(), rows[0].ring().position());
  EXPECT_EQ(converted.minimum_reusable_offset, 3);
  EXPECT_FALSE(converted.can_convert());
  EXPECT_TRUE(converted.is_quantized());
  EXPECT_THROW(converted.to_quantized(32, 8), PreconditionError);
  EXPECT_THROW(align({SoloRing(4)})[0].to_quantized(32, 8), PreconditionError);
}

TEST(CombinedPosition, RowsMustBeAligned) {
  EXPECT_THROW(combined_position({}), PreconditionError);
  auto rows = align({solo(4, {run(1, 4)}), solo(4, {run(11, 2)})});
  rows[0].append({5});
  EXPECT_THROW(combined_position(rows), PreconditionError);
  rows[1].append({13});
  EXPECT_EQ(combined_position(rows).total_offset, 5);
}

// A single row attends over its keys in the order of the solo ring, three windows further on.
TEST(AlignRotatingRows, OneRowKeepsTheSoloOrder) {
  std::mt19937_64 random(2);
  int64_t writes = 0, blocks = 0, turned = 0;
  for (int history = 0; history < 2000; ++history) {
    const auto window = static_cast<int64_t>(1 + random() % 8);
    SoloRing ring(window);
    Token next = 0;
    auto fresh = [&](uint64_t count) {
      next += static_cast<Token>(count);
      return run(next - static_cast<Token>(count), static_cast<int64_t>(count));
    };
    for (uint64_t i = random() % 9; i > 0; --i)
      ring.append(fresh(random() % 2 == 0 ? 1 : 1 + random() % 5));
    auto rows = align({ring});
    turned += rows[0].ring().position().rotated;
    for (const Token end = next + 3 * window; next < end; ++writes) {
      const Tokens tokens = fresh(random() % 3 == 0 ? 2 + random() % 4 : 1);
      blocks += tokens.size() > 1;
      const AttentionRead alone = ring.append(tokens), grouped = rows[0].append(tokens);
      ASSERT_EQ(grouped.keys, alone.keys) << "history " << history;
      for (int64_t i = 0; i < static_cast<int64_t>(tokens.size()); ++i)
        ASSERT_EQ(grouped.visible(0, i), alone.visible(0, i));
      ASSERT_EQ(rows[0].ring().columns().row(0), ring.stored());
      ASSERT_EQ(rows[0].ring().position().ring_index, ring.index());
    }
  }
  EXPECT_GT(writes, 10'000);
  EXPECT_GT(blocks, 2'000);
  EXPECT_GT(turned, 200);
}

}  // namespace
}  // namespace gyre::oracles
