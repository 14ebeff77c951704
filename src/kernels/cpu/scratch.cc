#include "kernels/cpu/scratch.h"

namespace gyre::kernels {

std::byte* linear_scratch() {
  alignas(64) static thread_local std::byte block[kLinearScratchBytes];
  return block;
}

}  // namespace gyre::kernels
