// GGUF's numbers: what the reader and the writer share (docs/formats/gguf.md). Little endian.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace gyre::loaders::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF bytes are read as they lie");

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr uint32_t kOldestVersion = 2;
inline constexpr uint32_t kNewestVersion = 3;
inline constexpr uint32_t kDefaultAlignment = 32;
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr std::string_view kSplitNumber = "split.no";
inline constexpr std::string_view kSplitCount = "split.count";
inline constexpr std::string_view kSplitTensors = "split.tensors.count";

// Our limits, where the format has none or none that a reader could rely on.
inline constexpr uint64_t kMaxKeyBytes = 65535;
inline constexpr uint64_t kMaxNameBytes = 255;
inline constexpr uint32_t kMaxDims = 4;
inline constexpr uint64_t kMinAlignment = 8, kMaxAlignment = uint64_t{1} << 30;
inline constexpr uint64_t kMaxRows = 0xffffffff;  // a TensorView counts in 32 bits

// The smallest entry: what a count is checked against before anything is allocated.
inline constexpr size_t kSmallestPair = 8 + 1 + 4 + 1;            // key, type, one byte
inline constexpr size_t kSmallestTensor = 8 + 1 + 4 + 8 + 4 + 8;  // name, dims, type, offset

enum class ValueType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr uint32_t kValueTypes = 13;
std::string_view name(ValueType type);

// ggml's name of a tensor type that Gyre does not read; empty for a number nobody uses.
std::string_view foreign_type_name(uint32_t gguf_type);

}  // namespace gyre::loaders::gguf
