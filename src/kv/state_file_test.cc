// The container alone: its byte picture, every way of being broken, faults. Rows: saved_row_test.
#include "kv/state_file.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "os/fault.h"
#include "os/temporary.h"

namespace gyre::kv {
namespace {

namespace fs = std::filesystem;

std::vector<std::byte> pattern(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random());
  return out;
}

// A file with parts of every kind and of sizes that do and do not fill their last line.
struct Sample {
  std::vector<std::vector<std::byte>> bytes = {pattern(128, 1), pattern(100, 2), pattern(1, 3),
                                               pattern(64, 4), pattern(300, 5)};
  std::vector<StatePart> parts = {{0, StatePartKind::plain_page, 0, bytes[0]},
                                  {0, StatePartKind::plain_page, 7, bytes[1]},
                                  {0, StatePartKind::coded_page, 0, bytes[2]},
                                  {2, StatePartKind::anchor, 0, bytes[3]},
                                  {5, StatePartKind::recurrent, 0, bytes[4]}};
  std::vector<int32_t> tokens = {5, 0, 7, 2147483647, 3};
  StateContents contents() const {
    return {{"0123abcd", "kv4-start128|model", "row: full bf16 2x64", 1},
            3,
            2,
            true,
            tokens,
            "{}",
            parts};
  }
};

std::vector<std::byte> packed(const StateContents& contents) {
  auto bytes = pack_state(contents);
  EXPECT_TRUE(bytes.ok()) << bytes.error().text;
  return {bytes->begin(), bytes->end()};
}

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// Writes a number and makes the head's checksum right again: what a hostile writer would do.
template <class T>
std::vector<std::byte> forged(std::vector<std::byte> bytes, size_t at, T value) {
  put(bytes, at, value);
  uint64_t head = 0;
  std::memcpy(&head, bytes.data() + 24, 8);
  if (head >= 128 && head <= bytes.size())
    put(bytes, 32,
        XXH3_64bits_withSeed(bytes.data() + 40, head - 40, XXH3_64bits(bytes.data(), 32)));
  return bytes;
}

// Parsed whole, parts included: the first refusal.
Status whole(std::span<const std::byte> bytes) {
  GYRE_ASSIGN(const StateFile file, StateFile::parse(bytes, "s"));
  for (size_t i = 0; i < file.parts().size(); ++i) GYRE_TRY(file.check_part(i));
  return {};
}

TEST(StateFile, GivesBackWhatWasWritten) {
  const Sample sample;
  auto folder = os::TemporaryFolder::make("gyre-state");
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/row";
  ASSERT_TRUE(write_state_file(path, sample.contents()).ok());
  auto file = StateFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().text;
  EXPECT_TRUE(file->expect(sample.contents().label).ok());
  EXPECT_EQ(file->length(), 3u);
  EXPECT_EQ(file->start(), 2u);
  EXPECT_TRUE(file->coded());
  EXPECT_EQ(file->note(), "{}");
  EXPECT_TRUE(std::equal(sample.tokens.begin(), sample.tokens.end(), file->tokens().begin(),
                         file->tokens().end()));
  ASSERT_EQ(file->parts().size(), sample.parts.size());
  for (size_t i = 0; i < sample.parts.size(); ++i) {
    const StatePart& part = file->parts()[i];
    EXPECT_EQ(part.layer, sample.parts[i].layer);
    EXPECT_EQ(part.kind, sample.parts[i].kind);
    EXPECT_EQ(part.index, sample.parts[i].index);
    std::vector<std::byte> copy(part.bytes.size());
    ASSERT_TRUE(file->read_part(i, copy.data()).ok());
    EXPECT_EQ(copy, sample.bytes[i]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(part.bytes.data()) % 64, 0u);
  }
  // The same bytes in memory and on disk; a second writing gives the same file.
  std::ifstream in(path, std::ios::binary);
  const std::string disk((std::istreambuf_iterator<char>(in)), {});
  const auto memory = packed(sample.contents());
  ASSERT_EQ(disk.size(), memory.size());
  EXPECT_EQ(std::memcmp(disk.data(), memory.data(), disk.size()), 0);
  EXPECT_TRUE(StateFile::parse(packed({}), "s").ok());  // nothing at all
}

TEST(StateFile, HasTheBytesOfItsPicture) {
  const Sample sample;
  const auto bytes = packed(sample.contents());
  const auto u32 = [&](size_t at) {
    uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, 4);
    return value;
  };
  const auto u64 = [&](size_t at) {
    uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, 8);
    return value;
  };
  EXPECT_EQ(std::memcmp(bytes.data(), "GYRESTAT\x04\x03\x02\x01\x01\0\0\0", 16), 0);
  EXPECT_EQ(u64(16), bytes.size());
  const uint32_t expected[] = {1, 3, 2, 5, 5, 64, 8, 18, 19, 2, 1};
  for (size_t i = 0; i < std::size(expected); ++i) EXPECT_EQ(u32(40 + 4 * i), expected[i]) << i;
  const std::string texts = "0123abcdkv4-start128|modelrow: full bf16 2x64{}";
  EXPECT_EQ(std::memcmp(bytes.data() + 128, texts.data(), texts.size()), 0);
  const size_t tokens = 128 + 48;  // 47 characters, to the next multiple of 8
  EXPECT_EQ(u32(tokens + 12), 2147483647u);
  const size_t table = tokens + 24;
  EXPECT_EQ(u64(24), 384u);  // 200 + 5 * 32 = 360, to the next line
  EXPECT_EQ(u32(table + 32 + 0), 0u);
  EXPECT_EQ(u32(table + 32 + 8), 7u);
  EXPECT_EQ(u64(table + 32 + 16), 100u);
  EXPECT_EQ(u64(table + 32 + 24), XXH3_64bits(sample.bytes[1].data(), 100));
  EXPECT_EQ(u32(table + 3 * 32), 2u);
  EXPECT_EQ(u32(table + 3 * 32 + 4), 2u);
  EXPECT_EQ(std::memcmp(bytes.data() + 384 + 128, sample.bytes[1].data(), 100), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 384 + 256, sample.bytes[2].data(), 1), 0);
  EXPECT_EQ(bytes.size(), 384u + 128 + 128 + 64 + 64 + 320);
  EXPECT_EQ(u64(32),
            XXH3_64bits_withSeed(bytes.data() + 40, 384 - 40, XXH3_64bits(bytes.data(), 32)));
}

TEST(StateFile, RefusesEveryFlippedBit) {
  const Sample sample;
  const auto good = packed(sample.contents());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    const Status status = whole(bad);
    ASSERT_FALSE(status.ok()) << "byte " << bit / 8 << " bit " << bit % 8;
    ASSERT_EQ(status.error().text.rfind("s: ", 0), 0u) << status.error().text;
  }
}

TEST(StateFile, RefusesEveryCutAndEveryGrowth) {
  const Sample sample;
  auto bytes = packed(sample.contents());
  const std::span<const std::byte> all(bytes);
  for (size_t n = 0; n < bytes.size(); ++n) {
    std::vector<std::byte> exact(all.begin(), all.begin() + n);  // the sanitizer sees its end
    ASSERT_FALSE(whole(exact).ok()) << n;
  }
  bytes.resize(bytes.size() + 64);
  EXPECT_NE(whole(bytes).error().text.find("cut off or grown"), std::string::npos);
}

TEST(StateFile, NamesWhatItRefuses) {
  const Sample sample;
  const auto good = packed(sample.contents());
  const auto text = [&](const std::vector<std::byte>& bytes) { return whole(bytes).error().text; };
  const auto says = [&](const std::vector<std::byte>& bytes, const char* words, ErrorCode code) {
    const Status status = whole(bytes);
    ASSERT_FALSE(status.ok()) << words;
    EXPECT_NE(status.error().text.find(words), std::string::npos) << status.error().text;
    EXPECT_EQ(status.error().code, code) << status.error().text;
  };
  ASSERT_EQ(text(good), "");
  constexpr auto bad = ErrorCode::bad_file, other = ErrorCode::unsupported;
  says(pattern(500, 1), "GYRESTAT", bad);
  says({}, "GYRESTAT", bad);
  says(forged(good, 8, 0x04030201u), "byte order", other);
  says(forged(good, 8, 0x01020305u), "byte order", bad);
  says(forged(good, 12, 2u), "state file version: 2, expected 1", other);
  says(forged(good, 16, uint64_t{1} << 60), "cut off", bad);
  for (uint64_t head : {uint64_t{0}, uint64_t{64}, uint64_t{129}, uint64_t{1} << 63})
    says(forged(good, 24, head), "head", bad);
  says(forged(good, 24, uint64_t{448}), "head", bad);
  says(forged(good, 44, 6u), "length: 6", bad);
  says(forged(good, 60, 128u), "positions in a page", other);
  for (size_t count : {52, 56, 64, 68, 72, 76}) {  // tokens, parts, texts
    for (uint32_t value : {0u, 1u, 4u, 7u, 50u, 1u << 16, 1u << 31, ~0u})
      EXPECT_FALSE(whole(forged(good, count, value)).ok()) << count << " " << value;
  }
  says(forged(good, 64, 1u << 16), "text", bad);
  says(forged(good, 80, 2u), "coded: 2", bad);
  says(forged(good, 84, 1u), "unused", bad);
  says(forged(good, 130, '\n'), "printable", bad);
  says(forged(good, 176, -1), "token id: -1", bad);
  const size_t table = 200;
  says(forged(good, table + 4, 4u), "kind", bad);
  says(forged(good, table + 8, 1u << 25), "kind", bad);
  says(forged(good, table + 12, 1u), "kind", bad);
  for (uint64_t size : {uint64_t{0}, uint64_t{1} << 40, ~uint64_t{0}, ~uint64_t{0} - 63})
    says(forged(good, table + 16, size), "part 0: ", bad);
  EXPECT_FALSE(whole(forged(good, table + 16, uint64_t{64})).ok());
  says(forged(good, table + 8, 9u), "out of order", bad);
  says(forged(good, table + 24, uint64_t{1}), "checksum of plain page 0 of layer 0", bad);
  auto flipped = good;
  flipped.back() = std::byte{1};  // padding
  says(flipped, "checksum of recurrent state 0 of layer 5", bad);
}

TEST(StateFile, RefusesAnotherOwnerByName) {
  const Sample sample;
  const auto bytes = packed(sample.contents());
  const StateFile file = std::move(*StateFile::parse(bytes, "s"));
  const auto refused = [&](auto change) {
    StateLabel label = sample.contents().label;
    change(label);
    const Status status = file.expect(label);
    EXPECT_EQ(status.error().code, ErrorCode::unsupported);
    return status.error().text;
  };
  EXPECT_EQ(refused([](StateLabel& l) { l.model = "ffff"; }), "s: model: 0123abcd, expected ffff");
  EXPECT_EQ(refused([](StateLabel& l) { l.scheme = "kv8"; }),
            "s: KV scheme: kv4-start128|model, expected kv8");
  EXPECT_EQ(refused([](StateLabel& l) { l.contract_version = 2; }),
            "s: contract version: 1, expected 2");
  EXPECT_LT(refused([](StateLabel& l) { l.signature = std::string(5000, 'x'); }).size(), 400u);
}

TEST(StateFile, WritesOnlyWhatItCouldRead) {
  Sample sample;
  const auto refused = [&](auto change) {
    StateContents contents = sample.contents();
    change(contents);
    return !pack_state(contents).ok();
  };
  EXPECT_FALSE(refused([](StateContents&) {}));
  EXPECT_TRUE(refused([](StateContents& c) { c.note = "two\nlines"; }));
  EXPECT_TRUE(refused([](StateContents& c) { c.label.model = std::string(70000, 'x'); }));
  EXPECT_TRUE(refused([](StateContents& c) { c.length = 6; }));
  std::swap(sample.parts[0], sample.parts[1]);
  EXPECT_TRUE(refused([](StateContents&) {}));
  std::swap(sample.parts[0], sample.parts[1]);
  sample.parts[2].bytes = {};
  EXPECT_TRUE(refused([](StateContents&) {}));
  sample.parts.resize(2);
  sample.tokens[1] = -1;
  EXPECT_TRUE(refused([](StateContents&) {}));
}

TEST(StateFile, EveryFaultLeavesTheOldFileOrTheNewOne) {
  Sample sample;
  auto folder = os::TemporaryFolder::make("gyre-state");
  ASSERT_TRUE(folder.ok());
  const std::string path = folder->path() + "/row";
  ASSERT_TRUE(write_state_file(path, sample.contents()).ok());
  StateContents other = sample.contents();
  other.note = "other";
  const auto note = [&] {
    auto file = StateFile::open(path);
    return file.ok() ? file->note() : file.error().text;
  };
  const auto entries = [&] {
    return std::distance(fs::directory_iterator(folder->path()), fs::directory_iterator());
  };
  int failures = 0;
  for (auto [inject, reset] : {std::pair{&fail_allocation_after, ErrorCode::out_of_memory},
                               std::pair{&os::fail_operation_after, ErrorCode::io}}) {
    for (long n = 0;; ++n) {
      inject(n);
      const Status status = write_state_file(path, other);
      inject(-1);
      EXPECT_EQ(entries(), 1);
      if (status.ok()) break;
      ++failures;
      EXPECT_EQ(status.error().code, reset);
      const bool in_place = status.error().text.find("is in place") != std::string::npos;
      EXPECT_EQ(note(), in_place ? "other" : "{}") << n;
      ASSERT_TRUE(write_state_file(path, sample.contents()).ok());
    }
    EXPECT_EQ(note(), "other");
    ASSERT_TRUE(write_state_file(path, sample.contents()).ok());
    for (long n = 0;; ++n) {
      inject(n);
      auto file = StateFile::open(path);
      inject(-1);
      if (file.ok()) break;
      ++failures;
      EXPECT_EQ(file.error().code, reset);
    }
  }
  EXPECT_GT(failures, 15);
  EXPECT_EQ(StateFile::open(path + "x").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace gyre::kv
