#include "os/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "os/cpu.h"
#include "os/fault.h"

namespace gyre::os {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() {
    std::string name = testing::TempDir() + "gyre_os_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~Files() override {
    fail_operation_after(-1);
    fs::remove_all(root_);
  }
  std::string at(const std::string& name) const { return root_ + "/" + name; }
  static std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }
  size_t entries() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(root_), fs::directory_iterator()));
  }
  std::string root_;
};

TEST_F(Files, WritesReadsAndMaps) {
  const std::string text("two\0lines\n", 10);
  ASSERT_TRUE(write_file_atomically(at("a"), bytes(text)));
  EXPECT_EQ(entries(), 1u);
  EXPECT_EQ(*read_file(at("a"), 10), text);
  EXPECT_EQ(*file_size(at("a")), 10u);
  auto map = MappedFile::open(at("a"));
  ASSERT_TRUE(map);
  EXPECT_TRUE(
      std::equal(map->bytes().begin(), map->bytes().end(), bytes(text).begin(), bytes(text).end()));
  // The owner moves; the bytes stay where they are.
  const std::byte* place = map->bytes().data();
  MappedFile other = *std::move(map);
  MappedFile third;
  third = std::move(other);
  EXPECT_EQ(third.bytes().data(), place);
  EXPECT_TRUE(other.bytes().empty());

  ASSERT_TRUE(write_file_atomically(at("a"), {}));
  EXPECT_TRUE(MappedFile::open(at("a"))->bytes().empty());
  EXPECT_EQ(*read_file(at("a"), 0), "");
  EXPECT_EQ(static_cast<char>(third.bytes()[0]), 't');  // the old file lives on behind its mapping
}

TEST_F(Files, ReadsFilesWithoutASize) {
  auto status = read_file("/proc/self/status", size_t{1} << 20);
  ASSERT_TRUE(status) << status.error().text;
  EXPECT_NE(status->find("VmRSS:"), std::string::npos);
}

TEST_F(Files, ErrorsNameThePathAndTheReason) {
  const std::string missing = at("no/such");
  for (const Error& error : {MappedFile::open(missing).error(), read_file(missing, 1).error()}) {
    EXPECT_EQ(error.code, ErrorCode::not_found);
    EXPECT_EQ(error.text, missing + ": open: No such file or directory");
  }
  EXPECT_EQ(file_size(missing).error().text, missing + ": stat: No such file or directory");
  EXPECT_EQ(write_file_atomically(missing, {}).error().code, ErrorCode::not_found);
  EXPECT_EQ(MappedFile::open(root_).error().text, root_ + ": map: Is a directory");
  EXPECT_EQ(MappedFile::open("/dev/null").error().text,
            "/dev/null: map: a special file, expected a regular file");
  const std::string with_zero("a\0b", 3);
  EXPECT_EQ(read_file(with_zero, 1).error().code, ErrorCode::usage);
  EXPECT_EQ(exists(with_zero).error().code, ErrorCode::usage);

  ASSERT_TRUE(write_file_atomically(at("a"), bytes("12345")));
  EXPECT_EQ(read_file(at("a"), 4).error().text,
            at("a") + ": more than 4 bytes, expected a smaller file");
  EXPECT_TRUE(read_file(at("a"), 5));
  EXPECT_EQ(make_dirs(at("a/b")).error().text, at("a") + ": make directory: File exists");
}

TEST_F(Files, ExistsAndMakesDirectories) {
  EXPECT_FALSE(*exists(at("x/y/z")));
  ASSERT_TRUE(make_dirs(at("x/y/z")));
  EXPECT_TRUE(*exists(at("x/y/z")));
  EXPECT_TRUE(make_dirs(at("x/y/z")));
  EXPECT_TRUE(make_dirs(at("x//y/w/")));
  EXPECT_TRUE(*exists(at("x/y/w")));
}

// How many of this mapping's pages the process holds, from the kernel's own table.
uint64_t resident_of(const std::byte* begin) {
  std::ifstream maps("/proc/self/smaps");
  char prefix[32];
  std::snprintf(prefix, sizeof prefix, "%lx-", reinterpret_cast<unsigned long>(begin));
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    if (line.rfind(prefix, 0) == 0) inside = true;
    if (inside && line.rfind("Rss:", 0) == 0) return std::stoull(line.substr(4)) * 1024;
  }
  return 0;
}

TEST_F(Files, ReleaseDropsWholePagesInsideOnly) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t pages = 64;
  std::string text(pages * page + 100, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 2654435761u >> 24);
  ASSERT_TRUE(write_file_atomically(at("big"), bytes(text)));
  auto map = MappedFile::open(at("big"));
  ASSERT_TRUE(map);
  const auto same = [&] {
    return std::equal(map->bytes().begin(), map->bytes().end(), bytes(text).begin());
  };
  const std::byte* begin = map->bytes().data();
  map->will_need(3, text.size());
  map->will_need(text.size() + 1, 5);
  ASSERT_TRUE(same());
  EXPECT_EQ(resident_of(begin), (pages + 1) * page);
  map->release(1, 2 * page);  // pages 0 and 2 are only partly inside: page 1 alone goes
  EXPECT_EQ(resident_of(begin), pages * page);
  map->release(10 * page, 5 * page);
  EXPECT_EQ(resident_of(begin), (pages - 5) * page);
  map->release(5, 10);
  map->release(text.size(), 10);
  map->release(~size_t{0}, ~size_t{0});
  EXPECT_EQ(resident_of(begin), (pages - 5) * page);
  ASSERT_TRUE(same());                     // read from the file again
  map->release(pages * page, ~size_t{0});  // the last, short page
  EXPECT_EQ(resident_of(begin), pages * page);
  map->release(0, ~size_t{0});
  EXPECT_EQ(resident_of(begin), 0u);
  ASSERT_TRUE(same());
}

TEST_F(Files, EveryFailingOperationIsReportedAndUndone) {
  ASSERT_TRUE(write_file_atomically(at("a"), bytes("old")));
  int failures = 0;
  for (long n = 0;; ++n) {
    fail_operation_after(n);
    const Status status = write_file_atomically(at("a"), bytes("new"));
    fail_operation_after(-1);
    EXPECT_EQ(entries(), 1u) << n;
    if (status) break;
    ++failures;
    EXPECT_EQ(status.error().code, ErrorCode::io);
    EXPECT_NE(status.error().text.find(root_), std::string::npos);
    EXPECT_NE(status.error().text.find("Input/output error"), std::string::npos);
    const bool in_place = status.error().text.find("is in place") != std::string::npos;
    EXPECT_EQ(*read_file(at("a"), 10), in_place ? "new" : "old") << n;
    EXPECT_EQ(in_place, n >= 4) << n;  // open, write, sync, rename | open directory, sync
    ASSERT_TRUE(write_file_atomically(at("a"), bytes("old")));
  }
  EXPECT_EQ(failures, 6);

  const std::span<const std::byte> parts[] = {bytes("one"), {}, bytes("two")};
  for (long n = 0; n < 7; ++n) {  // open, two writes, sync, rename | open directory, sync
    fail_operation_after(n);
    EXPECT_EQ(write_parts_atomically(at("a"), parts).error().code, ErrorCode::io) << n;
    EXPECT_EQ(*read_file(at("a"), 10), n >= 5 ? "onetwo" : n == 0 ? "new" : "old") << n;
    ASSERT_TRUE(write_file_atomically(at("a"), bytes("old")));
    EXPECT_EQ(entries(), 1u) << n;
  }
  ASSERT_TRUE(write_parts_atomically(at("a"), parts));
  EXPECT_EQ(*read_file(at("a"), 10), "onetwo");

  for (long n = 0; n < 3; ++n) {  // open, stat, map
    fail_operation_after(n);
    EXPECT_EQ(MappedFile::open(at("a")).error().code, ErrorCode::io) << n;
  }
  for (long n = 0; n < 3; ++n) {  // open, read, read of the end
    fail_operation_after(n);
    EXPECT_EQ(read_file(at("a"), 10).error().code, ErrorCode::io) << n;
  }
  fail_operation_after(0);
  EXPECT_EQ(exists(at("a")).error().code, ErrorCode::io);
  fail_operation_after(0);
  EXPECT_EQ(file_size(at("a")).error().code, ErrorCode::io);
  fail_operation_after(0);
  EXPECT_EQ(make_dirs(at("new")).error().code, ErrorCode::io);
  EXPECT_FALSE(*exists(at("new")));
}

}  // namespace
}  // namespace gyre::os
