// Acceptance tests of the documents that no other file has, restated for pages. docs/formats/kv.md
// says which test stands for which item.
#include <cstring>
#include <optional>

#include "kv/group_fixture.h"

namespace gyre::kv {
namespace {

using namespace testing;  // NOLINT

std::vector<LayerSpec> layers_of(LayerCode code, uint32_t window) {
  return {full(code), sliding(window, code), donor(1)};
}

struct Row {
  LayerCode code;
  uint32_t start = 0;
};
const Row kRows[] = {{kBf16Code},       {affine(8, 8)},   {affine(4, 4), 40},  {turbo(8, 4)},
                     {turbo(8, 3), 70}, {anchored(4, 4)}, {anchored(5, 4), 80}};

// A group of one row that has seen tokens [0, length) in steps of `chunk`.
struct One {
  PagePool pool{0};
  Workshop shop;
  std::vector<LayerSpec> layers;
  uint32_t start;
  KvGroup group;
  std::vector<Story> stories{1};

  One(const Row& row, uint32_t window, uint32_t length, uint32_t chunk)
      : layers(layers_of(row.code, window)),
        start(row.start),
        group(make_group(pool, shop, layers, start)) {
    Sequence blank = open(pool, layers, start);
    const Sequence* rows[] = {&blank};
    EXPECT_TRUE(group.adopt_rows(rows).ok());
    for (uint32_t at = 0; at < length; at += chunk)
      EXPECT_TRUE(append(group, stories, {ids_from(at, std::min(chunk, length - at))}).ok());
  }
  void expect_alone() {
    for (size_t r = 0; r < stories.size(); ++r) {
      PagePool apart(0);
      auto [other, story] = alone(apart, shop, layers, start, stories[r].tokens);
      EXPECT_EQ(stories[r].read, story.read) << "row " << r;
      EXPECT_SAME_ROW(group.row(r), other.row(0));
    }
  }
};

std::vector<const std::byte*> page_addresses(const Sequence& row) {
  std::vector<const std::byte*> out;
  row.for_each_part([&](const StoredPart& part) { out.push_back(part.bytes.data()); });
  return out;
}

std::vector<std::vector<std::byte>> parts_of(const Sequence& row, Part which) {
  std::vector<std::vector<std::byte>> out;
  row.for_each_part([&](const StoredPart& part) {
    if (part.part == which) out.emplace_back(part.bytes.begin(), part.bytes.end());
  });
  return out;
}

// Item 7. A row that joins a group, alone or beside others, goes on as it would have: three windows
// further, in blocks and single tokens, whatever its code.
TEST(KvDocuments, AnAdoptedRowGoesOnAsAloneForThreeWindows) {
  constexpr uint32_t kWindow = 20;
  for (const Row& row : kRows) {
    for (const uint32_t length : {33u, 64u}) {
      SCOPED_TRACE("start " + std::to_string(row.start) + " length " + std::to_string(length));
      One one(row, kWindow, length, 9);
      const auto before = page_addresses(one.group.row(0));
      const Sequence again = std::move(*one.group.extract_row(0));
      const Sequence* rows[] = {&again, &again};
      ASSERT_TRUE(one.group.adopt_rows(rows).ok());
      EXPECT_EQ(page_addresses(one.group.row(0)), before);
      one.stories.push_back(one.stories[0]);
      uint32_t done = 0;
      for (uint32_t i = 0; done < 3 * kWindow; ++i) {
        const uint32_t n = i % 3 == 2 ? 5 : 1;
        ASSERT_TRUE(
            append(one.group, one.stories, {ids_from(500 + done, n), ids_from(900 + done, 1)})
                .ok());
        done += n;
      }
      one.expect_alone();
    }
  }
}

// Item 8. Conversion is a matter of the codes alone: positions, what a query sees and the bf16
// pages stay as they are until the commit; converting once more does nothing; a step that is
// given up leaves the source usable.
TEST(KvDocuments, ConversionLeavesTheSourceAndHappensOnce) {
  for (const LayerCode code : {affine(4, 4), turbo(8, 4), anchored(4, 4)}) {
    PagePool pool(0);
    const std::vector<LayerSpec> layers = {full(code), sliding(30, code)};
    Sequence row = open(pool, layers, 100);
    grow(row, 99);
    const auto plain = parts_of(row, Part::plain);
    ASSERT_FALSE(plain.empty());
    ASSERT_FALSE(row.holds_codes());
    std::vector<Visible> seen;
    for (uint32_t p = 0; p < 110; ++p) seen.push_back(row.visible(1, p));

    ASSERT_TRUE(row.reserve(5).ok());
    ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
    EXPECT_EQ(row.length(), 99u);
    EXPECT_EQ(parts_of(row, Part::plain), plain);
    const auto coded = parts_of(row, Part::coded);
    ASSERT_FALSE(coded.empty());
    ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());
    EXPECT_EQ(parts_of(row, Part::coded), coded);
    ASSERT_TRUE(row.commit(0).ok());
    EXPECT_FALSE(row.holds_codes());
    EXPECT_SAME_ROW(row, fresh(pool, layers, 100, 99));

    ASSERT_TRUE(step(row, 5).ok());
    EXPECT_TRUE(row.holds_codes());
    EXPECT_FALSE(row.holds_plain());
    for (uint32_t p = 75; p < 110; ++p) {
      EXPECT_EQ(row.visible(1, p).begin, seen[p].begin);
      EXPECT_EQ(row.visible(1, p).end, seen[p].end);
    }
    const auto digest = row.digest();
    ASSERT_TRUE(row.reserve(1).ok());
    ASSERT_TRUE(row.convert(scalar_ops(), nullptr).ok());  // nothing is left to convert
    ASSERT_TRUE(row.commit(0).ok());
    EXPECT_EQ(row.digest(), digest);
    EXPECT_SAME_ROW(row, fresh(pool, layers, 100, 104));
  }
}

// Item 9. Rows of one group cross their starts in different steps. What their queries see does not
// change on the way, and the rows move to a group of coded rows without moving a byte.
TEST(KvDocuments, RowsConvertOneByOneAndAdoptionMovesNothing) {
  constexpr uint32_t kWindow = 24, kStart = 60;
  const uint32_t lengths[] = {30, 59, 56};
  One one({affine(4, 4), kStart}, kWindow, 0, 1);
  const Sequence blank = open(one.pool, one.layers, kStart);
  const Sequence* rows[] = {&blank, &blank, &blank};
  ASSERT_TRUE(one.group.adopt_rows(rows).ok());
  one.stories.assign(3, Story());
  ASSERT_TRUE(
      append(one.group, one.stories,
             {ids_from(0, lengths[0]), ids_from(100, lengths[1]), ids_from(200, lengths[2])})
          .ok());
  size_t mixed = 0;
  for (uint32_t i = 0; i < 40; ++i) {
    for (size_t r = 0; r < 3; ++r) {
      const uint32_t at = lengths[r] + i;
      const Visible seen = one.group.row(r).visible(1, at);
      EXPECT_EQ(seen.begin, at + 1 > kWindow ? at + 1 - kWindow : 0);
      EXPECT_EQ(seen.end, at + 1);
    }
    ASSERT_TRUE(append(one.group, one.stories, {{i}, {i + 50}, {i + 90}}).ok());
    size_t coded = 0;
    for (size_t r = 0; r < 3; ++r) {
      EXPECT_EQ(one.group.row(r).holds_codes(), one.group.row(r).length() > kStart);
      coded += one.group.row(r).holds_codes();
    }
    mixed += coded == 1 || coded == 2;
  }
  EXPECT_GT(mixed, 20u);
  one.expect_alone();

  std::vector<std::vector<const std::byte*>> before;
  std::vector<uint64_t> digests;
  std::vector<const Sequence*> coded;
  for (size_t r = 0; r < 3; ++r) {
    coded.push_back(&one.group.row(r));
    before.push_back(page_addresses(*coded[r]));
    digests.push_back(coded[r]->digest());
  }
  KvGroup adopted = std::move(*one.group.make_empty_batch());
  const size_t held = one.pool.bytes_in_use();
  ASSERT_TRUE(adopted.adopt_rows(coded).ok());
  EXPECT_EQ(one.pool.bytes_in_use(), held);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(page_addresses(adopted.row(r)), before[r]);
    EXPECT_EQ(adopted.row(r).digest(), digests[r]);
  }
}

// Calls `change` with the n-th allocation failing, for every n, until it succeeds; `intact` looks
// at what a failure left. Returns how many failures there were.
template <class Change, class Intact>
long fail_each(Change&& change, Intact&& intact) {
  for (long n = 0;; ++n) {
    fail_allocation_after(n);
    const std::optional<ErrorCode> error = change();
    fail_allocation_after(-1);
    if (!error) return n;
    EXPECT_EQ(*error, ErrorCode::out_of_memory);
    intact();
  }
}
template <class T>
std::optional<ErrorCode> error_of(const T& result) {
  if (result.ok()) return std::nullopt;
  return result.error().code;
}

// Items 10 and 16. Every allocation fails once while a group that has rows adopts others, and while
// rows and groups are made: group, sources and pool stay as they were. group_fault_test.cc has the
// other operations.
TEST(KvDocuments, AFailedAdoptionOrMakingChangesNothing) {
  One one({affine(4, 4), 40}, 24, 70, 70);
  const Sequence a = fresh(one.pool, one.layers, 40, 100), b = fresh(one.pool, one.layers, 40, 30);
  const Sequence own = std::move(*one.group.extract_row(0));
  const uint64_t digests[] = {own.digest(), a.digest(), b.digest()};
  const auto pages = page_addresses(own);
  const size_t held = one.pool.bytes_in_use();
  const auto intact = [&] {
    ASSERT_EQ(one.group.size(), 1u);
    EXPECT_EQ(page_addresses(one.group.row(0)), pages);
    EXPECT_EQ(one.group.row(0).digest(), digests[0]);
    EXPECT_EQ(a.digest(), digests[1]);
    EXPECT_EQ(b.digest(), digests[2]);
    EXPECT_EQ(one.pool.bytes_in_use(), held);
  };
  const Sequence *single[] = {&own}, *many[] = {&a, &own, &b};
  EXPECT_GT(fail_each([&] { return error_of(one.group.adopt_rows(many)); }, intact), 6);
  EXPECT_EQ(one.group.size(), 3u);
  ASSERT_TRUE(one.group.adopt_rows(single).ok());
  EXPECT_GT(fail_each([&] { return error_of(one.group.adopt_rows(single)); }, intact), 2);
  intact();
  EXPECT_GT(fail_each([&] { return error_of(one.group.make_empty_batch()); }, intact), 1);
  EXPECT_GT(fail_each([&] { return error_of(one.group.make_row()); }, intact), 1);
  const SequenceSpec spec{one.layers, kMost, 40};
  EXPECT_GT(fail_each([&] { return error_of(Sequence::make(one.pool, spec)); }, intact), 1);
}

// Item 11. begin, a block of five, keep 0, 2 and 5 of it, and on: as rows that only ever saw what
// was kept, byte for byte, with windows around page borders and starts inside the block.
TEST(KvDocuments, ARoundOfFiveKeepsZeroTwoAndFive) {
  for (const Row& row : {Row{kBf16Code}, Row{affine(4, 4)}, Row{affine(4, 4), 63},
                         Row{turbo(8, 3), 66}, Row{anchored(4, 4), 62}}) {
    for (const uint32_t window : {4u, 64u}) {
      SCOPED_TRACE("start " + std::to_string(row.start) + " window " + std::to_string(window));
      One one(row, window, 62, 62);
      const size_t thrice[] = {0, 0, 0};
      ASSERT_TRUE(one.group.filter_rows(thrice).ok());
      one.stories.assign(3, one.stories[0]);
      const uint32_t drafts[] = {4};
      ASSERT_TRUE(one.group.can_begin(drafts));
      ASSERT_TRUE(one.group.spec_round_begin(drafts).ok());
      ASSERT_TRUE(
          append(one.group, one.stories, {ids_from(10, 5), ids_from(20, 5), ids_from(30, 5)}).ok());
      const uint32_t keep[] = {0, 2, 5};
      ASSERT_TRUE(one.group.spec_round_rollback(keep).ok());
      for (size_t r = 0; r < 3; ++r) one.stories[r].cut(62 + keep[r]);
      one.expect_alone();
      for (uint32_t i = 0; i < 9; ++i)
        ASSERT_TRUE(append(one.group, one.stories, {{i}, {i + 50}, {i + 90}}).ok());
      one.expect_alone();
    }
  }
}

// Item 14. The floor below which a row cannot go back is carried through clone, conversion,
// adoption, reordering, a round and extraction; the group's is the largest.
TEST(KvDocuments, TheReusableFloorSurvivesEveryOperation) {
  PagePool pool(0);
  Workshop shop;
  const std::vector<LayerSpec> early = {full(affine(4, 4))};
  Sequence a = fresh(pool, early, 50, 90), b = fresh(pool, early, 0, 70);
  Sequence c = fresh(pool, early, 80, 79);
  EXPECT_EQ(a.minimum_reusable_length(), 50u);
  EXPECT_EQ(b.minimum_reusable_length(), 0u);
  EXPECT_EQ(c.minimum_reusable_length(), 0u);
  EXPECT_EQ(a.clone()->minimum_reusable_length(), 50u);

  KvGroup group = make_group(pool, shop, early, 0);
  const Sequence* rows[] = {&a, &b, &c};
  ASSERT_TRUE(group.adopt_rows(rows).ok());
  EXPECT_EQ(group.minimum_reusable_offset(), 50u);
  std::vector<Story> stories(3);
  ASSERT_TRUE(append(group, stories, {{1, 2}, {3, 4}, {5, 6}}).ok());  // c is converted here
  EXPECT_EQ(group.minimum_reusable_offset(2), 80u);
  EXPECT_EQ(group.minimum_reusable_offset(), 80u);
  const size_t keep[] = {1, 0, 1, 2, 0};
  ASSERT_TRUE(group.filter_rows(keep).ok());
  const uint32_t floors[] = {0, 50, 0, 80, 50};
  const uint32_t drafts[] = {2}, kept[] = {1};
  stories.resize(5);
  ASSERT_TRUE(group.spec_round_begin(drafts).ok());
  ASSERT_TRUE(append(group, stories, {{1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, {1, 2, 3}}).ok());
  ASSERT_TRUE(group.spec_round_rollback(kept).ok());
  KvGroup merged = std::move(*group.make_empty_batch());
  const RowSource sources[] = {{.group = &group}};
  ASSERT_TRUE(merged.merge_rows(sources).ok());
  for (size_t r = 0; r < 5; ++r) {
    EXPECT_EQ(merged.minimum_reusable_offset(r), floors[r]);
    Sequence out = std::move(*merged.extract_row(r));
    EXPECT_EQ(out.minimum_reusable_length(), floors[r]);
    if (floors[r] == 0) continue;
    EXPECT_EQ(out.truncate(floors[r] - 1).error().code, ErrorCode::unsupported);
    EXPECT_TRUE(out.truncate(floors[r]).ok());
    EXPECT_EQ(out.minimum_reusable_length(), floors[r]);
  }
  EXPECT_EQ(merged.minimum_reusable_offset(), 80u);
  const size_t low[] = {0, 1};
  ASSERT_TRUE(merged.filter_rows(low).ok());
  EXPECT_EQ(merged.minimum_reusable_offset(), 50u);
  merged.dispose();
  EXPECT_EQ(merged.minimum_reusable_offset(), 0u);
}

}  // namespace
}  // namespace gyre::kv
