// Makes GGUF files: metadata in the order of add(), then tensors (tests, later `convert`).
//
//   GgufWriter writer;
//   writer.add("general.architecture", "llama");
//   writer.add_tensor("output_norm.weight", DType::f32, {64}, bytes);
//   GYRE_ASSIGN(const std::vector<std::byte> file, writer.finish());
//
// The type of the C++ value is the type in the file. finish() reads the result back with the
// reader's checks, so what it returns is a file that Gyre opens. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "loaders/gguf_format.h"
#include "tensor/dtype.h"

namespace gyre::loaders {

class GgufWriter {
 public:
  explicit GgufWriter(uint32_t version = gguf::kNewestVersion) : version_(version) {}

  // general.alignment (a uint32_t) also sets the alignment of this file; otherwise it is 32.
  template <class T>
  requires std::is_arithmetic_v<T>
  void add(std::string_view key, T value) {
    begin_pair(key, type_of<T>());
    put(value);
    if constexpr (std::is_same_v<T, uint32_t>) {
      if (key == gguf::kAlignmentKey) alignment_ = value;
    }
  }
  void add(std::string_view key, std::string_view value);
  void add(std::string_view key, const char* value) { add(key, std::string_view(value)); }

  template <class T>
  requires std::is_arithmetic_v<T>
  void add_array(std::string_view key, std::span<const T> values) {
    begin_array(key, type_of<T>(), values.size());
    for (const T value : values) put(value);
  }
  void add_array(std::string_view key, std::span<const std::string> values);

  // `shape` is outermost first. The bytes are borrowed until finish().
  void add_tensor(std::string_view name, DType dtype, std::vector<uint64_t> shape,
                  std::span<const std::byte> bytes);

  // The whole file. Adding more and finishing again is allowed.
  Result<std::vector<std::byte>> finish() const;

 private:
  struct Tensor {
    std::string name;
    DType dtype;
    std::vector<uint64_t> shape;
    std::span<const std::byte> bytes;
  };

  template <class T>
  static constexpr gguf::ValueType type_of() {
    using gguf::ValueType;
    if constexpr (std::is_same_v<T, bool>) {
      return ValueType::boolean;
    } else if constexpr (std::is_floating_point_v<T>) {
      return sizeof(T) == 4 ? ValueType::f32 : ValueType::f64;
    } else {
      constexpr bool kSigned = std::is_signed_v<T>;
      switch (sizeof(T)) {
        case 1:
          return kSigned ? ValueType::i8 : ValueType::u8;
        case 2:
          return kSigned ? ValueType::i16 : ValueType::u16;
        case 4:
          return kSigned ? ValueType::i32 : ValueType::u32;
        default:
          return kSigned ? ValueType::i64 : ValueType::u64;
      }
    }
  }

  template <class T>
  void put(T value) {
    metadata_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_string(std::string_view text);
  void begin_pair(std::string_view key, gguf::ValueType type);
  void begin_array(std::string_view key, gguf::ValueType type, uint64_t count);

  uint32_t version_;
  uint32_t alignment_ = gguf::kDefaultAlignment;
  uint64_t pairs_ = 0;
  std::string metadata_;  // encoded
  std::vector<Tensor> tensors_;
};

}  // namespace gyre::loaders
