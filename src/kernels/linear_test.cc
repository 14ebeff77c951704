#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/fp_env.h"
#include "kernels/linear_check.h"
#include "quant/codes.h"
#include "quant/rows.h"

namespace gyre::kernels {
namespace {

using namespace check;

// Rounds cols up to what the format's blocks allow.
uint32_t legal_cols(DType dtype, uint32_t cols) {
  const uint32_t block = info(dtype).block;
  return (cols + block - 1) / block * block;
}

std::vector<Isa> fast_isas() {
  std::vector<Isa> isas = available_isas();
  std::erase(isas, Isa::scalar);
  return isas;
}

class Linear : public testing::TestWithParam<DType> {
 protected:
  FloatEnvironment environment_;
};

std::string dtype_name(const testing::TestParamInfo<DType>& param) {
  return std::string(name(param.param));
}

TEST_P(Linear, EveryIsaEqualsTheReference) {
  for (Isa isa : fast_isas()) {
    const LinearOps& ops = linear_ops(isa);
    uint64_t seed = 1;
    for (uint32_t columns : {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 31, 64, 128, 130}) {
      for (uint32_t cols : {32, 96, 576, 1056}) {
        const uint32_t rows = 1 + static_cast<uint32_t>(seed * 7 % 50);
        const Values values = seed % 3 == 0 ? Values::special : Values::usual;
        const std::string different = compare_multiply(
            ops, GetParam(), rows, legal_cols(GetParam(), cols), columns, values, seed % 2, seed);
        EXPECT_EQ(different, "") << isa_name(isa);
        ++seed;
      }
    }
  }
}

// More blocks than one pass over K holds.
TEST_P(Linear, LongRowsTakeSeveralPasses) {
  for (Isa isa : fast_isas()) {
    for (uint32_t columns : {3, 128}) {
      const uint32_t cols = legal_cols(GetParam(), 70 * 32);
      EXPECT_EQ(compare_multiply(linear_ops(isa), GetParam(), 33, cols, columns, Values::usual,
                                 false, 11 + columns),
                "")
          << isa_name(isa);
    }
  }
}

// Column c of many equals the same column alone; ranges of panels and columns write only their own.
TEST_P(Linear, ColumnsAndRangesAreIndependent) {
  const uint32_t cols = legal_cols(GetParam(), 512), rows = 70, columns = 40;
  const TestMatrix m = random_matrix(GetParam(), rows, cols, 5);
  const std::vector<float> x = random_values(columns, cols, 6);
  for (Isa isa : available_isas()) {
    const LinearOps& ops = linear_ops(isa);
    const Prepared prepared = prepare_with(ops, x, columns, cols);
    const std::vector<float> whole = multiply_with(ops, m.matrix, prepared.x, {}, {});
    std::vector<float> parts(whole.size(), -1.0f);
    const LinearJob job{&m.matrix, parts.data(), rows, nullptr, false};
    ops.multiply(job, prepared.x, 1, 2, 3, 20);
    for (uint32_t c = 0; c < columns; ++c) {
      for (uint32_t r = 0; r < rows; ++r) {
        const bool inside = r >= 16 && r < 32 && c >= 3 && c < 20;
        EXPECT_EQ(parts[c * rows + r], inside ? whole[c * rows + r] : -1.0f) << isa_name(isa);
      }
    }
    for (uint32_t c : {0u, 17u, 39u}) {
      const std::vector<float> one(x.begin() + c * cols, x.begin() + (c + 1) * cols);
      const Prepared alone = prepare_with(ops, one, 1, cols);
      const std::vector<float> y = multiply_with(ops, m.matrix, alone.x, {}, {});
      EXPECT_EQ(std::memcmp(y.data(), whole.data() + c * rows, rows * sizeof(float)), 0);
    }
  }
}

TEST_P(Linear, RowsReadTheSameFromBothPictures) {
  const uint32_t cols = legal_cols(GetParam(), 608), rows = 37;
  const TestMatrix m = random_matrix(GetParam(), rows, cols, 21);
  Matrix panels_only = m.matrix;
  panels_only.file.data = nullptr;
  std::vector<float> a(cols), b(cols), decoded(cols);
  for (uint32_t r = 0; r < rows; ++r) {
    matrix_row(m.matrix, r, a.data());
    matrix_row(panels_only, r, b.data());
    EXPECT_TRUE(same_bits(a, b)) << r;
    quant::decode_row(GetParam(), m.file.data() + r * row_bytes(GetParam(), cols), decoded.data(),
                      cols);
    if (GetParam() != DType::bf16) {
      EXPECT_TRUE(same_bits(a, decoded)) << r;
    }
  }
}

// The panels hold the file's bytes and nothing more but padding to whole lines.
TEST_P(Linear, PanelsAreAsLargeAsTheFile) {
  const uint32_t cols = legal_cols(GetParam(), 2048);
  EXPECT_EQ(panel_bytes(GetParam(), cols), 16 * row_bytes(GetParam(), cols));
  const size_t odd = panel_bytes(GetParam(), legal_cols(GetParam(), 608));
  const size_t exact = 16 * row_bytes(GetParam(), legal_cols(GetParam(), 608));
  EXPECT_GE(odd, exact);
  EXPECT_LE(odd, exact + 4 * 63);
}

// What the reference approximates: dequantised weights times f32 activations, in f64. The bound
// follows from the operands: half a step of the activations against each weight, plus rounding.
TEST_P(Linear, ReferenceIsNearTheExactProduct) {
  const uint32_t cols = legal_cols(GetParam(), 512), rows = 24, columns = 3;
  const TestMatrix m = random_matrix(GetParam(), rows, cols, 31);
  const std::vector<float> x = random_values(columns, cols, 32);
  const Prepared p = prepare_with(reference_linear_ops(), x, columns, cols);
  const auto y = multiply_with(reference_linear_ops(), m.matrix, p.x, {}, {});
  const auto oracle = multiply_with(oracle_linear_ops(), m.matrix, p.x, {}, {});
  const bool quantised = act_form(GetParam()) == kFormInt8;
  std::vector<float> w(cols);
  for (uint32_t r = 0; r < rows; ++r) {
    matrix_row(m.matrix, r, w.data());
    for (uint32_t c = 0; c < columns; ++c) {
      double exact = 0, weight_sum = 0, sizes = 0;
      for (uint32_t k = 0; k < cols; ++k) {
        exact += double{w[k]} * x[c * cols + k];
        weight_sum += std::fabs(w[k]);
        sizes += std::fabs(double{w[k]} * x[c * cols + k]);
      }
      // Minima cancel against scale * code, so their rounding counts with the larger parts.
      const double rounding = sizes * 2e-4 + weight_sum * 1e-4;
      const double step = quantised ? 3.0 / 127 * 0.51 : GetParam() == DType::bf16 ? 3.0 / 256 : 0;
      EXPECT_NEAR(y[c * rows + r], exact, weight_sum * step + rounding) << r;
      EXPECT_NEAR(oracle[c * rows + r], exact, rounding) << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Linear, testing::ValuesIn(kAllDTypes), dtype_name);

TEST(LinearPrepare, EveryIsaEqualsTheReference) {
  const FloatEnvironment environment;
  for (uint32_t k : {1u, 31u, 32u, 33u, 100u, 576u}) {
    const uint32_t columns = 5;
    std::vector<float> x = random_values(columns, k, k, Values::special);
    x[0] = std::numeric_limits<float>::quiet_NaN();
    x[k] = -std::numeric_limits<float>::infinity();
    x[3 * k - 1] = 0x1p100f;
    const Prepared a = prepare_with(reference_linear_ops(), x, columns, k);
    EXPECT_EQ(a.not_finite, (std::vector<uint8_t>{1, 1, 1, 0, 0}));
    for (Isa isa : fast_isas()) {
      const Prepared b = prepare_with(linear_ops(isa), x, columns, k);
      const size_t blocks = (k + 31) / 32, cells = blocks * a.x.stride;
      EXPECT_EQ(a.not_finite, b.not_finite) << isa_name(isa);
      EXPECT_EQ(std::memcmp(a.x.q, b.x.q, cells * 32), 0) << isa_name(isa) << k;
      EXPECT_EQ(std::memcmp(a.x.d, b.x.d, cells * 4), 0) << isa_name(isa) << k;
      EXPECT_EQ(std::memcmp(a.x.sum16, b.x.sum16, cells * 8), 0) << isa_name(isa) << k;
      EXPECT_EQ(std::memcmp(a.x.bf16, b.x.bf16, columns * ((k + 1) / 2 * 2) * 2), 0)
          << isa_name(isa) << k;
    }
  }
}

TEST(LinearPrepare, QuantisesAsTheContractSays) {
  const FloatEnvironment environment;
  std::vector<float> x(64, 0.0f);
  x[0] = 2.54f;  // the largest: 127 steps
  x[1] = -2.54f;
  x[2] = 0.03f;  // 1.5 steps: to even
  x[3] = 0.0100001f;
  x[17] = 1.27f;
  x[32] = 0x1p-101f;  // a block this small is zero
  const Prepared p = prepare_with(reference_linear_ops(), x, 1, 64);
  EXPECT_EQ(p.x.q[0], 127);
  EXPECT_EQ(p.x.q[1], -127);
  EXPECT_EQ(p.x.q[3], 1);
  EXPECT_EQ(p.x.q[17], 64);  // 63.5: to even
  EXPECT_NEAR(p.x.d[0], 0.02f, 1e-8);
  EXPECT_EQ(std::bit_cast<uint32_t>(p.x.d[0]) & 3, 0u);
  EXPECT_EQ(p.x.sum16[p.x.stride], 64);
  EXPECT_EQ(p.x.d[1 * p.x.stride], 0.0f);
  EXPECT_EQ(p.x.q[32 * p.x.stride], 0);
}

TEST(LinearDriver, JobsOfDifferentFormatsInOneLoop) {
  const FloatEnvironment environment;
  const uint32_t cols = 256, columns = 21;
  const TestMatrix a = random_matrix(DType::q4_1, 200, cols, 1);
  const TestMatrix b = random_matrix(DType::q6_k, 33, cols, 2);
  const TestMatrix c = random_matrix(DType::bf16, 50, cols, 3);
  const std::vector<float> x = random_values(columns, cols, 4);
  const Prepared p = prepare_with(reference_linear_ops(), x, columns, cols);
  for (Isa isa : available_isas()) {
    for (int threads : {1, 3}) {
      ThreadPool pool(threads);
      std::vector<float> ya(columns * 200), yb(columns * 33), yc(columns * 50);
      const LinearJob jobs[] = {{&a.matrix, ya.data(), 200, nullptr, false},
                                {&b.matrix, yb.data(), 33, nullptr, false},
                                {&c.matrix, yc.data(), 50, nullptr, false}};
      run_linear(linear_ops(isa), pool, jobs, p.x);
      EXPECT_TRUE(same_bits(ya, multiply_with(reference_linear_ops(), a.matrix, p.x, {}, {})));
      EXPECT_TRUE(same_bits(yb, multiply_with(reference_linear_ops(), b.matrix, p.x, {}, {})));
      EXPECT_TRUE(same_bits(yc, multiply_with(reference_linear_ops(), c.matrix, p.x, {}, {})));
    }
  }
}

TEST(LinearDriver, PreparesInParallelAsAlone) {
  const FloatEnvironment environment;
  const uint32_t columns = 53, k = 96;
  const std::vector<float> x = random_values(columns, k, 9);
  const Prepared expected = prepare_with(reference_linear_ops(), x, columns, k);
  ThreadPool pool(3);
  ActivationBuffer buffer;
  ASSERT_TRUE(buffer.reserve(columns, k).ok());
  Activations out = buffer.shape(columns, k);
  std::vector<uint8_t> not_finite(columns);
  run_prepare(linear_ops(available_isas().back()), pool, x.data(), k, kFormInt8, out,
              not_finite.data());
  EXPECT_EQ(out.f32, x.data());
  EXPECT_EQ(std::memcmp(out.q, expected.x.q, size_t{3} * out.stride * 32), 0);
}

TEST(LinearDriver, BufferReportsWhenMemoryRunsOut) {
  for (long n = 0; n < 4; ++n) {
    ActivationBuffer buffer;
    fail_allocation_after(n);
    const Status status = buffer.reserve(4, 64);
    fail_allocation_after(-1);
    ASSERT_FALSE(status.ok()) << n;
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(buffer.bytes(), 0u);
    EXPECT_TRUE(buffer.reserve(4, 64).ok());
  }
}

TEST(IsaChoice, ForcingIsObeyedAndSpellsErrors) {
  for (Isa isa : available_isas()) {
    const Result<Isa> forced = choose_isa(isa_name(isa));
    ASSERT_TRUE(forced.ok());
    EXPECT_EQ(*forced, isa);
  }
  EXPECT_EQ(*choose_isa(""), available_isas().back());
  const Result<Isa> wrong = choose_isa("sse9");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::usage);
  EXPECT_NE(wrong.error().text.find("sse9, expected one of scalar"), std::string::npos)
      << wrong.error().text;
}

// Different sets are different code: forcing one must not give another's functions.
TEST(IsaChoice, EverySetHasItsOwnFunctions) {
  const std::vector<Isa> isas = available_isas();
  for (Isa a : isas) {
    for (Isa b : isas) {
      if (a != b) {
        EXPECT_NE(linear_ops(a).multiply, linear_ops(b).multiply);
      }
    }
  }
}

}  // namespace
}  // namespace gyre::kernels
