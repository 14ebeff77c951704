// Reads little-endian fields from bytes, never past their end. A failed take() leaves the place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace gyre::loaders::gguf {

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  template <class T>
  [[nodiscard]] bool take(T* out) {
    if (left() < sizeof(T)) return false;
    std::memcpy(out, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // `size` bytes as text that lives as long as the bytes.
  [[nodiscard]] bool take_text(uint64_t size, std::string_view* out) {
    if (size > left()) return false;
    *out = {reinterpret_cast<const char*>(bytes_.data() + at_), static_cast<size_t>(size)};
    at_ += static_cast<size_t>(size);
    return true;
  }

  // GGUF's string: a 64-bit length, then the bytes.
  [[nodiscard]] bool take_string(std::string_view* out) {
    const size_t begin = at_;
    uint64_t size = 0;
    if (take(&size) && take_text(size, out)) return true;
    at_ = begin;
    return false;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace gyre::loaders::gguf
