// The weight formats: one closed list, with their block sizes. Quantised formats follow GGUF's
// byte pictures (docs/formats/quant.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace gyre {

enum class DType : uint8_t {
  f32,
  f16,
  bf16,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  iq4_nl,
  iq4_xs,
  mxfp4,
};
inline constexpr DType kAllDTypes[] = {DType::f32,  DType::f16,    DType::bf16,   DType::q4_0,
                                       DType::q4_1, DType::q5_0,   DType::q5_1,   DType::q8_0,
                                       DType::q2_k, DType::q3_k,   DType::q4_k,   DType::q5_k,
                                       DType::q6_k, DType::iq4_nl, DType::iq4_xs, DType::mxfp4};

struct DTypeInfo {
  std::string_view name;  // as GGUF spells it, e.g. "Q4_K"
  uint32_t block;         // elements of one block along K; 1 for plain types
  uint32_t bytes;         // bytes of one block
  uint32_t gguf_type;     // ggml's number
};
const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) {
  return info(dtype).name;
}
std::optional<DType> dtype_from_gguf(uint32_t gguf_type);

// Bytes of one row of `cols` elements; cols must be a multiple of the block.
inline size_t row_bytes(DType dtype, size_t cols) {
  return cols / info(dtype).block * info(dtype).bytes;
}

}  // namespace gyre
