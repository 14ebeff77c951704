// Rows as floats: decoding equals the gguf package's dequantize bit for bit (its order of f32
// operations); encoding is for tests, benchmarks and tools. No state: any thread, caller owns all
// memory. `n` must be a multiple of the format's block: a caller's duty, asserted.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace gyre::quant {

void decode_row(DType dtype, const std::byte* src, float* dst, size_t n);

// `src` must be finite. F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 and MXFP4 give the bytes of
// the gguf package's quantize; the others search for the least squared error (quant/quantise.h).
// Values beyond what a format can say: an f16 scale of Q4_0 .. Q8_0 overflows to Inf as it does in
// the package; the searching encoders clamp it.
void encode_row(DType dtype, const float* src, std::byte* dst, size_t n);

}  // namespace gyre::quant
