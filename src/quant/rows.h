// Rows as floats: decoding equals the gguf package's dequantize bit for bit (its order of f32
// operations); encoding is for tests, benchmarks and tools. No state: any thread, caller owns all
// memory. `n` must be a multiple of the format's block: a caller's duty, asserted.
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace gyre::quant {

void decode_row(DType dtype, const std::byte* src, float* dst, size_t n);

}  // namespace gyre::quant
