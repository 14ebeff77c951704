// Groups: membership, writes, rounds, trims, sizes, against rows that stand alone.
#include "kv/group.h"

#include <algorithm>
#include <limits>
#include <map>

#include "kv/group_fixture.h"

namespace gyre::kv {
namespace {

using namespace testing;  // NOLINT

const std::vector<LayerSpec> kPlain = {full(), sliding(10), donor(1)};

// A group of rows with the given lengths, all alone so far.
struct Rows {
  PagePool pool{0};
  Workshop shop;
  std::vector<LayerSpec> layers;
  uint32_t start;
  KvGroup group;
  std::vector<Story> stories;

  explicit Rows(const std::vector<size_t>& lengths, std::vector<LayerSpec> of = kPlain,
                uint32_t from = 0)
      : layers(std::move(of)),
        start(from),
        group(make_group(pool, shop, layers, start)),
        stories(lengths.size()) {
    std::vector<Sequence> rows;
    std::vector<const Sequence*> pointers;
    for (size_t i = 0; i < lengths.size(); ++i) rows.push_back(std::move(*group.make_row()));
    for (const Sequence& row : rows) pointers.push_back(&row);
    EXPECT_TRUE(group.adopt_rows(pointers).ok());
    std::vector<std::vector<uint32_t>> ids;
    for (size_t i = 0; i < lengths.size(); ++i)
      ids.push_back(ids_from(static_cast<uint32_t>(1000 * i), lengths[i]));
    EXPECT_TRUE(append(group, stories, ids).ok());
  }
  // Every row as if it had been alone.
  void check() {
    ASSERT_EQ(group.size(), stories.size());
    for (size_t r = 0; r < stories.size(); ++r) {
      SCOPED_TRACE("row " + std::to_string(r));
      PagePool apart(0);
      auto [other, story] = alone(apart, shop, layers, start, stories[r].tokens);
      EXPECT_EQ(stories[r].read, story.read);
      EXPECT_SAME_ROW(group.row(r), other.row(0));
    }
  }
};

TEST(KvGroup, RowsOfAnyLengthAreServedTogether) {
  Rows rows({70, 3, 0, 130});
  EXPECT_EQ(rows.group.size(), 4u);
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(append(rows.group, rows.stories, {{7}, {8}, {9}, {10}}).ok());
  ASSERT_TRUE(append(rows.group, rows.stories, {{1, 2, 3}, {}, ids_from(5, 80), {4}}).ok());
  rows.check();
}

// Rows of every code, some coded later than others, in one batch across their starts.
TEST(KvGroup, RowsOfAnyCodeAndStartStandTogether) {
  const auto of = [](LayerCode code) {
    return std::vector<LayerSpec>{full(code), sliding(10, code), donor(1), sliding(70)};
  };
  struct Kind {
    LayerCode code;
    uint32_t start;
    size_t length;
  };
  const std::vector<Kind> kinds = {{kBf16Code, 0, 90},       {affine(8, 8), 0, 30},
                                   {affine(4, 4), 65, 60},   {turbo(8, 4), 0, 63},
                                   {turbo(8, 3), 100, 99},   {anchored(4, 4), 0, 62},
                                   {anchored(5, 4), 66, 60}, {anchored(4, 4), 20, 10}};
  Rows rows(std::vector<size_t>{}, of(kBf16Code));
  std::vector<Sequence> own;
  std::vector<const Sequence*> pointers;
  for (const Kind& kind : kinds) own.push_back(open(rows.pool, of(kind.code), kind.start));
  for (const Sequence& row : own) pointers.push_back(&row);
  ASSERT_TRUE(rows.group.adopt_rows(pointers).ok());
  rows.stories.resize(kinds.size());
  std::vector<std::vector<uint32_t>> ids(kinds.size());
  for (size_t r = 0; r < kinds.size(); ++r) ids[r] = ids_from(1000 * r, kinds[r].length);
  ASSERT_TRUE(append(rows.group, rows.stories, ids).ok());
  for (uint32_t n : {1u, 1u, 3u, 7u, 1u, 64u, 1u}) {
    for (auto& row : ids) row = ids_from(n, n);
    ASSERT_TRUE(append(rows.group, rows.stories, ids).ok());
  }
  for (size_t r = 0; r < kinds.size(); ++r) {
    SCOPED_TRACE("row " + std::to_string(r));
    PagePool apart(0);
    auto [other, story] =
        alone(apart, rows.shop, of(kinds[r].code), kinds[r].start, rows.stories[r].tokens);
    EXPECT_EQ(rows.stories[r].read, story.read);
    EXPECT_SAME_ROW(rows.group.row(r), other.row(0));
    EXPECT_EQ(rows.group.row(r).holds_codes(), r != 0);
  }
  EXPECT_EQ(rows.group.describe().signatures.size(), kinds.size());
}

TEST(KvGroup, MembershipMovesNoByte) {
  Rows rows({70, 30, 5});
  const auto pages = [](const Sequence& row) {
    std::vector<const std::byte*> out;
    row.for_each_part([&](const StoredPart& part) { out.push_back(part.bytes.data()); });
    return out;
  };
  std::vector<std::vector<const std::byte*>> before;
  for (size_t r = 0; r < 3; ++r) before.push_back(pages(rows.group.row(r)));
  const size_t held = rows.pool.bytes_in_use();

  const size_t keep[] = {2, 0, 0, 1, 2};
  ASSERT_TRUE(rows.group.filter_rows(keep).ok());
  std::vector<Story> stories;
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pages(rows.group.row(i)), before[keep[i]]);
    stories.push_back(rows.stories[keep[i]]);
  }
  rows.stories = stories;
  Sequence out = std::move(*rows.group.extract_row(3));
  EXPECT_EQ(pages(out), before[1]);
  KvGroup other = std::move(*rows.group.make_empty_batch());
  EXPECT_EQ(other.size(), 0u);
  const RowSource sources[] = {{.row = &out}, {.group = &rows.group}, {}, {.row = &out}};
  ASSERT_TRUE(other.merge_rows(sources).ok());
  ASSERT_EQ(other.size(), 7u);
  EXPECT_EQ(pages(other.row(0)), before[1]);
  EXPECT_EQ(pages(other.row(6)), before[1]);
  EXPECT_EQ(pages(other.row(5)), before[2]);
  EXPECT_EQ(rows.pool.bytes_in_use(), held);
  EXPECT_EQ(rows.group.size(), 5u);  // sources are not consumed
  EXPECT_EQ(other.describe().bytes, held);
  EXPECT_EQ(other.describe().shared_bytes, held);

  // All rows that share pages go their own ways.
  ASSERT_TRUE(append(rows.group, rows.stories, {{1}, {2, 3}, {4}, {5}, {6}}).ok());
  EXPECT_GT(rows.pool.bytes_in_use(), held);
  rows.check();
  EXPECT_EQ(pages(out), before[1]);
}

TEST(KvGroup, AGroupMergesIntoItself) {
  Rows rows({70, 6});
  const RowSource twice[] = {{.group = &rows.group}, {.group = &rows.group}};
  ASSERT_TRUE(rows.group.merge_rows(twice).ok());
  rows.stories.push_back(rows.stories[0]);
  rows.stories.push_back(rows.stories[1]);
  ASSERT_TRUE(append(rows.group, rows.stories, {{1}, {2}, {3}, {4}}).ok());
  rows.check();
  // Merging nothing empties the group.
  ASSERT_TRUE(rows.group.merge_rows({}).ok());
  EXPECT_EQ(rows.group.size(), 0u);
  EXPECT_EQ(rows.pool.bytes_in_use(), 0u);
  EXPECT_EQ(rows.group.minimum_reusable_offset(), 0u);
  EXPECT_GT(rows.group.bytes_per_token(), 0u);
  EXPECT_GT(rows.group.projected_bytes(1), 0u);
}

TEST(KvGroup, AppendCommittedEqualsThatManyDecodes) {
  Rows a({20, 63, 0}), b({20, 63, 0});
  const std::vector<std::vector<uint32_t>> ids = {ids_from(1, 5), ids_from(50, 3),
                                                  ids_from(90, 70)};
  const uint32_t counts[] = {5, 3, 70};
  const Status status = a.group.append_committed(counts, [&](Append& step, uint32_t offset) {
    std::vector<uint32_t> now;
    for (uint32_t t = 0; t < step.tokens(); ++t) now.push_back(ids[step.row_of(t)][offset]);
    const auto digests = run_step(step, a.group, now);
    for (uint32_t t = 0; t < step.tokens(); ++t) {
      a.stories[step.row_of(t)].tokens.push_back(now[t]);
      a.stories[step.row_of(t)].read.push_back(digests[t]);
    }
    return Status();
  });
  ASSERT_TRUE(status.ok());
  ASSERT_TRUE(append(b.group, b.stories, ids).ok());  // as one block: the same bits
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(a.stories[r].read, b.stories[r].read);
    EXPECT_SAME_ROW(a.group.row(r), b.group.row(r));
  }
  a.check();
}

TEST(KvGroup, AStepThatIsDroppedLeavesNoTrace) {
  Rows rows({70, 3});
  const size_t held = rows.pool.bytes_in_use();
  {
    auto step = rows.group.append_window(std::vector<uint32_t>{200, 70});
    ASSERT_TRUE(step.ok());
    run_step(*step, rows.group, ids_from(1, 270));
    EXPECT_FALSE(rows.group.append_decode().ok());  // one step at a time
    const size_t keep[] = {0};
    EXPECT_FALSE(rows.group.filter_rows(keep).ok());
  }
  EXPECT_EQ(rows.pool.bytes_in_use(), held);
  rows.check();
  ASSERT_TRUE(append(rows.group, rows.stories, {{1}, {2}}).ok());
  rows.check();
}

TEST(KvGroup, RoundsKeepAnyNumberOfEachRow) {
  for (uint32_t a = 0; a <= 5; a += 1) {
    for (uint32_t b : {0u, 2u, 5u}) {
      Rows rows({62, 9, 200});
      const uint32_t drafts[] = {4};
      ASSERT_TRUE(rows.group.can_begin(drafts));
      ASSERT_TRUE(rows.group.spec_round_begin(drafts).ok());
      EXPECT_FALSE(rows.group.spec_round_begin(drafts).ok());
      ASSERT_TRUE(
          append(rows.group, rows.stories, {ids_from(1, 5), ids_from(11, 5), ids_from(21, 5)})
              .ok());
      const uint32_t keep[] = {a, b, 5};
      ASSERT_TRUE(rows.group.spec_round_rollback(keep).ok());
      rows.stories[0].cut(62 + a);
      rows.stories[1].cut(9 + b);
      rows.check();
      ASSERT_TRUE(append(rows.group, rows.stories, {{7}, {8}, {9}}).ok());
      rows.check();
    }
  }
  Rows rows({3, 4});
  const uint32_t drafts[] = {1, 2};
  EXPECT_FALSE(rows.group.spec_round_rollback(drafts).ok());
  ASSERT_TRUE(rows.group.spec_round_begin(drafts).ok());
  ASSERT_TRUE(append(rows.group, rows.stories, {{1, 2}, {3, 4, 5}}).ok());
  const uint32_t many[] = {3};
  EXPECT_EQ(rows.group.spec_round_rollback(many).error().code, ErrorCode::internal);
  ASSERT_TRUE(rows.group.spec_round_commit().ok());
  rows.check();
}

TEST(KvGroup, RecurrentLayersFollowTheirRows) {
  Rows rows({62, 3, 0}, {recurrent(), full(), recurrent(), sliding(20)});
  const size_t keep[] = {1, 0, 0, 2};
  ASSERT_TRUE(rows.group.filter_rows(keep).ok());
  rows.stories = {rows.stories[1], rows.stories[0], rows.stories[0], rows.stories[2]};
  for (size_t r = 0; r < 4; ++r) ASSERT_TRUE(rows.group.row(r).checkpoint().ok());
  const uint32_t drafts[] = {4};
  ASSERT_TRUE(rows.group.spec_round_begin(drafts).ok());
  std::vector<std::vector<uint32_t>> ids;
  for (uint32_t r = 0; r < 4; ++r) ids.push_back(ids_from(10 * r, 5));
  ASSERT_TRUE(append(rows.group, rows.stories, ids).ok());
  const uint32_t kept[] = {3, 0, 5, 1};
  ASSERT_TRUE(rows.group.spec_round_rollback(kept, replay_toy).ok());
  const size_t lengths[] = {3, 62, 62, 0};
  for (size_t r = 0; r < 4; ++r) rows.stories[r].cut(lengths[r] + kept[r]);
  rows.check();
  ASSERT_TRUE(append(rows.group, rows.stories, {{1}, {2}, {3, 4}, {5}}).ok());
  rows.check();
  // Only to a checkpoint.
  EXPECT_FALSE(rows.group.is_trimmable(0, 2));
  EXPECT_TRUE(rows.group.is_trimmable(0, 4));
  const uint32_t back[] = {4, 0, 7, 2};
  ASSERT_TRUE(rows.group.trim(back).ok());
  rows.stories[0].cut(3);
  rows.stories[2].cut(62);
  rows.stories[3].cut(0);
  rows.check();
}

TEST(KvGroup, TheBudgetCountsARoundsRecurrentBlocksAndInputs) {
  ASSERT_GT(kMixer.shape().input_bytes(60'000), os::Pages::kStep);
  for (size_t slabs : {2, 12}) {
    PagePool pool(slabs * os::Pages::kStep);
    Sequence row = open(pool, {recurrent()}, 0, 100'000);
    EXPECT_EQ(row.can_begin(59'999), slabs == 12);
    EXPECT_EQ(row.begin(59'999).ok(), slabs == 12);
  }
}

TEST(KvGroup, APoisonedRowLeavesTheOthersAlone) {
  Rows rows({5, 6, 7});
  const uint32_t drafts[] = {2, 1, 2};
  ASSERT_TRUE(rows.group.spec_round_begin(drafts).ok());
  ASSERT_TRUE(append(rows.group, rows.stories, {{1, 2}, {3}, {4, 5, 6}}).ok());
  rows.group.row(1).poison();
  EXPECT_TRUE(rows.group.poisoned(1));
  const uint32_t keep[] = {1};
  ASSERT_TRUE(rows.group.spec_round_rollback(keep).ok());
  EXPECT_FALSE(rows.group.can_begin(drafts));
  EXPECT_FALSE(rows.group.spec_round_begin(drafts).ok());
  const size_t living[] = {0, 2};
  ASSERT_TRUE(rows.group.filter_rows(living).ok());
  rows.stories.erase(rows.stories.begin() + 1);
  rows.stories[0].cut(6);
  rows.stories[1].cut(8);
  rows.check();
}

TEST(KvGroup, TrimIsPerRowAndAllOrNothing) {
  Rows rows({300, 20, 0});
  EXPECT_TRUE(rows.group.is_trimmable(1, 11));
  // The query at 300 of the window of 10 sees 291 and later; page 4 starts at 256.
  EXPECT_EQ(rows.group.minimum_reusable_offset(0), 256u + 10 - 1);
  EXPECT_EQ(rows.group.minimum_reusable_offset(1), 0u);
  EXPECT_EQ(rows.group.minimum_reusable_offset(), 265u);
  const uint32_t too_many[] = {36, 1, 0};
  const Status refused = rows.group.trim(too_many);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().text.find("row 0"), std::string::npos) << refused.error().text;
  rows.check();
  const uint32_t counts[] = {35, 11, 100};
  ASSERT_TRUE(rows.group.trim(counts).ok());
  rows.stories[0].cut(265);
  rows.stories[1].cut(9);
  rows.check();
  ASSERT_TRUE(append(rows.group, rows.stories, {{1}, {2, 3}, {4}}).ok());
  rows.check();
  // The floor survives reordering and extraction.
  const size_t keep[] = {2, 0};
  ASSERT_TRUE(rows.group.filter_rows(keep).ok());
  EXPECT_EQ(rows.group.minimum_reusable_offset(1), 265u);
  EXPECT_EQ(rows.group.extract_row(1)->minimum_reusable_length(), 265u);
  EXPECT_EQ(rows.group.minimum_reusable_offset(), 265u);
}

TEST(KvGroup, BytesAreExact) {
  Rows rows({0, 0});
  const size_t page = size_t{64} * kDim * 2 * 2;
  EXPECT_EQ(rows.group.bytes_per_token(0), 2 * size_t{kDim} * 4);
  EXPECT_EQ(rows.group.projected_bytes(0, 65), 4 * page);
  EXPECT_EQ(rows.group.projected_bytes(65), 8 * page);
  ASSERT_TRUE(append(rows.group, rows.stories, {ids_from(1, 65), ids_from(1, 65)}).ok());
  EXPECT_EQ(rows.group.describe().bytes, rows.pool.bytes_in_use());
  EXPECT_EQ(rows.group.projected_bytes(63), 0u);
  const size_t before = rows.pool.bytes_in_use(), projected = rows.group.projected_bytes(64);
  EXPECT_EQ(projected, 4 * page);
  auto step = rows.group.append_window(std::vector<uint32_t>{64, 64});
  EXPECT_EQ(rows.pool.bytes_in_use(), before + projected);
  EXPECT_EQ(rows.group.projected_bytes(~0u), std::numeric_limits<size_t>::max());
}

TEST(KvGroup, NamesWhatItHolds) {
  Rows rows({3, 4, 5});
  const GroupDescription about = rows.group.describe();
  EXPECT_EQ(about.rows, 3u);
  EXPECT_EQ(about.tokens, 12u);
  ASSERT_EQ(about.signatures.size(), 1u);
  EXPECT_EQ(about.signatures[0].second, 3u);
  EXPECT_EQ(about.shared_bytes, 0u);
  EXPECT_EQ(rows.group.signature(), "kv-group:3*(" + rows.group.row(0).signature() + ")");
  KvGroup empty = std::move(*rows.group.make_empty_batch());
  EXPECT_EQ(empty.signature(), "kv-group:" + rows.group.row(0).signature());
}

TEST(KvGroup, RefusesRowsThatDoNotFit) {
  Rows rows({3});
  for (const auto& layers :
       std::vector<std::vector<LayerSpec>>{{full(), sliding(11), donor(1)},
                                           {full(), sliding(10)},
                                           {full(), full(), donor(1)},
                                           {full(kBf16Code, 2), sliding(10), donor(1)}}) {
    Sequence row = open(rows.pool, layers);
    const Sequence* pointers[] = {&row};
    const Status refused = rows.group.adopt_rows(pointers);
    EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
    EXPECT_NE(refused.error().text.find("cannot adopt: " + row.signature()), std::string::npos);
    const RowSource sources[] = {{.group = &rows.group}, {.row = &row}};
    EXPECT_FALSE(rows.group.merge_rows(sources).ok());
  }
  rows.check();
  const size_t beyond[] = {0, 1};
  EXPECT_FALSE(rows.group.filter_rows(beyond).ok());
  EXPECT_FALSE(rows.group.extract_row(1).ok());
  const uint32_t two[] = {1, 1};
  EXPECT_FALSE(rows.group.append_window(two).ok());
  EXPECT_FALSE(rows.group.trim(two).ok());
  rows.check();
  Sequence used = std::move(*rows.group.extract_row(0));
  EXPECT_FALSE(KvGroup::make(std::move(used), rows.shop.tools).ok());
}

}  // namespace
}  // namespace gyre::kv
