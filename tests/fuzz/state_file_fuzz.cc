// Any bytes are a state file or one line of error, for the container and for a row; what is
// accepted is written back as it was.
//
// Byte 0: bit 0 = make the head's checksum and sizes right first, so that what lies behind them is
// reached; bit 1 = also the parts' checksums; bits 2 and up pick the row's layers.
#include <xxhash.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kv/saved_row.h"

namespace {

using namespace gyre::kv;  // NOLINT

void require(bool condition) {
  if (!condition) std::abort();
}

void check_error(const gyre::Error& error) {
  require(error.code != gyre::ErrorCode::internal);
  require(error.text.size() < 1000);
  require(std::none_of(error.text.begin(), error.text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

template <class T>
T get(const std::vector<std::byte>& bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void put(std::vector<std::byte>& bytes, size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

void make_right(std::vector<std::byte>& bytes, bool parts) {
  if (bytes.size() < 128) return;
  bytes.resize((bytes.size() + 63) / 64 * 64);
  put(bytes, 16, uint64_t{bytes.size()});
  uint64_t texts = 128;
  for (size_t i = 0; i < 4; ++i) texts += get<uint32_t>(bytes, 64 + 4 * i);
  const uint64_t tokens = (texts + 7) / 8 * 8;
  const uint64_t table = (tokens + uint64_t{get<uint32_t>(bytes, 52)} * 4 + 7) / 8 * 8;
  const uint64_t count = get<uint32_t>(bytes, 56);
  const uint64_t head = (table + count * 32 + 63) / 64 * 64;
  put(bytes, 24, head);
  if (head > bytes.size()) return;
  uint64_t at = head;
  for (uint64_t i = 0; i < count && parts; ++i) {
    const auto size = get<uint64_t>(bytes, table + i * 32 + 16);
    if (size > bytes.size() - at) break;
    put(bytes, table + i * 32 + 24, XXH3_64bits(bytes.data() + at, size));
    at += std::min<uint64_t>((size + 63) / 64 * 64, bytes.size() - at);
  }
  put(bytes, 32, XXH3_64bits_withSeed(bytes.data() + 40, head - 40, XXH3_64bits(bytes.data(), 32)));
}

void check_container(const StateFile& file, const std::vector<std::byte>& bytes) {
  bool whole = true;
  for (size_t i = 0; i < file.parts().size(); ++i) {
    const StatePart& part = file.parts()[i];
    require(part.bytes.data() >= bytes.data() &&
            part.bytes.data() + part.bytes.size() <= bytes.data() + bytes.size());
    if (auto good = file.check_part(i); !good.ok()) {
      check_error(good.error());
      whole = false;
    }
  }
  if (!whole) return;
  auto again = pack_state({file.label(), file.length(), file.start(), file.coded(), file.tokens(),
                           file.note(), file.parts()});
  require(again.ok() && again->size() == bytes.size() &&
          std::memcmp(again->data(), bytes.data(), bytes.size()) == 0);
}

void check_row(const StateFile& file, unsigned kind) {
  PagePool pool(size_t{64} << 20);
  const LayerSpec bf16{Place::full, 0, {1, 4, 2, kBf16Code}, -1};
  const LayerSpec window{Place::sliding, 3, {1, 4, 2, gyre::kernels::kF32Code}, -1};
  const LayerSpec two[] = {bf16, window};
  auto blank = Sequence::make(pool, {std::span(two).first(kind % 2 + 1), 4096, 0});
  require(blank.ok());
  // Whoever the file belongs to: the refusal by name has its own tests.
  const RowOwner owner{file.label().model, file.label().scheme};
  auto row = load_row(file, owner, *blank);
  if (!row.ok()) return check_error(row.error());
  require(row->length() == file.length());
  auto again = pack_row(*row, owner, file.tokens(), file.note());
  require(again.ok());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::vector<std::byte> bytes(size - 1);
  if (size != 1) std::memcpy(bytes.data(), data + 1, size - 1);
  if (data[0] & 1) make_right(bytes, data[0] & 2);
  auto file = StateFile::parse(bytes, "fuzz.state");
  if (!file.ok()) {
    check_error(file.error());
    return 0;
  }
  check_container(*file, bytes);
  check_row(*file, data[0] >> 2);
  return 0;
}
