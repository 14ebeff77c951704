// Working memory of the linear kernels: one fixed block for each thread, so calls never allocate.
#pragma once

#include <cstddef>

namespace gyre::kernels {

inline constexpr size_t kLinearScratchBytes = size_t{256} << 10;

// This thread's block, 64-byte aligned; its content lasts only within one kernel call.
std::byte* linear_scratch();

}  // namespace gyre::kernels
