// Tests only: a GGUF file from parts that need not fit together, to see what the reader refuses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gyre::loaders {

struct RawGguf {
  struct Pair {
    std::string key;
    uint32_t type;
    std::string payload;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> dims;  // innermost first, as in the file
    uint32_t type;
    uint64_t offset;
  };

  template <class T>
  static std::string le(T value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static std::string text(std::string_view value) {
    return le(uint64_t{value.size()}).append(value);
  }

  std::string magic = "GGUF";
  uint32_t version = 3;
  std::optional<uint64_t> pair_count, tensor_count;  // as in the lists unless given
  std::vector<Pair> pairs;
  std::vector<Tensor> tensors;
  uint32_t alignment = 32;  // of the padding only
  size_t data_bytes = 0;

  std::string bytes() const {
    std::string out = magic + le(version);
    out += le(tensor_count.value_or(tensors.size())) + le(pair_count.value_or(pairs.size()));
    for (const Pair& pair : pairs) out += text(pair.key) + le(pair.type) + pair.payload;
    for (const Tensor& tensor : tensors) {
      out += text(tensor.name) + le(static_cast<uint32_t>(tensor.dims.size()));
      for (const uint64_t dim : tensor.dims) out += le(dim);
      out += le(tensor.type) + le(tensor.offset);
    }
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    for (size_t i = 0; i < data_bytes; ++i) out.push_back(static_cast<char>(i * 37));
    return out;
  }

  // A file that is right: one string, one number, an F32 vector of 8 and a Q4_0 matrix 2 x 64.
  static RawGguf good() {
    RawGguf raw;
    raw.pairs = {{"general.architecture", 8, text("tiny")},
                 {"tiny.block_count", 4, le(uint32_t{2})}};
    raw.tensors = {{"norm.weight", {8}, 0, 0}, {"proj.weight", {64, 2}, 2, 32}};
    raw.data_bytes = 32 + 72;
    return raw;
  }
};

// The text's bytes at an address that a mapping could have.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::string_view text) : words_(text.size() / 8 + 1), size_(text.size()) {
    std::memcpy(words_.data(), text.data(), text.size());
  }
  std::span<const std::byte> span() const { return std::as_bytes(std::span(words_)).first(size_); }

 private:
  std::vector<uint64_t> words_;
  size_t size_;
};

}  // namespace gyre::loaders
