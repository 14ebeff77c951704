#include "numerics/softmax_row.h"

#include <bit>
#include <limits>

#include "numerics/scalar_vocabulary.h"

namespace gyre::numerics {
namespace baseline {
#include "numerics/functions.inl"
#include "numerics/softmax_row.inl"
}  // namespace baseline
}  // namespace gyre::numerics

// The same text where the compiler may use fma and 256-bit vectors.
#if defined(__x86_64__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
namespace gyre::numerics::wide {
#include "numerics/functions.inl"
#include "numerics/softmax_row.inl"
}  // namespace gyre::numerics::wide
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else
namespace gyre::numerics {
namespace wide = baseline;
}
#endif

namespace gyre::numerics {
namespace {

bool is_wide() {
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide;
#else
  return false;
#endif
}

}  // namespace

RowLimits row_limits(const float* x, size_t n) {
  return is_wide() ? wide::row_limits(x, n) : baseline::row_limits(x, n);
}

uint64_t softmax_weights(const float* x, size_t n, float maximum, uint64_t* weights) {
  return is_wide() ? wide::softmax_weights(x, n, maximum, weights)
                   : baseline::softmax_weights(x, n, maximum, weights);
}

uint64_t softmax_weight_sum(const float* x, size_t n, float maximum) {
  return is_wide() ? wide::softmax_weight_sum(x, n, maximum)
                   : baseline::softmax_weight_sum(x, n, maximum);
}

}  // namespace gyre::numerics
