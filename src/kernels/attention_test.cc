// Attention: every instruction set against the reference bit for bit, the reference against plain
// double arithmetic, and what must not change a bit: blocks of queries, threads, pages' places.
#include "kernels/attention_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/fp_env.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

using namespace check;

::testing::AssertionResult same_bits(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << "sizes";
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], sizeof(float)) != 0)
      return ::testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
  }
  return ::testing::AssertionSuccess();
}

// Every table of operators but the reference's own: each set, with and without the bf16
// instruction.
struct Named {
  std::string name;
  const AttentionOps* ops;
};
std::vector<Named> fast_ops() {
  std::vector<Named> out;
  for (Isa isa : available_isas()) {
    if (isa == Isa::scalar) continue;
    for (bool native : {false, true}) {
      const AttentionOps* ops = &attention_ops(isa, native);
      if (!out.empty() && out.back().ops == ops) continue;
      out.push_back({std::string(isa_name(isa)) + (native ? " bf16" : ""), ops});
    }
  }
  return out;
}

void expect_reference_bits(const Shape& shape, uint32_t begin, uint32_t end) {
  Row row(shape);
  const Floats want = attend(row, attention_ops(Isa::scalar), 1, begin, end);
  for (const Named& fast : fast_ops()) {
    EXPECT_TRUE(same_bits(want, attend(row, *fast.ops, 1, begin, end)))
        << fast.name << ": dims " << shape.k_dim << " " << shape.v_dim << ", group " << shape.group
        << ", window " << shape.window << ", queries " << begin << " to " << end;
  }
}

TEST(Attention, EveryInstructionSetGivesTheReferenceBitsForEveryHeadDim) {
  FloatEnvironment environment;
  for (uint32_t dim : {32u, 64u, 80u, 96u, 128u, 256u, 512u}) {
    for (uint32_t group : {1u, 3u, 4u, 8u}) {
      const Shape shape{1, group, dim, dim, 270, 0, 0, false, kBf16Code, dim + group};
      expect_reference_bits(shape, 0, 18);
      expect_reference_bits(shape, 253, 270);  // a tile across a chunk border
    }
  }
  expect_reference_bits({2, 2, 96, 40, 290, 0, 0, false, kBf16Code, 5}, 240, 290);
  expect_reference_bits({3, 1, 34, 6, 150, 0, 0, false, kBf16Code, 6}, 0, 150);
}

TEST(Attention, EveryInstructionSetGivesTheReferenceBitsForEveryWindow) {
  FloatEnvironment environment;
  for (uint32_t window : {1u, 5u, 64u, 100u, 512u}) {
    const uint32_t length = std::max(3 * window + 70, 600u);
    const Shape shape{1, 3, 64, 64, length, window, 0, false, kBf16Code, window};
    expect_reference_bits(shape, 0, 66);
    expect_reference_bits(shape, 250, 300);
    expect_reference_bits(shape, length - 50, length);
  }
}

TEST(Attention, EveryInstructionSetGivesTheReferenceBitsWithCapsAndSinks) {
  FloatEnvironment environment;
  for (uint32_t length : {255u, 256u, 257u, 511u, 512u, 513u, 770u}) {
    Shape shape{2, 2, 64, 64, length, 0, 2.0f, true, kBf16Code, length};
    expect_reference_bits(shape, length - 9, length);
    shape.softcap = 0;
    shape.window = 130;
    expect_reference_bits(shape, length - 40, length);
  }
}

// Weights of few binades sum exactly in any order; these reach down to 2^-56.
TEST(Attention, EveryInstructionSetGivesTheReferenceBitsForWideScores) {
  FloatEnvironment environment;
  for (float spread : {3.0f, 5.0f, 8.0f}) {
    expect_reference_bits({1, 4, 64, 64, 600, 0, 0, true, kBf16Code, 15, spread}, 500, 600);
    expect_reference_bits({1, 2, 128, 128, 300, 0, 0, false, kBf16Code, 16, spread}, 200, 300);
  }
}

TEST(Attention, AnIntervalNeedNotBeCausal) {
  FloatEnvironment environment;
  Row row({1, 2, 64, 64, 700, 0, 0, false, kBf16Code, 9});
  for (uint32_t t = 0; t < 700; ++t) row.visible_[t] = {(t * 37) % 500, 501 + (t * 91) % 199};
  row.visible_[3] = {0, 3};  // rows of one block that see different chunks
  row.visible_[4] = {698, 700};
  row.visible_[5] = {255, 257};
  const Floats want = attend(row, attention_ops(Isa::scalar), 1, 0, 40);
  for (const Named& fast : fast_ops())
    EXPECT_TRUE(same_bits(want, attend(row, *fast.ops, 1, 0, 40))) << fast.name;
}

TEST(Attention, QueriesGetTheSameBitsInBlocksOfAnySizeOnAnyNumberOfThreads) {
  FloatEnvironment environment;
  std::vector<Named> all = fast_ops();
  all.push_back({"scalar", &attention_ops(Isa::scalar)});
  for (uint32_t window : {0u, 100u}) {
    Row row({1, 3, 32, 32, 600, window, 0, false, kBf16Code, 11});
    const Floats want = attend(row, attention_ops(Isa::scalar));
    for (const Named& some : all) {
      const bool slow = some.name == "scalar";
      for (uint32_t block : {1u, 3u, 64u, 511u, 600u}) {
        for (int threads : {1, 2, 5}) {
          if (slow && (threads != 2 || block == 3)) continue;
          EXPECT_TRUE(same_bits(want, attend(row, *some.ops, threads, 0, 600, block)))
              << some.name << ", block " << block << ", threads " << threads;
        }
      }
    }
  }
}

// One query and many chunks: with threads, chunks are computed apart and merged in order.
TEST(Attention, SplitOverChunksGivesTheSameBits) {
  FloatEnvironment environment;
  for (bool sinks : {false, true}) {
    Row row({2, 4, 64, 64, 5000, 0, 0, sinks, kBf16Code, 12});
    for (uint32_t begin : {4999u, 4996u, 4980u}) {
      const Floats want = attend(row, attention_ops(Isa::scalar), 1, begin);
      for (const Named& fast : fast_ops()) {
        for (int threads : {1, 2, 3, 8})
          EXPECT_TRUE(same_bits(want, attend(row, *fast.ops, threads, begin)))
              << fast.name << " " << threads;
      }
    }
  }
}

TEST(Attention, BatchNeighboursChangeNothing) {
  FloatEnvironment environment;
  std::vector<Row> rows;
  for (uint32_t i = 0; i < 5; ++i)
    rows.emplace_back(
        Shape{1, 4, 64, 64, 50 + 700 * i, i == 2 ? 64 : 0u, 0, false, kBf16Code, i + 20});
  for (const Named& fast : fast_ops()) {
    ThreadPool pool(3);
    AttentionScratch scratch;
    ASSERT_TRUE(scratch.reserve(3, 4, 64, 3000).ok());
    std::vector<Floats> outs(rows.size());
    std::vector<std::vector<uint8_t>> flags(rows.size());
    std::vector<AttentionJob> jobs;
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t length = rows[i].shape().length;
      jobs.push_back(
          rows[i].job(length - 1 - 3 * static_cast<uint32_t>(i), length, outs[i], flags[i]));
    }
    run_attention(*fast.ops, pool, jobs, scratch);
    for (size_t i = 0; i < rows.size(); ++i) {
      const uint32_t length = rows[i].shape().length;
      EXPECT_TRUE(same_bits(outs[i], attend(rows[i], *fast.ops, 1,
                                            length - 1 - 3 * static_cast<uint32_t>(i), length)))
          << fast.name << " row " << i;
    }
  }
}

TEST(Attention, PlacesOfPagesAndUnseenPagesChangeNothing) {
  FloatEnvironment environment;
  const Shape shape{2, 2, 64, 64, 900, 70, 0, false, kBf16Code, 30};
  Row row(shape);
  const Floats want = attend(row, attention_ops(Isa::scalar), 1, 850);
  row.place(31);
  for (uint32_t t = 0; t < shape.length; ++t) ASSERT_TRUE(row.put(t, available_isas().back()));
  for (size_t p = 0; p < (850 - 69) / kPagePositions; ++p) row.pages_[p] = nullptr;
  for (const Named& fast : fast_ops())
    EXPECT_TRUE(same_bits(want, attend(row, *fast.ops, 2, 850))) << fast.name;
  EXPECT_TRUE(same_bits(want, attend(row, attention_ops(Isa::scalar), 2, 850)));
}

// What lies behind a row's last position is never seen, whatever is left there.
TEST(Attention, StaleValuesPastTheIntervalChangeNothing) {
  FloatEnvironment environment;
  Row row({1, 4, 64, 64, 300, 0, 0, false, kBf16Code, 40});
  for (const Named& fast : fast_ops()) {
    const Floats before = attend(row, *fast.ops, 1, 270, 271);
    Row other({1, 4, 64, 64, 300, 0, 0, false, kBf16Code, 40});
    for (uint32_t t = 271; t < 300; ++t) {
      for (uint32_t d = 0; d < 64; ++d) other.k_[t * 64 + d] = 1e30f, other.v_[t * 64 + d] = -1e30f;
      ASSERT_TRUE(other.put(t, Isa::scalar));
    }
    EXPECT_TRUE(same_bits(before, attend(other, *fast.ops, 1, 270, 271))) << fast.name;
  }
}

// Softmax attention in double over the stored operands. Each weight's relative error: rounding to
// bf16 (2^-9, none for f32), the score's f32 sum (dim + 2 roundings of at most the sum of
// magnitudes), exp (2^-23). Weights appear above and below the division, values at most v_max.
void expect_near_double(Row& row, uint32_t begin) {
  const Shape& s = row.shape();
  const bool bf16 = s.code == kBf16Code;
  const auto rounded = [&](float x) {
    return bf16 ? double{bf16_to_f32(f32_to_bf16_operand(x))} : double{x};
  };
  const Floats out = attend(row, attention_ops(Isa::scalar), 1, begin);
  const float scale = 1.7f / std::sqrt(static_cast<float>(s.k_dim));
  for (uint32_t t = begin; t < s.length; ++t) {
    for (uint32_t h = 0; h < row.heads(); ++h) {
      const Visible seen = row.visible_[t];
      std::vector<double> score, magnitude;
      for (uint32_t j = seen.begin; j < seen.end; ++j) {
        double dot = 0, sum = 0;
        for (uint32_t d = 0; d < s.k_dim; ++d) {
          const double product =
              rounded(row.q_[(size_t{t} * row.heads() + h) * s.k_dim + d] * scale) *
              rounded(row.k_[(size_t{j} * s.kv_heads + h / s.group) * s.k_dim + d]);
          dot += product, sum += std::fabs(product);
        }
        score.push_back(s.softcap != 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
        magnitude.push_back(sum);
      }
      const double top = *std::max_element(score.begin(), score.end());
      double total = s.sinks ? std::exp(row.sinks_[h] - top) : 0;
      for (double& x : score) total += x = std::exp(x - top);
      const double most = *std::max_element(magnitude.begin(), magnitude.end());
      const double weight_error =
          (bf16 ? 0x1p-9 : 0) + 2 * (s.k_dim + 8) * most * 0x1p-24 + 0x1p-20;
      for (uint32_t d = 0; d < s.v_dim; ++d) {
        double want = 0, v_max = 0;
        for (uint32_t j = seen.begin; j < seen.end; ++j) {
          const double v = rounded(row.v_[(size_t{j} * s.kv_heads + h / s.group) * s.v_dim + d]);
          want += score[j - seen.begin] * v, v_max = std::max(v_max, std::fabs(v));
        }
        EXPECT_NEAR(out[t * row.out_ld() + h * s.v_dim + d], want / total,
                    v_max * (2 * weight_error + 300 * 0x1p-24))
            << "t " << t << " head " << h << " d " << d;
      }
    }
  }
}

TEST(Attention, TheReferenceAgreesWithDouble) {
  FloatEnvironment environment;
  for (LayerCode code : {kBf16Code, kF32Code}) {
    for (Shape shape : {Shape{2, 3, 64, 64, 300, 0, 0, false, code, 50},
                        Shape{1, 4, 32, 16, 530, 100, 0, true, code, 51},
                        Shape{1, 1, 300, 20, 270, 0, 3.0f, false, code, 52},
                        Shape{1, 2, 80, 80, 40, 1, 0, true, code, 53}}) {
      Row row(shape);
      expect_near_double(row, shape.length - 6);
      Row from_start(shape);
      if (shape.length < 60) expect_near_double(from_start, 0);
    }
  }
}

TEST(Attention, OneVisibleKeyGivesItsValue) {
  FloatEnvironment environment;
  Row row({1, 2, 64, 64, 300, 1, 0, false, kBf16Code, 60});
  const Floats out = attend(row, attention_ops(Isa::scalar));
  for (uint32_t t = 0; t < 300; ++t) {
    for (uint32_t i = 0; i < 128; ++i)
      ASSERT_EQ(out[t * 128 + i], bf16_to_f32(f32_to_bf16_operand(row.v_[t * 64 + i % 64])));
  }
}

TEST(AttentionStore, EveryInstructionSetWritesThePageTheHeaderDescribes) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) {
    for (Shape shape : {Shape{3, 1, 64, 64, 130, 0, 0, false, kBf16Code, 70},
                        Shape{2, 1, 34, 6, 130, 0, 0, false, kBf16Code, 71}}) {
      Row row(shape, isa);
      std::vector<std::byte> want(row.layout_.page_bytes());
      auto* cells = reinterpret_cast<uint16_t*>(want.data());
      const uint32_t kd = shape.k_dim, vd = shape.v_dim;
      for (uint32_t t = 64; t < 128; ++t) {
        const uint32_t at = t - 64;
        for (uint32_t h = 0; h < shape.kv_heads; ++h) {
          for (uint32_t d = 0; d < kd; ++d)
            cells[((h * 4 + at / 16) * (kd / 2) + d / 2) * 32 + at % 16 * 2 + d % 2] =
                f32_to_bf16_operand(row.k_[(t * shape.kv_heads + h) * kd + d]);
          for (uint32_t d = 0; d < vd; ++d)
            cells[shape.kv_heads * 64 * kd + ((h * 32 + at / 2) * vd + d) * 2 + at % 2] =
                f32_to_bf16_operand(row.v_[(t * shape.kv_heads + h) * vd + d]);
        }
      }
      EXPECT_EQ(0, std::memcmp(want.data(), row.pages_[1], want.size())) << isa_name(isa);
    }
  }
}

TEST(AttentionStore, RoundsTiesAndSmallNumbersAsTheContractSays) {
  FloatEnvironment environment;
  const KvLayout layout{1, 2, 2, kBf16Code};
  const float k[] = {1.00390625f, 0x1.01p-57f};  // a tie: to even; too small: 0
  const float v[] = {-0x1p-56f, 3.3895313e38f};  // kept; the largest bf16
  for (Isa isa : available_isas()) {
    std::byte page[1024] = {};
    EXPECT_TRUE(attention_ops(isa).store(layout, page, 0, k, v, nullptr));
    uint16_t got[4];
    std::memcpy(got, page, 4);
    std::memcpy(got + 2, page + layout.v_offset(), 2);
    std::memcpy(got + 3, page + layout.v_offset() + 4, 2);
    EXPECT_EQ(got[0], 0x3f80) << isa_name(isa);
    EXPECT_EQ(got[1], 0x0000) << isa_name(isa);
    EXPECT_EQ(got[2], 0xa380) << isa_name(isa);
    EXPECT_EQ(got[3], 0x7f7f) << isa_name(isa);
  }
}

TEST(AttentionStore, ANonFiniteRowIsStoredAsZeros) {
  FloatEnvironment environment;
  const Shape shape{2, 1, 64, 32, 64, 0, 0, false, kBf16Code, 80};
  for (Isa isa : available_isas()) {
    for (LayerCode code : {kBf16Code, kF32Code}) {
      for (bool in_k : {true, false}) {
        // 3.4e38 is finite in f32 and rounds to Inf in bf16.
        for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 3.4e38f}) {
          if (code == kF32Code && bad == 3.4e38f) continue;
          Shape own = shape;
          own.code = code;
          Row row(own, isa);
          (in_k ? row.k_[5 * 128 + 127] : row.v_[5 * 64 + 1]) = bad;
          EXPECT_FALSE(row.put(5, isa)) << isa_name(isa) << " " << bad;
          Row zeros(own, isa);
          std::fill_n(zeros.k_.begin() + 5 * 128, 128, 0.0f);
          std::fill_n(zeros.v_.begin() + 5 * 64, 64, 0.0f);
          EXPECT_TRUE(zeros.put(5, isa));
          EXPECT_EQ(0, std::memcmp(row.pages_[0], zeros.pages_[0], row.layout_.page_bytes()));
        }
      }
    }
  }
}

// Runs queries 250 to 299 with one bad row, (270, head 3); all else must be as in `want`. Rows of
// the heads in `changed` may differ in value but must not be flagged.
void expect_one_bad_row(Row& row, const Named& some, const Floats& want, bool kv_head_1_changed) {
  std::vector<uint8_t> flags;
  const Floats out = attend(row, *some.ops, 2, 250, 300, ~0u, &flags);
  for (uint32_t t = 250; t < 300; ++t) {
    EXPECT_EQ(flags[t], t == 270) << some.name << " " << t;
    for (uint32_t h = 0; h < 4; ++h) {
      const bool bad = t == 270 && h == 3;
      if (!bad && kv_head_1_changed && h >= 2) continue;
      for (uint32_t d = 0; d < 64; ++d) {
        const size_t i = (size_t{t} * 4 + h) * 64 + d;
        if (kv_head_1_changed || !bad) {
          ASSERT_EQ(out[i], bad ? 0.0f : want[i]) << some.name;
        }
        ASSERT_TRUE(std::isfinite(out[i]));
      }
    }
  }
}

TEST(Attention, ANonFiniteQueryOrResultIsFlaggedAndNobodyElse) {
  FloatEnvironment environment;
  std::vector<Named> all = fast_ops();
  all.push_back({"scalar", &attention_ops(Isa::scalar)});
  const Shape shape{2, 2, 64, 64, 300, 0, 0, false, kBf16Code, 90};
  Row clean(shape);
  const Floats want = attend(clean, attention_ops(Isa::scalar), 1, 250);
  for (const Named& some : all) {
    for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf("")}) {
      Row row(shape);
      row.q_[(size_t{270} * 4 + 3) * 64 + 63] = bad;
      expect_one_bad_row(row, some, want, false);
    }
    Row row(shape);  // finite operands whose score overflows
    for (uint32_t d = 0; d < 64; ++d) {
      row.q_[(size_t{270} * 4 + 3) * 64 + d] = 3e38f;
      row.k_[(size_t{2} * 2 + 1) * 64 + d] = 100.0f;
    }
    ASSERT_TRUE(row.put(2, Isa::scalar));
    expect_one_bad_row(row, some, want, true);
  }
}

TEST(AttentionScratch, RefusesNonsenseAndFailsAsAValue) {
  AttentionScratch scratch;
  EXPECT_FALSE(scratch.reserve(0, 4, 64, 100).ok());
  EXPECT_FALSE(scratch.reserve(1, 0, 64, 100).ok());
  EXPECT_FALSE(scratch.reserve(2, 1u << 20, 1u << 20, ~0u).ok());
  fail_allocation_after(0);
  EXPECT_EQ(scratch.reserve(1, 4, 64, 100).error().code, ErrorCode::out_of_memory);
  fail_allocation_after(-1);
  EXPECT_TRUE(scratch.reserve(1, 4, 64, 100).ok());
}

}  // namespace
}  // namespace gyre::kernels
