// What the fast kernels do differently on different processors. Speed only: bits never depend on
// it.
#pragma once

#include <cstdint>

namespace gyre::kernels {

struct Tuning {
  // Bytes that a matrix-vector kernel prefetches ahead of its panel stream; 0 = leave it to the
  // hardware. Intel's prefetchers fall short of one core's DRAM rate; AMD's are hindered by it.
  uint32_t prefetch_bytes;
  // vdpbf16ps runs at twice the rate of two fmas on AMD, at less than half on Intel.
  bool bf16_dot;
};

// Chosen once from the processor's vendor. Any thread.
const Tuning& tuning();

}  // namespace gyre::kernels
