// Any bytes are a GGUF file or one line of error: views lie inside the bytes and do not overlap,
// metadata and identity can be read, and memory stays within a small multiple of the input.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "loaders/gguf.h"

namespace {

using gyre::loaders::WeightSource;

void require(bool condition) {
  if (!condition) std::abort();
}

void check_error(const gyre::Error& error) {
  require(error.code != gyre::ErrorCode::internal);
  require(error.text.rfind("fuzz.gguf: ", 0) == 0 && error.text.size() < 1000);
  require(std::none_of(error.text.begin(), error.text.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20; }));
}

void check_source(WeightSource& source, std::span<const std::byte> bytes) {
  std::vector<std::pair<const std::byte*, const std::byte*>> ranges;
  unsigned sum = 0;
  for (const auto& info : source.tensors()) {
    require(source.find(info.name) == &info);
    auto whole = source.tensor(info.name, info.shape);
    require(whole.ok() && whole->bytes() == info.bytes && info.bytes > 0);
    const std::byte* end = whole->data + whole->bytes();
    require(whole->data >= bytes.data() && end <= bytes.data() + bytes.size());
    sum += static_cast<unsigned>(whole->data[0]) + static_cast<unsigned>(end[-1]);
    auto last = source.rows(info.name, info.shape, whole->rows - 1, whole->rows);
    require(last.ok() && last->data + last->bytes() == end);
    require(!source.rows(info.name, info.shape, 0, uint64_t{whole->rows} + 1).ok());
    ranges.emplace_back(whole->data, end);
    source.release(*whole);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) require(ranges[i - 1].second <= ranges[i].first);
  require(source.audit().ok());
  for (const auto& key : source.meta_keys()) {
    const auto* value = source.meta(key);
    require(value != nullptr && !gyre::loaders::describe(*value).empty());
    require(source.get_u64(key).ok() + source.get_f64(key).ok() + source.get_string(key).ok() +
                source.get_bool(key).ok() <=
            1);
  }
  require(source.identity().size() == 32);
  volatile unsigned keep = sum;
  (void)keep;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Exactly these bytes on the heap, so that the sanitizer sees a read past the end.
  std::vector<std::byte> bytes(size);
  if (size != 0) std::memcpy(bytes.data(), data, size);
  auto source = gyre::loaders::gguf_from_bytes(bytes, "fuzz.gguf");
  if (source) {
    check_source(**source, bytes);
  } else {
    check_error(source.error());
  }
  return 0;
}
