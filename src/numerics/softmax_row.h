// Softmax weights of a whole row of logits as integers: w = round_half_even(exp(l - max) * 2^40).
// Integer sums are exact in any order, so these loops may be vectorised or split freely.
// Chosen once by CPU feature; every variant gives the same bits. Callers hold a FloatEnvironment.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::numerics {

inline constexpr int kWeightBits = 40;
inline constexpr uint64_t kWeightOne = uint64_t{1} << kWeightBits;
// Rows up to this length keep their weights' sum below 2^63.
inline constexpr size_t kMaxSoftmaxRow = size_t{1} << 23;

struct RowLimits {
  float maximum;  // of the row; meaningless when not finite, -inf when n = 0
  bool finite;    // no NaN or infinity in the row
};
RowLimits row_limits(const float* x, size_t n);

// Stores the weights and returns their sum. Every x is finite and <= maximum, n <= kMaxSoftmaxRow.
uint64_t softmax_weights(const float* x, size_t n, float maximum, uint64_t* weights);
// The sum alone.
uint64_t softmax_weight_sum(const float* x, size_t n, float maximum);

}  // namespace gyre::numerics
