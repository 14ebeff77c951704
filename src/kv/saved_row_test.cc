// Rows of every place and code through state files: the same bytes, and the same bytes afterwards.
#include "kv/saved_row.h"

#include <filesystem>

#include "kv/group_fixture.h"
#include "os/temporary.h"

namespace gyre::kv {
namespace {

using namespace testing;  // NOLINT

const RowOwner kOwner{"0123456789abcdef", "scheme|model|bf16|1"};

std::vector<int32_t> signed_ids(const std::vector<uint32_t>& ids) {
  return {ids.begin(), ids.end()};
}

struct Saved {
  Array<std::byte> bytes;
  std::vector<uint32_t> tokens;
};

// A row of `length` tokens that was alone, and its file.
Saved save(PagePool& pool, const Workshop& shop, const std::vector<LayerSpec>& layers,
           uint32_t start, size_t length) {
  Saved out;
  out.tokens = ids_from(1, length);
  auto [group, story] = alone(pool, shop, layers, start, out.tokens);
  auto bytes = pack_row(group.row(0), kOwner, signed_ids(out.tokens), "{\"seed\": 7}");
  EXPECT_TRUE(bytes.ok()) << bytes.error().text;
  out.bytes = std::move(*bytes);
  return out;
}

TEST(SavedRow, EveryPlaceAndCodeGoesOnWithTheSameBytes) {
  const LayerCode codes[] = {kBf16Code,   affine(8, 8),   affine(2, 3, 64), turbo(8, 4),
                             turbo(4, 2), anchored(4, 4), anchored(6, 3)};
  Workshop shop;
  int coded = 0, plain = 0, windows_moved = 0;
  for (const LayerCode& code : codes) {
    for (uint32_t start : {0u, 40u, 100u}) {
      for (size_t length : {0, 1, 40, 64, 71, 130}) {
        SCOPED_TRACE(std::to_string(length) + " tokens, start " + std::to_string(start));
        PagePool pool(0), apart(0);
        const std::vector<LayerSpec> layers = {full(code), sliding(9, code), donor(1), recurrent()};
        const Saved saved = save(apart, shop, layers, start, length);
        auto file = StateFile::parse(saved.bytes.span(), "s");
        ASSERT_TRUE(file.ok()) << file.error().text;
        EXPECT_EQ(file->note(), "{\"seed\": 7}");
        EXPECT_EQ(file->tokens().size(), length);
        const Sequence blank = open(pool, layers, start);
        auto loaded = load_row(*file, kOwner, blank);
        ASSERT_TRUE(loaded.ok()) << loaded.error().text;
        EXPECT_EQ(loaded->length(), length);
        coded += loaded->holds_codes() && length != 0;
        plain += loaded->holds_plain();
        windows_moved += loaded->minimum_reusable_length() > 64;
        // Saved again it is the same file; continued it is the row that never stopped.
        auto again = pack_row(*loaded, kOwner, file->tokens(), file->note());
        ASSERT_TRUE(again.ok());
        ASSERT_EQ(again->size(), saved.bytes.size());
        EXPECT_EQ(std::memcmp(again->data(), saved.bytes.data(), again->size()), 0);
        KvGroup group = make_group(pool, shop, layers, start);
        const Sequence* rows[] = {&*loaded};
        ASSERT_TRUE(group.adopt_rows(rows).ok());
        std::vector<Story> story(1);
        ASSERT_TRUE(append(group, story, {ids_from(500, 1)}).ok());
        ASSERT_TRUE(append(group, story, {ids_from(600, 70)}).ok());
        std::vector<uint32_t> all = saved.tokens;
        for (const auto& more : {ids_from(500, 1), ids_from(600, 70)})
          all.insert(all.end(), more.begin(), more.end());
        auto [other, whole] = alone(apart, shop, layers, start, all);
        EXPECT_TRUE(std::equal(story[0].read.begin(), story[0].read.end(),
                               whole.read.begin() + static_cast<ptrdiff_t>(length)));
        EXPECT_SAME_ROW(group.row(0), other.row(0));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(std::min({coded, plain, windows_moved}), 10);
}

// A window of 1 at a page's end holds no page at all: what the row is does not hang on its pages.
TEST(SavedRow, ARowWithoutPagesKeepsItsForm) {
  Workshop shop;
  for (uint32_t start : {0u, 30u, 64u, 70u}) {
    PagePool pool(0);
    const std::vector<LayerSpec> layers = {sliding(1, affine(4, 4))};
    const Saved saved = save(pool, shop, layers, start, 64);
    const StateFile file = std::move(*StateFile::parse(saved.bytes.span(), "s"));
    EXPECT_EQ(file.parts().size(), 0u);
    const Sequence blank = open(pool, layers, start);
    auto row = load_row(file, kOwner, blank);
    ASSERT_TRUE(row.ok()) << row.error().text;
    auto [other, story] = alone(pool, shop, layers, start, saved.tokens);
    EXPECT_SAME_ROW(*row, other.row(0));
  }
}

TEST(SavedRow, TakesNothingOfARowThatSharesItsLastPage) {
  Workshop shop;
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(), sliding(3, affine(4, 4))};
  const Saved alone_file = save(pool, shop, layers, 0, 70);
  auto [group, story] = alone(pool, shop, layers, 0, ids_from(1, 70));
  const size_t twice[] = {0, 0};
  ASSERT_TRUE(group.filter_rows(twice).ok());
  std::vector<Story> stories = {story, story};
  ASSERT_TRUE(append(group, stories, {{}, ids_from(900, 5)}).ok());
  const uint32_t back[] = {5};
  const size_t longer[] = {1, 1};
  ASSERT_TRUE(group.filter_rows(longer).ok());
  ASSERT_TRUE(group.trim(back).ok());  // 70 again, on pages that still hold 75
  auto bytes = pack_row(group.row(0), kOwner, signed_ids(ids_from(1, 70)), "{\"seed\": 7}");
  ASSERT_TRUE(bytes.ok());
  ASSERT_EQ(bytes->size(), alone_file.bytes.size());
  EXPECT_EQ(std::memcmp(bytes->data(), alone_file.bytes.data(), bytes->size()), 0);
}

TEST(SavedRow, RefusesTheWrongOwnerAndTheWrongLayersByName) {
  Workshop shop;
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(affine(4, 4)), sliding(9)};
  const Saved saved = save(pool, shop, layers, 10, 70);
  const StateFile file = std::move(*StateFile::parse(saved.bytes.span(), "s"));
  const auto refused = [&](const RowOwner& owner, const std::vector<LayerSpec>& of,
                           uint32_t start) {
    const Sequence blank = open(pool, of, start);
    const size_t held = pool.bytes_in_use();
    auto row = load_row(file, owner, blank);
    EXPECT_FALSE(row.ok());
    EXPECT_EQ(row.error().code, ErrorCode::unsupported);
    EXPECT_EQ(pool.bytes_in_use(), held);
    return row.error().text;
  };
  EXPECT_EQ(refused({"ff", kOwner.scheme}, layers, 10), "s: model: 0123456789abcdef, expected ff");
  EXPECT_EQ(refused({kOwner.model, "kv8"}, layers, 10),
            "s: KV scheme: scheme|model|bf16|1, expected kv8");
  for (const auto& other : std::vector<std::vector<LayerSpec>>{{full(affine(4, 4))},
                                                               {full(affine(4, 8)), sliding(9)},
                                                               {full(affine(4, 4)), sliding(8)},
                                                               {full(affine(4, 4), 2), sliding(9)},
                                                               {full(), sliding(9)}})
    EXPECT_EQ(refused(kOwner, other, 10).rfind("s: layers: ", 0), 0u);
  EXPECT_EQ(refused(kOwner, layers, 11).rfind("s: layers: ", 0), 0u);
  // In a step or a round there is nothing to save.
  Sequence row = open(pool, layers, 10);
  ASSERT_TRUE(row.begin(1).ok());
  EXPECT_EQ(pack_row(row, kOwner, {}).error().code, ErrorCode::internal);
}

// A file that is well formed and has the right owner, but not the parts that its length demands.
TEST(SavedRow, RefusesPartsThatDoNotFit) {
  Workshop shop;
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(affine(4, 4)), sliding(9), donor(0), recurrent()};
  const Saved saved = save(pool, shop, layers, 10, 130);
  const StateFile file = std::move(*StateFile::parse(saved.bytes.span(), "s"));
  const Sequence blank = open(pool, layers, 10);
  const auto load = [&](const std::vector<StatePart>& parts, uint32_t length, uint32_t start,
                        bool coded = true) {
    auto bytes = pack_state({file.label(), length, start, coded, file.tokens(), "", parts});
    EXPECT_TRUE(bytes.ok());
    auto made = StateFile::parse(bytes->span(), "s");
    EXPECT_TRUE(made.ok());
    const size_t held = pool.bytes_in_use();
    auto row = load_row(*made, kOwner, blank);
    if (row.ok()) return std::string();
    EXPECT_EQ(row.error().code, ErrorCode::bad_file) << row.error().text;
    EXPECT_EQ(row.error().text.rfind("s: ", 0), 0u) << row.error().text;
    EXPECT_EQ(pool.bytes_in_use(), held);
    return row.error().text;
  };
  const std::vector<StatePart> good(file.parts().begin(), file.parts().end());
  ASSERT_EQ(load(good, 130, 10), "");
  for (size_t i = 0; i < good.size(); ++i) {
    auto parts = good;
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(i));
    EXPECT_NE(load(parts, 130, 10), "") << i;
    parts = good;
    parts[i].bytes = parts[i].bytes.first(parts[i].bytes.size() - 1);
    EXPECT_NE(load(parts, 130, 10), "") << i;
    parts = good;
    parts[i].layer = 2;  // a donor's reader owns nothing
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.before(b); });
    EXPECT_NE(load(parts, 130, 10), "") << i;
  }
  auto parts = good;
  for (StatePart& part : parts)
    if (part.kind == StatePartKind::coded_page) part.kind = StatePartKind::plain_page;
  EXPECT_NE(load(parts, 130, 10), "");
  EXPECT_NE(load(good, 128, 10), "");
  EXPECT_NE(load(good, 60, 10), "");
  EXPECT_NE(load({}, 130, 10), "");
  EXPECT_NE(load(good, 130, 9), "");
  EXPECT_NE(load(good, 130, 10, false), "");
}

TEST(SavedRow, RefusesDamageAnywhere) {
  Workshop shop;
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(anchored(4, 4)), recurrent()};
  Saved saved = save(pool, shop, layers, 0, 70);
  const Sequence blank = open(pool, layers);
  const size_t held = pool.bytes_in_use();
  const auto loads = [&] {
    auto file = StateFile::parse(saved.bytes.span(), "s");
    return file.ok() && load_row(*file, kOwner, blank).ok();
  };
  ASSERT_TRUE(loads());
  int flips = 0;
  for (size_t bit = 0; bit < saved.bytes.size() * 8; bit += 101, ++flips) {
    const auto mask = static_cast<std::byte>(1 << bit % 8);
    saved.bytes[bit / 8] ^= mask;
    ASSERT_FALSE(loads()) << bit;
    saved.bytes[bit / 8] ^= mask;
    ASSERT_EQ(pool.bytes_in_use(), held);
  }
  EXPECT_GT(flips, 1000);
}

TEST(SavedRow, LoadsFromAFile) {
  Workshop shop;
  PagePool pool(0);
  const std::vector<LayerSpec> layers = {full(turbo(8, 4)), sliding(9, turbo(8, 4))};
  auto folder = os::TemporaryFolder::make("gyre-saved-row");
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/row";
  const auto tokens = ids_from(1, 100);
  auto [group, story] = alone(pool, shop, layers, 20, tokens);
  auto ids = signed_ids(tokens);
  ids.push_back(77);  // drawn, not computed
  ASSERT_TRUE(save_row(path, group.row(0), kOwner, ids, "note").ok());
  auto file = StateFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().text;
  EXPECT_EQ(file->tokens().back(), 77);
  const Sequence blank = open(pool, layers, 20);
  auto row = load_row(*file, kOwner, blank);
  ASSERT_TRUE(row.ok()) << row.error().text;
  EXPECT_SAME_ROW(*row, group.row(0));
  std::filesystem::remove(path);
  EXPECT_EQ(row->digest(), group.row(0).digest());
}

}  // namespace
}  // namespace gyre::kv
