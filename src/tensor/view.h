// A borrowed two-dimensional tensor: `rows` outputs by `cols` elements along K, rows contiguous.
// The memory space says who may read the bytes: only kernels/ reads bytes that are not on the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace gyre {

enum class MemorySpace : uint8_t { host, device };

struct TensorView {
  DType dtype = DType::f32;
  uint32_t rows = 0, cols = 0;
  const std::byte* data = nullptr;
  MemorySpace space = MemorySpace::host;

  size_t bytes() const { return rows * row_bytes(dtype, cols); }
};

}  // namespace gyre
