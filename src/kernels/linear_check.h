// Random matrices and activations, and the comparison of one instruction set with the reference:
// shared by linear_test.cc, cpu/selfcheck_main.cc (arm64 without GoogleTest) and the benchmark.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/linear.h"
#include "kernels/reference/linear.h"
#include "numerics/half.h"

namespace gyre::kernels::check {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 2654435769u + 88172645463325252u) {}
  uint32_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 16);
  }
  uint32_t below(uint32_t n) { return next() % n; }
  float unit() { return static_cast<float>(static_cast<int32_t>(next())) * 0x1p-31f; }

 private:
  uint64_t state_;
};

// A finite f16: usual sizes, now and then zero, negative or subnormal.
inline uint16_t random_half(Random& random) {
  switch (random.below(8)) {
    case 0:
      return 0;
    case 1:
      return static_cast<uint16_t>(random.below(1024));  // subnormal
    case 2:
      return static_cast<uint16_t>(0x8000 | random.below(0x4800));  // negative
    default:
      return f32_to_f16(random.unit() * 0.125f);
  }
}

// Where the f16 scales of a file block lie; -1 = none.
inline void scale_offsets(DType dtype, int* at) {
  at[0] = at[1] = -1;
  switch (dtype) {
    case DType::q4_0:
    case DType::q5_0:
    case DType::q8_0:
    case DType::iq4_nl:
    case DType::iq4_xs:
      at[0] = 0;
      break;
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      at[0] = 0;
      at[1] = 2;
      break;
    case DType::q2_k:
      at[0] = 80;
      at[1] = 82;
      break;
    case DType::q3_k:
      at[0] = 108;
      break;
    case DType::q6_k:
      at[0] = 208;
      break;
    default:
      break;
  }
}

struct TestMatrix {
  std::vector<std::byte> file;
  Array<std::byte> panels;
  Matrix matrix;
};

inline void fill_plain(DType dtype, Random& random, std::vector<std::byte>& file) {
  const size_t size = info(dtype).bytes;
  for (size_t i = 0; i < file.size(); i += size) {
    const float x = random.below(16) == 0 ? random.unit() * 0x1p-60f : random.unit();
    const uint32_t word = dtype == DType::f32   ? std::bit_cast<uint32_t>(x)
                          : dtype == DType::f16 ? f32_to_f16(x)
                                                : f32_to_bf16(x);
    std::memcpy(&file[i], &word, size);
  }
}

// Random bytes with finite scales: every code and sub-scale occurs.
inline TestMatrix random_matrix(DType dtype, uint32_t rows, uint32_t cols, uint64_t seed) {
  Random random(seed);
  TestMatrix out;
  out.file.resize(rows * row_bytes(dtype, cols));
  const size_t block = info(dtype).bytes;
  if (info(dtype).block == 1) {
    fill_plain(dtype, random, out.file);
  } else {
    for (std::byte& b : out.file) b = static_cast<std::byte>(random.next());
    int at[2];
    scale_offsets(dtype, at);
    for (size_t i = 0; i < out.file.size(); i += block) {
      for (int offset : at) {
        const uint16_t h = random_half(random);
        if (offset >= 0) std::memcpy(&out.file[i + static_cast<size_t>(offset)], &h, 2);
      }
      if (dtype == DType::mxfp4) {  // the subnormal scales early only: they are slow
        const bool tiny = i / block < 256 && random.below(16) == 0;
        out.file[i] = static_cast<std::byte>(tiny ? random.below(3) : 110 + random.below(30));
      }
    }
  }
  out.matrix.file = {dtype, rows, cols, out.file.data()};
  auto panels = Array<std::byte>::make(panel_count(rows) * panel_bytes(dtype, cols), "test panels");
  out.panels = std::move(panels).value();
  pack_panels(out.matrix.file, 0, panel_count(rows), out.panels.data());
  out.matrix.panels = out.panels.data();
  return out;
}

enum class Values { usual, special };

// [column][k]. special: zeros, -0, tiny and huge magnitudes, one-spike blocks; all finite.
inline std::vector<float> random_values(uint32_t columns, uint32_t k, uint64_t seed,
                                        Values values = Values::usual) {
  Random random(seed);
  std::vector<float> x(size_t{columns} * k);
  for (size_t i = 0; i < x.size(); ++i) x[i] = random.unit() * 3.0f;
  if (values == Values::usual) return x;
  for (size_t i = 0; i < x.size(); i += 32) {
    const float factors[] = {0.0f, -0.0f, 0x1p-101f, 0x1p-99f, 0x1p-70f, 0x1p90f, 0x1p-140f, 1.0f};
    const float factor = factors[random.below(8)];
    const size_t end = std::min(x.size(), i + 32);
    for (size_t j = i; j < end; ++j) x[j] = x[j] * factor;
    if (random.below(4) == 0) x[i + random.below(static_cast<uint32_t>(end - i))] = 127.0f;
  }
  return x;
}

struct Prepared {
  ActivationBuffer buffer;
  Activations x;
  std::vector<uint8_t> not_finite;
};

inline Prepared prepare_with(const LinearOps& ops, const std::vector<float>& values,
                             uint32_t columns, uint32_t k) {
  Prepared out;
  if (!out.buffer.reserve(columns, k).ok()) std::abort();
  out.x = out.buffer.shape(columns, k);
  out.not_finite.assign(columns, 0);
  out.x.f32 = values.data();
  out.x.ld = k;
  ops.prepare(values.data(), k, 0, columns, kFormInt8 | kFormBf16, out.x, out.not_finite.data());
  return out;
}

inline std::vector<float> multiply_with(const LinearOps& ops, const Matrix& m, const Activations& x,
                                        const std::vector<float>& bias,
                                        const std::vector<float>& residual) {
  std::vector<float> y(size_t{x.columns} * m.rows(), -1.0f);
  if (!residual.empty()) y = residual;
  LinearJob job{&m, y.data(), m.rows(), bias.empty() ? nullptr : bias.data(), !residual.empty()};
  ops.multiply(job, x, 0, panel_count(m.rows()), 0, x.columns);
  return y;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// The first element where they differ, for messages.
inline std::string difference(const std::vector<float>& a, const std::vector<float>& b,
                              uint32_t rows) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<uint32_t>(a[i]) != std::bit_cast<uint32_t>(b[i])) {
      return "column " + std::to_string(i / rows) + " row " + std::to_string(i % rows) + ": " +
             std::to_string(a[i]) + " against " + std::to_string(b[i]);
    }
  }
  return "none";
}

// Empty if `ops` gives the reference's bits, else what differs first.
inline std::string compare_multiply(const LinearOps& ops, DType dtype, uint32_t rows, uint32_t cols,
                                    uint32_t columns, Values values, bool with_ends,
                                    uint64_t seed) {
  const TestMatrix m = random_matrix(dtype, rows, cols, seed);
  const std::vector<float> x = random_values(columns, cols, seed + 1, values);
  const Prepared prepared = prepare_with(reference_linear_ops(), x, columns, cols);
  std::vector<float> bias, residual;
  if (with_ends) {
    bias = random_values(1, rows, seed + 2);
    residual = random_values(columns, rows, seed + 3);
  }
  const auto expected = multiply_with(reference_linear_ops(), m.matrix, prepared.x, bias, residual);
  const auto got = multiply_with(ops, m.matrix, prepared.x, bias, residual);
  if (same_bits(expected, got)) return {};
  return std::string(name(dtype)) + " " + std::to_string(rows) + " x " + std::to_string(cols) +
         ", " + std::to_string(columns) + " columns: " + difference(got, expected, rows);
}

}  // namespace gyre::kernels::check
