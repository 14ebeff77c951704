// Byte counts that stop at the largest number instead of wrapping: an estimate then fits nowhere.
#pragma once

#include <cstdint>

namespace gyre::kv {

constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}
constexpr uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

}  // namespace gyre::kv
