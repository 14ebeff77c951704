// Codes, delayed start, conversion and anchors: the bytes are a function of the length alone.
#include <gtest/gtest.h>

#include <cstring>

#include "base/fp_env.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kv/sequence_fixture.h"

namespace gyre::kv::testing {
namespace {

// Every code, on full layers and on windows that are shorter than, equal to and longer than a page.
std::vector<LayerSpec> all_codes() {
  return {full(affine(8, 8)),
          sliding(30, affine(4, 4)),
          full(),
          full(turbo(8, 3), 2),
          sliding(64, turbo(4, 4)),
          full(anchored(4, 4), 2, 32),
          sliding(1, anchored(4, 4)),
          sliding(30, anchored(5, 4)),
          sliding(150, anchored(4, 3)),
          sliding(100),
          donor(5),
          sliding(1, affine(8, 4, 64))};
}

// What a page must hold, made here from the fake rows alone.
class Expected {
 public:
  explicit Expected(const std::vector<LayerSpec>& layers) : layers_(layers) {}

  std::vector<std::byte> page(size_t layer, Part part, size_t page, uint32_t end) {
    const FloatEnvironment environment;
    KvLayout layout = layers_[layer].layout;
    std::vector<std::byte> anchor(layout.anchor_bytes());
    if (!anchor.empty()) {
      const std::vector<std::byte> wide = fill(layer, layout.wide(), 0, 64, nullptr);
      kernels::make_anchor(layout, wide.data(), anchor.data());
    }
    if (part == Part::anchor) return anchor;
    if (part == Part::plain) {
      layout.code = kBf16Code;
    } else if (!anchor.empty() && page == 0) {
      layout = layout.wide();
    }
    const auto first = static_cast<uint32_t>(page * 64);
    return fill(layer, layout, first, std::min(end, first + 64),
                part == Part::coded && page != 0 && !anchor.empty() ? anchor.data() : nullptr);
  }

 private:
  std::vector<std::byte> fill(size_t layer, const KvLayout& layout, uint32_t first, uint32_t end,
                              const std::byte* anchor) {
    std::vector<std::byte> out(layout.page_bytes());
    for (uint32_t p = first; p < end; ++p) {
      const auto k = fake_row(0, layer, p, false, layout.kv_heads * size_t{layout.k_dim});
      const auto v = fake_row(0, layer, p, true, layout.kv_heads * size_t{layout.v_dim} + 1);
      EXPECT_TRUE(scalar_ops().store(layout, out.data(), p % 64, k.data(), v.data(), anchor));
    }
    return out;
  }
  const std::vector<LayerSpec>& layers_;
};

// Every part of a row between steps, against Expected; and that what queries will read is there.
void check_parts(const Sequence& row, const std::vector<LayerSpec>& layers) {
  Expected expected(layers);
  const uint32_t length = row.length();
  size_t parts = 0;
  row.for_each_part([&](const StoredPart& part) {
    ++parts;
    const bool delayed = !(layers[part.layer].layout.code == kBf16Code);
    const uint32_t end =
        part.part == Part::plain && delayed ? std::min(length, row.start()) : length;
    const auto want = expected.page(part.layer, part.part, part.page, end);
    ASSERT_EQ(want.size(), part.bytes.size());
    EXPECT_EQ(std::memcmp(want.data(), part.bytes.data(), want.size()), 0)
        << "length " << length << " start " << row.start() << " layer " << part.layer << " part "
        << static_cast<int>(part.part) << " page " << part.page;
    if (part.part == Part::anchor) {
      EXPECT_GE(length, 64u);
    }
  });
  EXPECT_GT(parts, 0u);
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const bool coded = length >= row.coded_from(layer) && row.holds_codes();
    const View view = row.view(layer, coded);
    for (uint32_t p = row.visible(layer, length).begin; p < length; ++p)
      ASSERT_NE(view.page(p), nullptr) << "layer " << layer << " position " << p;
    if (coded && row.anchored(layer)) {
      EXPECT_EQ(view.anchor != nullptr, length >= 64);
    }
  }
}

TEST(SequenceCodes, PagesHoldWhatTheRowsSay) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {0u, 1u, 63u, 64u, 65u, 200u}) {
    PagePool pool(0);
    Sequence row = open(pool, layers, start);
    for (const uint32_t length :
         {1u, 40u, 62u, 63u, 64u, 65u, 66u, 128u, 129u, 199u, 200u, 201u, 256u, 300u}) {
      grow(row, length);
      check_parts(row, layers);
      EXPECT_EQ(row.holds_plain(), start != 0 && length <= start);
      EXPECT_EQ(row.holds_codes(), start == 0 || length > start);
      EXPECT_EQ(pool.bytes_in_use(), row.bytes());
    }
  }
}

TEST(SequenceCodes, AnyChunksGiveTheSameBytes) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {0u, 1u, 63u, 64u, 65u, 200u}) {
    for (const uint32_t length : {63u, 64u, 65u, 66u, 200u, 201u, 330u}) {
      PagePool pool(0);
      const Sequence whole = [&] {
        Sequence row = open(pool, layers, start);
        EXPECT_TRUE(step(row, length).ok());
        return row;
      }();
      check_parts(whole, layers);
      for (const uint32_t chunk : {1u, 7u, 63u, 64u, 65u, 199u}) {
        Sequence row = open(pool, layers, start);
        grow(row, length, chunk);
        EXPECT_SAME_ROW(row, whole);
        EXPECT_EQ(row.digest(), whole.digest());
        EXPECT_EQ(row.bytes(), whole.bytes());
        EXPECT_EQ(row.minimum_reusable_length(), whole.minimum_reusable_length());
      }
    }
  }
}

// What a step's queries read while it straddles the start: both forms, complete.
TEST(SequenceCodes, AStepAcrossTheStartServesBothKindsOfQueries) {
  const std::vector<LayerSpec> layers = {full(affine(8, 8)), sliding(30, turbo(4, 4)), full()};
  PagePool pool(0);
  Sequence row = open(pool, layers, 100);
  grow(row, 90);
  EXPECT_EQ(row.coded_from(0), 100u);
  EXPECT_EQ(row.coded_from(2), ~0u);
  const size_t before = pool.bytes_in_use(), projected = row.projected_bytes(30);
  ASSERT_TRUE(row.reserve(30).ok());
  EXPECT_EQ(row.commit(30).error().code, ErrorCode::internal);  // not converted
  ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
  EXPECT_EQ(pool.bytes_in_use(), before + projected);
  write_step(row, 90, 120);
  Expected expected(layers);
  for (size_t layer = 0; layer < 2; ++layer) {
    for (const uint32_t query : {95u, 99u, 100u, 119u}) {
      const View view = row.view(layer, query >= 100);
      EXPECT_EQ(view.layout.code == kBf16Code, query < 100);
      for (uint32_t p = row.visible(layer, query).begin / 64; p <= query / 64; ++p) {
        const auto want = expected.page(layer, query < 100 ? Part::plain : Part::coded, p,
                                        query < 100 ? 100 : 120);
        EXPECT_EQ(std::memcmp(want.data(), view.pages[p], want.size()), 0);
      }
    }
  }
  EXPECT_EQ(row.view(2, true).pages, row.view(2, false).pages);
  ASSERT_TRUE(row.commit(30).ok());
  EXPECT_FALSE(row.holds_plain());
  check_parts(row, layers);
}

// Partly committed steps across the start: below it the row is plain again.
TEST(SequenceCodes, ACommitOfAPartIsARowOfThatLength) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {50u, 64u, 70u}) {
    Truth truth(layers, start);
    for (uint32_t kept = 0; kept <= 40; kept += kept < 8 ? 1 : 3) {
      PagePool pool(0);
      Sequence row = open(pool, layers, start);
      grow(row, 45);
      ASSERT_TRUE(row.reserve(40).ok());
      ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
      write_step(row, 45, 85);
      ASSERT_TRUE(row.commit(kept).ok());
      EXPECT_SAME_ROW(row, truth.at(45 + kept));
      grow(row, 90);
      EXPECT_SAME_ROW(row, truth.at(90));
    }
  }
}

TEST(SequenceCodes, ThreadsConvertTheSameBytes) {
  const std::vector<LayerSpec> layers = all_codes();
  PagePool pool(0);
  ThreadPool threads(3);
  Sequence alone = fresh(pool, layers, 200, 200), together = std::move(*alone.clone());
  ASSERT_TRUE(together.reserve(1).ok());
  ASSERT_TRUE(together.convert(scalar_ops(), &threads).ok());
  write_step(together, 200, 201);
  ASSERT_TRUE(together.commit(1).ok());
  ASSERT_TRUE(step(alone, 1).ok());
  EXPECT_SAME_ROW(alone, together);
  check_parts(together, layers);
}

// A past that is shared with a row below its start is converted into a copy.
TEST(SequenceCodes, ConvertingASharedPastLeavesTheOtherRow) {
  const std::vector<LayerSpec> layers = all_codes();
  PagePool pool(0);
  Sequence a = fresh(pool, layers, 200, 150);
  Sequence b = std::move(*a.clone());
  ASSERT_TRUE(step(b, 100).ok());
  EXPECT_TRUE(b.holds_codes());
  EXPECT_SAME_ROW(a, fresh(pool, layers, 200, 150));
  EXPECT_SAME_ROW(b, fresh(pool, layers, 200, 250));
  Sequence c = std::move(*a.clone());
  a.reset();
  b.reset();
  EXPECT_SAME_ROW(c, fresh(pool, layers, 200, 150));
  ASSERT_TRUE(step(c, 51).ok());
  EXPECT_SAME_ROW(c, fresh(pool, layers, 200, 201));
  EXPECT_EQ(pool.bytes_in_use(), c.bytes());
  Sequence d = std::move(*c.clone());  // coded pages and anchors are shared too
  EXPECT_EQ(pool.bytes_in_use(), c.bytes());
  size_t anchors = 0;
  d.for_each_part([&](const StoredPart& part) {
    EXPECT_TRUE(part.shared);
    anchors += part.part == Part::anchor;
  });
  EXPECT_EQ(anchors, 4u);
  ASSERT_TRUE(step(d, 7, 1).ok());
  EXPECT_SAME_ROW(c, fresh(pool, layers, 200, 201));
}

TEST(SequenceCodes, EveryFailedAllocationOfACrossingLeavesTheRow) {
  const std::vector<LayerSpec> layers = all_codes();
  Truth truth(layers, 200);
  for (long n = 0;; ++n) {
    PagePool pool(0);
    Sequence other = fresh(pool, layers, 200, 190);
    Sequence row = std::move(*other.clone());
    const size_t held = pool.bytes_in_use();
    fail_allocation_after(n);
    Status status = row.reserve(20);
    const bool reserved = status.ok();
    if (status.ok()) status = row.convert(scalar_ops(), nullptr);
    fail_allocation_after(-1);
    if (status.ok()) {
      EXPECT_GT(n, 30);
      break;
    }
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(row.length(), 190u);
    if (!reserved) {
      EXPECT_EQ(pool.bytes_in_use(), held);
    }
    ASSERT_TRUE(row.commit(0).ok());
    EXPECT_SAME_ROW(row, other);
    EXPECT_SAME_ROW(other, truth.at(190));
    ASSERT_TRUE(step(row, 20).ok());
    EXPECT_SAME_ROW(row, truth.at(210));
    row.reset();
    EXPECT_EQ(pool.bytes_in_use(), other.bytes());
  }
}

TEST(SequenceCodes, EveryFailedAllocationOfTheFirstStepLeavesAnEmptyRow) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {0u, 100u}) {
    Truth truth(layers, start);
    for (long n = 0;; ++n) {
      PagePool pool(0);
      Sequence row = open(pool, layers, start);
      fail_allocation_after(n);
      Status status = row.reserve(90);
      fail_allocation_after(-1);
      if (status.ok()) {
        EXPECT_GT(n, 30);
        break;
      }
      EXPECT_EQ(pool.bytes_in_use(), 0u);
      EXPECT_EQ(row.reserved(), 0u);
      ASSERT_TRUE(step(row, 90).ok());
      EXPECT_SAME_ROW(row, truth.at(90));
    }
  }
}

TEST(SequenceCodes, EveryKeepOfARoundAcrossTheStart) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {0u, 60u, 63u, 64u, 65u, 127u}) {
    Truth truth(layers, start);
    for (const uint32_t chunk : {12u, 5u, 1u}) {
      const uint32_t from = start < 6 ? 58 : start - 6;
      PagePool pool(0);
      const Sequence other = fresh(pool, layers, start, from);
      for (uint32_t keep = 0; keep <= 12; ++keep) {
        Sequence row = std::move(*other.clone());
        const size_t before = pool.bytes_in_use(), projected = row.projected_bytes(12);
        ASSERT_TRUE(row.can_begin(11));
        ASSERT_TRUE(row.begin(11).ok());
        EXPECT_EQ(pool.bytes_in_use(), before + projected);
        for (uint32_t done = 0; done < 12; done += chunk)
          ASSERT_TRUE(step(row, std::min(chunk, 12 - done)).ok());
        ASSERT_TRUE(row.resolve(keep).ok());
        EXPECT_SAME_ROW(row, truth.at(from + keep));
        check_parts(row, layers);
        EXPECT_SAME_ROW(other, truth.at(from));
        grow(row, 135, 9);
        EXPECT_SAME_ROW(row, truth.at(135));
        if (::testing::Test::HasFailure()) {
          FAIL() << "start " << start << " chunk " << chunk << " keep " << keep;
        }
      }
    }
  }
}

TEST(SequenceCodes, EveryFailedAllocationOfARoundAcrossTheStart) {
  const std::vector<LayerSpec> layers = all_codes();
  Truth truth(layers, 64);
  for (long n = 0;; ++n) {
    PagePool pool(0);
    Sequence other = fresh(pool, layers, 64, 60);
    Sequence row = std::move(*other.clone());
    fail_allocation_after(n);
    Status status = row.begin(9);
    if (status.ok()) {
      status = step(row, 10);
      // A step that fails in a round is taken back; the round stays.
      if (!status.ok()) {
        ASSERT_TRUE(row.commit(0).ok());
      }
    }
    fail_allocation_after(-1);
    if (row.round() == Round::open) {
      const bool failed = !status.ok();
      if (failed) {
        ASSERT_TRUE(step(row, 10).ok());
      }
      ASSERT_TRUE(row.resolve(5).ok());
      EXPECT_SAME_ROW(row, truth.at(65));
      if (!failed) {
        EXPECT_GT(n, 20);
        break;
      }
    } else {
      EXPECT_EQ(row.round(), Round::poisoned);
      row.reset();
    }
    EXPECT_SAME_ROW(other, truth.at(60));
    row.reset();
    EXPECT_EQ(pool.bytes_in_use(), other.bytes());
  }
}

TEST(SequenceCodes, TruncationKnowsTheStart) {
  const std::vector<LayerSpec> layers = {full(affine(8, 8)), full(anchored(4, 4)), full()};
  PagePool pool(0);
  Sequence row = fresh(pool, layers, 100, 90);
  EXPECT_EQ(row.minimum_reusable_length(), 0u);
  ASSERT_TRUE(row.truncate(80).ok());
  EXPECT_SAME_ROW(row, fresh(pool, layers, 100, 80));
  ASSERT_TRUE(row.truncate(63).ok());  // the anchor goes
  EXPECT_SAME_ROW(row, fresh(pool, layers, 100, 63));
  grow(row, 300);
  EXPECT_EQ(row.minimum_reusable_length(), 100u);
  Sequence clone = std::move(*row.clone());
  EXPECT_EQ(clone.minimum_reusable_length(), 100u);
  const Status refused = clone.truncate(99);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().text.find("at least 100"), std::string::npos);
  ASSERT_TRUE(clone.truncate(101).ok());
  EXPECT_SAME_ROW(clone, fresh(pool, layers, 100, 101));
  ASSERT_TRUE(clone.truncate(100).ok());  // coded still: its next query reads codes
  EXPECT_TRUE(clone.holds_codes());
  ASSERT_TRUE(clone.begin(0).ok());
  ASSERT_TRUE(step(clone, 1).ok());
  ASSERT_TRUE(clone.resolve(0).ok());
  EXPECT_TRUE(clone.holds_codes());
  grow(clone, 130);
  EXPECT_SAME_ROW(clone, fresh(pool, layers, 100, 130));
  ASSERT_TRUE(clone.truncate(0).ok());
  EXPECT_SAME_ROW(clone, open(pool, layers, 100));
  EXPECT_SAME_ROW(row, fresh(pool, layers, 100, 300));
}

// The anchor outlives page 0 of a window, and goes when the row is cut below 64.
TEST(SequenceCodes, AnAnchorOutlivesItsPage) {
  for (const uint32_t start : {0u, 400u}) {
    const std::vector<LayerSpec> layers = {sliding(20, anchored(4, 4)), sliding(1, anchored(4, 4))};
    PagePool pool(0);
    Sequence row = open(pool, layers, start);
    const auto anchors = [&row] {
      size_t count = 0;
      row.for_each_part([&](const StoredPart& part) { count += part.part == Part::anchor; });
      return count;
    };
    grow(row, 63);
    EXPECT_EQ(anchors(), 0u);
    grow(row, 64);
    EXPECT_EQ(anchors(), 2u);
    check_parts(row, layers);
    grow(row, 380);
    EXPECT_EQ(anchors(), 2u);
    EXPECT_EQ(row.view(0, start == 0).page(63), nullptr);
    check_parts(row, layers);
    grow(row, 450);
    EXPECT_EQ(row.view(0, true).page(63), nullptr);
    check_parts(row, layers);
    EXPECT_EQ(pool.bytes_in_use(), row.bytes());
  }
}

TEST(SequenceCodes, BytesAreCountedBeforeAnythingIsThere) {
  const std::vector<LayerSpec> layers = {full(affine(4, 4, 64), 2, 128), full(anchored(4, 4)),
                                         full(turbo(8, 4)), full()};
  PagePool pool(0);
  Sequence row = open(pool, layers, 64);
  const auto page = [](size_t bytes) { return PagePool::page_cost(bytes); };
  const size_t plain = page(64 * 2 * 2 * 256) + 3 * page(64 * 2 * 128);
  EXPECT_EQ(row.projected_bytes(1), plain);
  EXPECT_EQ(row.bytes_per_token(), 2u * 2 * 256 + 3 * 2 * 128);
  const size_t anchor = page(2 * 64);
  EXPECT_EQ(row.projected_bytes(64), plain + anchor);
  // From 65 positions on the start is passed: codes for everything, beside the plain pages.
  const size_t a = page(64 * 2 * 2 * (64 + 8)), t = page(64 * (64 + 4 + 32 + 4)),
               wide = page(64 * 2 * 128), anchored_page = page(layers[1].layout.page_bytes()),
               last = page(64 * 2 * 128);
  EXPECT_EQ(row.projected_bytes(65), plain + anchor + 2 * a + 2 * t + wide + anchored_page + last);
  ASSERT_TRUE(step(row, 65).ok());
  EXPECT_EQ(row.bytes(), anchor + 2 * a + 2 * t + wide + anchored_page + 2 * last);
  EXPECT_EQ(pool.bytes_in_use(), row.bytes());
  EXPECT_EQ(row.bytes_per_token(),
            2u * 2 * (64 + 8) + layers[1].layout.page_bytes() / 64 + (64 + 4 + 32 + 4) + 2 * 128);
  EXPECT_EQ(row.projected_bytes(63), 0u);
  EXPECT_EQ(row.projected_bytes(64), a + t + anchored_page + last);
  EXPECT_EQ(row.projected_bytes(kMost), ~size_t{0});
  EXPECT_EQ(row.signature(), open(pool, layers, 64).signature());
  EXPECT_NE(row.signature(), open(pool, layers, 65).signature());
}

TEST(SequenceCodes, RandomEstimatesAreExact) {
  const std::vector<LayerSpec> layers = all_codes();
  Truth truth(layers, 130);
  for (uint32_t seed = 0; seed < 15; ++seed) {
    PagePool pool(0);
    Sequence rows[2] = {open(pool, layers, 130), open(pool, layers, 130)};
    uint32_t x = seed * 2654435761u + 1;
    for (int i = 0; i < 25; ++i) {
      x = x * 1664525 + 1013904223;
      Sequence& row = rows[x >> 31];
      if ((x >> 8) % 5 == 0) rows[1 - (x >> 31)] = std::move(*row.clone());
      if ((x >> 8) % 7 == 0 && row.length() > 5 &&
          row.length() - 5 >= row.minimum_reusable_length()) {
        ASSERT_TRUE(row.truncate(row.length() - 5).ok());
      }
      const uint32_t n = (x >> 16) % 40;
      const size_t before = pool.bytes_in_use(), projected = row.projected_bytes(n);
      ASSERT_TRUE(row.reserve(n).ok());
      ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
      ASSERT_EQ(pool.bytes_in_use(), before + projected);
      write_step(row, row.length(), row.length() + n);
      ASSERT_TRUE(row.commit(n).ok());
    }
    for (const Sequence& row : rows) EXPECT_SAME_ROW(row, truth.at(row.length()));
  }
}

TEST(SequenceCodes, RestoredPartsAreTheSameRow) {
  const std::vector<LayerSpec> layers = all_codes();
  for (const uint32_t start : {0u, 64u, 200u}) {
    for (const uint32_t length : {1u, 63u, 64u, 65u, 200u, 201u, 290u}) {
      PagePool pool(0);
      Sequence row = fresh(pool, layers, start, length);
      std::vector<std::vector<std::byte>> saved;
      row.for_each_part([&](const StoredPart& part) {
        saved.emplace_back(part.bytes.begin(), part.bytes.end());
      });
      Sequence back = open(pool, layers, start);
      EXPECT_FALSE(back.restore(length, !row.holds_codes()).ok() && length != start);
      back.reset();
      for (long n = 0;; ++n) {
        fail_allocation_after(n);
        const Status status = back.restore(length, row.holds_codes());
        fail_allocation_after(-1);
        if (status.ok()) break;
        EXPECT_EQ(pool.bytes_in_use(), row.bytes());
      }
      size_t at = 0;
      back.for_each_part([&](const StoredPart& part) {
        ASSERT_LT(at, saved.size());
        ASSERT_EQ(saved[at].size(), part.bytes.size());
        std::memcpy(part.bytes.data(), saved[at++].data(), part.bytes.size());
      });
      EXPECT_EQ(at, saved.size());
      EXPECT_SAME_ROW(row, back);
      ASSERT_TRUE(step(row, 100).ok());
      ASSERT_TRUE(step(back, 100).ok());
      EXPECT_SAME_ROW(row, back);
    }
  }
}

TEST(SequenceCodes, RefusesCodesThatCannotBe) {
  PagePool pool(0);
  const auto refused = [&pool](LayerSpec spec) {
    const LayerSpec layers[] = {full(), spec};
    auto made = Sequence::make(pool, {layers, kMost});
    return made.ok() ? "" : made.error().text;
  };
  EXPECT_NE(refused(full(affine(8, 8, 128))).find("KV layer 1"), std::string::npos);
  EXPECT_NE(refused(full(affine(7, 8))), "");
  EXPECT_NE(refused(full(turbo(4, 4), 1, 20)), "");
  EXPECT_EQ(refused(full(anchored(4, 4), 1, 96)), "");
}

}  // namespace
}  // namespace gyre::kv::testing
