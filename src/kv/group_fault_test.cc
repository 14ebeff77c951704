// Every operation of a group with its n-th allocation failing, for all n: the error says so, no
// page leaks or is released twice, group and sources are as they were, and the same operation then
// works.
#include <filesystem>
#include <functional>

#include "kv/group_fixture.h"
#include "kv/saved_row.h"
#include "os/fault.h"
#include "os/temporary.h"

namespace gyre::kv {
namespace {

using namespace testing;  // NOLINT

// Three rows that differ in everything: plain, coded from the start on, coded later; each with a
// window and a recurrent layer. The third is about to cross its start and a page border.
struct Scene {
  PagePool pool{0};
  Workshop shop;
  KvGroup group;
  std::vector<Story> stories{3};
  std::vector<Sequence> apart;  // rows outside the group

  static std::vector<LayerSpec> layers(LayerCode code) {
    return {full(code), sliding(20, code), recurrent(), donor(0)};
  }
  Scene() : group(make_group(pool, shop, layers(kBf16Code))) {
    std::vector<Sequence> rows;
    rows.push_back(open(pool, layers(kBf16Code)));
    rows.push_back(open(pool, layers(affine(4, 4))));
    rows.push_back(open(pool, layers(anchored(4, 4)), 63));
    const Sequence* pointers[] = {&rows[0], &rows[1], &rows[2]};
    EXPECT_TRUE(group.adopt_rows(pointers).ok());
    rows.clear();
    EXPECT_TRUE(
        append(group, stories, {ids_from(1, 66), ids_from(200, 5), ids_from(400, 62)}).ok());
    // A shared last page, so that the next step has something to copy.
    apart.push_back(std::move(*group.extract_row(0)));
    apart.push_back(std::move(*group.extract_row(2)));
  }
  // What must not change: every row's bytes.
  std::vector<uint64_t> digests() const {
    std::vector<uint64_t> out;
    for (size_t r = 0; r < group.size(); ++r) out.push_back(group.row(r).digest());
    for (const Sequence& row : apart) out.push_back(row.digest());
    return out;
  }
  // Bytes of pages that a step would copy: a step that fails in a later row may leave them.
  size_t shared_bytes() const { return group.describe().shared_bytes; }
};

using Operation = std::function<Status(Scene&)>;

// Runs `operation` with the n-th allocation (or file operation) failing, for all n. Returns how
// many failed.
int fail_each(
    void (*inject)(long), ErrorCode code, const Operation& operation,
    const std::function<void(Scene&)>& prepare = [](Scene&) {}) {
  for (long n = 0;; ++n) {
    SCOPED_TRACE("failure " + std::to_string(n));
    Scene scene;
    prepare(scene);
    const auto before = scene.digests();
    const size_t held = scene.pool.bytes_in_use(), copies = scene.shared_bytes();
    inject(n);
    const Status status = operation(scene);
    inject(-1);
    if (!status.ok()) {
      EXPECT_EQ(status.error().code, code) << status.error().text;
      EXPECT_EQ(scene.digests(), before);
      EXPECT_GE(scene.pool.bytes_in_use(), held);
      EXPECT_LE(scene.pool.bytes_in_use(), held + copies);
      EXPECT_TRUE(operation(scene).ok());
    }
    scene.apart.clear();
    scene.group.dispose();
    EXPECT_EQ(scene.pool.bytes_in_use(), 0u);
    if (status.ok() || ::testing::Test::HasFailure()) return static_cast<int>(n);
  }
}
int fail_allocations(const Operation& operation) {
  return fail_each(fail_allocation_after, ErrorCode::out_of_memory, operation);
}

TEST(KvGroupFaults, Membership) {
  EXPECT_GT(fail_allocations([](Scene& scene) -> Status {
              const Sequence* rows[] = {&scene.apart[1], &scene.apart[0], &scene.apart[1]};
              GYRE_ASSIGN(KvGroup other, scene.group.make_empty_batch());
              return other.adopt_rows(rows);
            }),
            20);
  EXPECT_GT(fail_allocations([](Scene& scene) -> Status {
              const RowSource sources[] = {{.group = &scene.group}, {.row = &scene.apart[0]}};
              GYRE_ASSIGN(KvGroup other, scene.group.make_empty_batch());
              return other.merge_rows(sources);
            }),
            20);
  EXPECT_GT(fail_allocations([](Scene& scene) -> Status {
              GYRE_ASSIGN(const Sequence row, scene.group.extract_row(2));
              GYRE_ASSIGN(const Sequence blank, scene.group.make_row());
              EXPECT_EQ(row.digest(), scene.group.row(2).digest());
              return {};
            }),
            4);
}

// These change the group where they succeed, so nothing runs twice.
TEST(KvGroupFaults, MembershipInPlace) {
  for (const bool merge : {false, true}) {
    int failures = 0;
    for (long n = 0;; ++n) {
      Scene scene;
      const auto before = scene.digests();
      const size_t held = scene.pool.bytes_in_use();
      const size_t keep[] = {2, 0, 2, 1, 1};
      const RowSource sources[] = {{.row = &scene.apart[0]}, {.group = &scene.group}};
      fail_allocation_after(n);
      const Status status = merge ? scene.group.merge_rows(sources) : scene.group.filter_rows(keep);
      fail_allocation_after(-1);
      EXPECT_EQ(scene.pool.bytes_in_use(), held);
      if (status.ok()) {
        EXPECT_EQ(scene.group.size(), merge ? 4u : 5u);
        break;
      }
      ++failures;
      EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
      EXPECT_EQ(scene.digests(), before);
    }
    EXPECT_GT(failures, 10);
  }
}

TEST(KvGroupFaults, Appends) {
  const auto window = [](std::vector<uint32_t> counts) {
    return [counts](Scene& scene) -> Status {
      uint32_t total = 0;
      for (uint32_t n : counts) total += n;
      GYRE_ASSIGN(Append step, scene.group.append_window(counts));
      run_step(step, scene.group, ids_from(900, total));
      return {};  // dropped
    };
  };
  EXPECT_GT(fail_allocations(window({1, 1, 5})), 12);
  EXPECT_GT(fail_allocations(window({60, 0, 70})), 20);
  EXPECT_GT(fail_allocations([](Scene& scene) -> Status {
              GYRE_ASSIGN(Append step, scene.group.append_decode());
              return {};
            }),
            6);
}

// Positions that were appended before the failure stay, each like a decode of its own.
TEST(KvGroupFaults, AppendCommitted) {
  const uint32_t counts[] = {3, 0, 3};
  const auto span = [&](Scene& scene) {
    return scene.group.append_committed(counts, [&](Append& step, uint32_t offset) {
      const uint32_t ids[] = {70 + offset, 170 + offset};
      run_step(step, scene.group, ids);
      return Status();
    });
  };
  std::vector<int> failures(3, 0);
  for (long n = 0;; ++n) {
    SCOPED_TRACE("failure " + std::to_string(n));
    Scene scene, twin;
    fail_allocation_after(n);
    const Status status = span(scene);
    fail_allocation_after(-1);
    if (status.ok()) break;
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    const uint32_t done = scene.group.row(0).length() - 66;
    ASSERT_LT(done, 3u);
    ++failures[done];
    const std::vector<uint32_t> first = ids_from(70, done), last = ids_from(170, done);
    ASSERT_TRUE(append(twin.group, twin.stories, {first, {}, last}).ok());
    EXPECT_EQ(scene.digests(), twin.digests());
    scene.apart.clear();
    scene.group.dispose();
    EXPECT_EQ(scene.pool.bytes_in_use(), 0u);
  }
  for (int n : failures) EXPECT_GT(n, 0);
}

// A begin that fails poisons its row only; the others' rounds go on and end as if it were not
// there.
TEST(KvGroupFaults, ABeginThatFailsPoisonsItsRowOnly) {
  int failures = 0;
  std::vector<int> poisoned(3, 0);
  for (long n = 0;; ++n) {
    SCOPED_TRACE("failure " + std::to_string(n));
    Scene scene, twin;
    const uint32_t drafts[] = {4};
    ASSERT_TRUE(twin.group.spec_round_begin(drafts).ok());
    fail_allocation_after(n);
    const Status status = scene.group.spec_round_begin(drafts);
    fail_allocation_after(-1);
    std::vector<std::vector<uint32_t>> ids(3);
    std::vector<uint32_t> keep = {2, 0, 3};
    int lost = 0;
    for (size_t r = 0; r < 3; ++r) {
      ids[r] = ids_from(static_cast<uint32_t>(700 + 10 * r), 5);
      if (!scene.group.poisoned(r)) continue;
      ++lost;
      ++poisoned[r];
      EXPECT_NE(status.error().text.find("row " + std::to_string(r)), std::string::npos);
    }
    EXPECT_EQ(lost, status.ok() ? 0 : 1);
    ASSERT_TRUE(append(twin.group, twin.stories, ids).ok());
    for (size_t r = 0; r < 3; ++r) {
      if (scene.group.poisoned(r)) ids[r].clear();
    }
    ASSERT_TRUE(append(scene.group, scene.stories, ids).ok());
    ASSERT_TRUE(twin.group.spec_round_rollback(keep, replay_toy).ok());
    fail_allocation_after(0);  // nothing here may need memory
    const Status resolved = scene.group.spec_round_rollback(keep, replay_toy);
    fail_allocation_after(-1);
    ASSERT_TRUE(resolved.ok()) << resolved.error().text;
    for (size_t r = 0; r < 3; ++r) {
      if (scene.group.poisoned(r)) continue;
      EXPECT_SAME_ROW(scene.group.row(r), twin.group.row(r));
    }
    scene.apart.clear();
    scene.group.dispose();
    EXPECT_EQ(scene.pool.bytes_in_use(), 0u);
    if (status.ok()) break;
    ++failures;
  }
  EXPECT_GT(failures, 10);
  for (int n : poisoned) EXPECT_GT(n, 0);
}

TEST(KvGroupFaults, TrimAndRoundsThatEndNeedNoMemory) {
  Scene scene;
  const uint32_t counts[] = {66, 5, 62};
  fail_allocation_after(0);
  EXPECT_TRUE(scene.group.trim(counts).ok());
  fail_allocation_after(-1);
  EXPECT_EQ(scene.group.row(0).length(), 0u);
}

TEST(KvGroupFaults, Checkpoints) {
  EXPECT_GT(fail_allocations([](Scene& scene) -> Status {
              GYRE_TRY(scene.group.row(0).checkpoint());
              return scene.group.row(2).checkpoint();
            }),
            1);
}

TEST(KvGroupFaults, StateFiles) {
  auto folder = os::TemporaryFolder::make("gyre-saved-row");
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/row";
  const RowOwner owner{"model", "scheme"};
  const auto save = [&](Scene& scene) -> Status {
    const auto& ids = scene.stories[2].tokens;
    return save_row(path, scene.group.row(2), owner, std::vector<int32_t>(ids.begin(), ids.end()),
                    "note");
  };
  const auto load = [&](Scene& scene) -> Status {
    GYRE_ASSIGN(const StateFile file, StateFile::open(path));
    const Sequence blank = open(scene.pool, Scene::layers(anchored(4, 4)), 63);
    GYRE_ASSIGN(const Sequence row, load_row(file, owner, blank));
    EXPECT_EQ(row.digest(), scene.group.row(2).digest());
    return {};
  };
  Scene scene;
  ASSERT_TRUE(save(scene).ok());
  EXPECT_GT(fail_allocations(save), 3);
  EXPECT_GT(fail_each(os::fail_operation_after, ErrorCode::io, save), 5);
  EXPECT_GT(fail_each(os::fail_operation_after, ErrorCode::io, load), 2);
  // The blank row is the caller's: its memory is not under test.
  int failures = 0;
  for (long n = 0;; ++n) {
    const Sequence blank = open(scene.pool, Scene::layers(anchored(4, 4)), 63);
    const size_t held = scene.pool.bytes_in_use();
    fail_allocation_after(n);
    auto file = StateFile::open(path);
    const Status status = file.ok() ? [&]() -> Status {
      GYRE_ASSIGN(const Sequence row, load_row(*file, owner, blank));
      return {};
    }()
        : Status(file.error());
    fail_allocation_after(-1);
    EXPECT_EQ(scene.pool.bytes_in_use(), held);
    if (status.ok()) break;
    ++failures;
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
  }
  EXPECT_GT(failures, 8);
}

}  // namespace
}  // namespace gyre::kv
