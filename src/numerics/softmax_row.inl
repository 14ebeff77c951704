// The loops of softmax_row.h, compiled once per instruction set: included inside a namespace after
// functions.inl and the scalar vocabulary. Simple enough for the compiler to vectorise.

inline uint64_t weight_of(float x, float maximum) {
  const float e = exp_bounded(scalar::Float{x - maximum}).value;
  // Adding 2^52 rounds e * 2^40 to an integer, half to even, and leaves it in the low bits.
  const double shifted = static_cast<double>(e) * 0x1p40 + 0x1p52;
  return std::bit_cast<uint64_t>(shifted) - 0x4330000000000000u;
}

inline RowLimits row_limits(const float* x, size_t n) {
  int32_t largest = std::numeric_limits<int32_t>::min();  // in an order of bits that floats share
  int32_t magnitude = 0;
  for (size_t i = 0; i < n; ++i) {
    const int32_t b = std::bit_cast<int32_t>(x[i]);
    const int32_t ordered = b ^ ((b >> 31) & 0x7fffffff);
    largest = ordered > largest ? ordered : largest;
    const int32_t m = b & 0x7fffffff;
    magnitude = m > magnitude ? m : magnitude;
  }
  if (n == 0) return {-std::numeric_limits<float>::infinity(), true};
  return {std::bit_cast<float>(largest ^ ((largest >> 31) & 0x7fffffff)), magnitude < 0x7f800000};
}

inline uint64_t softmax_weights(const float* __restrict x, size_t n, float maximum,
                                uint64_t* __restrict weights) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t w = weight_of(x[i], maximum);
    weights[i] = w;
    sum += w;
  }
  return sum;
}

inline uint64_t softmax_weight_sum(const float* x, size_t n, float maximum) {
  uint64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += weight_of(x[i], maximum);
  return sum;
}
