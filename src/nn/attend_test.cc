// Attention of rows in any code from any start: what a query gets depends on its own position.
//
// The oracle of a delayed start is made of rows that know none: below the start a query gets what
// an all-bf16 row gives it, from the start on what a row coded from its first position gives it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "nn/layers.h"

namespace gyre::nn {
namespace {

using kernels::CodeKind;
using kernels::LayerCode;
using kv::LayerSpec;
using kv::Place;

constexpr uint32_t kHeads = 4, kKvHeads = 2, kDim = 64, kWidth = kHeads * kDim;
constexpr uint32_t kMost = 512, kTokens = 256;

LayerCode affine(uint32_t bits) {
  return {{CodeKind::affine, bits, 32}, {CodeKind::affine, bits, 32}};
}
LayerCode turbo(uint32_t k, uint32_t v) {
  return {{CodeKind::turbo, k, 0}, {CodeKind::turbo, v, 0}};
}
LayerCode anchored(uint32_t k, uint32_t v) {
  return {{CodeKind::turbo, k, kernels::kTurboGroup},
          {CodeKind::turbo, v, kernels::kTurboGroup},
          false,
          true};
}

struct CodedPlace {
  uint32_t window;  // 0: full
  LayerCode code;
};
const std::vector<CodedPlace> kPlaces = {
    {0, affine(8)},          {0, affine(4)},           {0, turbo(8, 4)},  {0, anchored(4, 4)},
    {30, affine(8)},         {1, anchored(5, 4)},      {64, turbo(4, 4)}, {100, anchored(4, 4)},
    {0, kernels::kBf16Code}, {20, kernels::kBf16Code},
};

enum class Form { as_is, plain, f32 };
// The places, then a donor reader of the anchored window.
constexpr int kDonorOf = 7;
std::vector<LayerSpec> layers(Form form) {
  std::vector<LayerSpec> out;
  for (const CodedPlace& place : kPlaces) {
    LayerCode code = place.code;
    if (form == Form::plain) code = kernels::kBf16Code;
    if (form == Form::f32) code = kernels::kF32Code;
    out.push_back({place.window == 0 ? Place::full : Place::sliding,
                   place.window,
                   {kKvHeads, kDim, kDim, code},
                   -1});
  }
  out.push_back({Place::full, 0, {}, kDonorOf});
  return out;
}
const size_t kLayers = kPlaces.size() + 1;

void fake(float* out, size_t n, uint64_t salt, size_t layer, uint32_t position, uint32_t what) {
  uint64_t x = (salt * 64 + layer) * 0x9e3779b97f4a7c15 + position * 3 + what + 1;
  for (size_t i = 0; i < n; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out[i] = static_cast<float>(static_cast<int32_t>(x >> 20)) * 0x1p-30f;
  }
}

// What each query of a row got: [layer][position][kWidth].
struct Outputs {
  std::vector<std::vector<float>> of = std::vector<std::vector<float>>(kLayers);
  const float* at(size_t layer, uint32_t position) const {
    return of[layer].data() + size_t{position} * kWidth;
  }
};
bool same(const Outputs& a, const Outputs& b, size_t layer, uint32_t position) {
  return std::memcmp(a.at(layer, position), b.at(layer, position), kWidth * sizeof(float)) == 0;
}

class Bench {
 public:
  explicit Bench(kernels::Isa isa, int threads = 2, bool oracle = false)
      : threads_(threads),
        backend_(oracle ? make_oracle_backend(&threads_) : make_backend(isa, &threads_)) {
    const StepShape shape{32, kWidth, kKvHeads * kDim, kKvHeads * kDim, kWidth, 32, kHeads, kDim};
    auto made = Step::make(backend_, shape, kTokens, 4, kMost);
    EXPECT_TRUE(made.ok());
    step_ = std::make_unique<Step>(std::move(*made));
  }

  kv::Sequence row(Form form, uint32_t start) {
    auto made = kv::Sequence::make(pool_, {layers(form), kMost, start});
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text);
    return std::move(*made);
  }

  struct Part {
    kv::Sequence* row;
    uint32_t count;
    uint64_t salt;
    Outputs* out;  // positions from the row's length on are written anew
  };
  Status step(std::vector<Part> parts) {
    std::vector<RowInput> inputs(parts.size());
    std::vector<Span> spans(parts.size());
    for (size_t r = 0; r < parts.size(); ++r) {
      spans[r].tokens = {ids_, parts[r].count};
      inputs[r] = {parts[r].row, {&spans[r], 1}, 0};
    }
    GYRE_TRY(step_->begin(inputs));
    for (uint32_t layer = 0; layer < kLayers; ++layer) attend_all(parts, layer);
    return step_->commit();
  }
  Step& step() { return *step_; }
  kv::PagePool& pool() { return pool_; }

  Outputs run(Form form, uint32_t start, uint32_t length, uint32_t chunk) {
    kv::Sequence one = row(form, start);
    Outputs out;
    for (uint32_t done = 0; done < length; done += chunk)
      EXPECT_TRUE(step({{&one, std::min(chunk, length - done), 0, &out}}).ok());
    return out;
  }

 private:
  void attend_all(const std::vector<Part>& parts, uint32_t layer) {
    const bool owns = layer < kPlaces.size();
    const size_t of = owns ? layer : kDonorOf;  // the donor's queries are its owner's
    AttentionLayer attention;
    attention.layer = layer;
    attention.kv = {kKvHeads, kDim, kDim, backend_.kv_code};
    attention.heads = kHeads;
    attention.scale = 0.125f;
    attention.owns_kv = owns;
    for (uint32_t t = 0; t < step_->tokens(); ++t) {
      const uint64_t salt = parts[step_->row_of(t)].salt;
      fake(step_->q(t), kWidth, salt, of, step_->position(t), 0);
      fake(step_->k(t), kKvHeads * kDim, salt, of, step_->position(t), 1);
      fake(step_->v(t), kKvHeads * kDim, salt, of, step_->position(t), 2);
      step_->k(t)[3] += 2.0f;  // a channel with a mean
    }
    attend(*step_, attention, kernels::kFormBf16);
    for (uint32_t t = 0; t < step_->tokens(); ++t) {
      std::vector<float>& to = parts[step_->row_of(t)].out->of[layer];
      to.resize(size_t{step_->position(t)} * kWidth);
      to.insert(to.end(), step_->attended(t), step_->attended(t) + kWidth);
    }
    for (size_t r = 0; r < parts.size(); ++r) EXPECT_TRUE(step_->row_is_finite(r));
  }

  ThreadPool threads_;
  Backend backend_;
  kv::PagePool pool_{0};
  std::unique_ptr<Step> step_;
  TokenId ids_[kTokens] = {};
};

void expect_delayed(const Outputs& got, const Outputs& plain, const Outputs& coded, uint32_t start,
                    uint32_t begin, uint32_t end) {
  for (size_t layer = 0; layer < kLayers; ++layer) {
    for (uint32_t p = begin; p < end; ++p)
      ASSERT_TRUE(same(got, p < start ? plain : coded, layer, p))
          << "layer " << layer << " position " << p << " start " << start;
  }
}

TEST(Attend, CodesAreCloseToBf16AndNotEqual) {
  Bench bench(kernels::Isa::scalar);
  const Outputs plain = bench.run(Form::plain, 0, 150, 50),
                coded = bench.run(Form::as_is, 0, 150, 50);
  for (size_t layer = 0; layer < kPlaces.size(); ++layer) {
    const bool is_plain = kPlaces[layer].code == kernels::kBf16Code;
    double error = 0, energy = 0;
    for (size_t i = 0; i < plain.of[layer].size(); ++i) {
      const double x = plain.of[layer][i], d = coded.of[layer][i] - x;
      error += d * d;
      energy += x * x;
    }
    EXPECT_EQ(error == 0, is_plain) << layer;
    EXPECT_LT(error, 0.05 * energy) << layer;
  }
  for (uint32_t p = 0; p < 150; ++p)
    EXPECT_EQ(std::memcmp(coded.at(kLayers - 1, p), coded.at(kDonorOf, p), kWidth * 4), 0);
}

TEST(Attend, AQueryReadsWhatItsOwnPositionSays) {
  Bench bench(kernels::available_isas().back());
  constexpr uint32_t kLength = 170;
  const Outputs plain = bench.run(Form::plain, 0, kLength, 64);
  const Outputs coded = bench.run(Form::as_is, 0, kLength, 64);
  for (const uint32_t start : {0u, 1u, 63u, 64u, 65u, 150u, 400u}) {
    for (const uint32_t chunk : {kLength, 65u, 7u}) {
      expect_delayed(bench.run(Form::as_is, start, kLength, chunk), plain, coded, start, 0,
                     kLength);
      if (::testing::Test::HasFatalFailure()) FAIL() << "chunk " << chunk;
    }
  }
  EXPECT_EQ(bench.pool().bytes_in_use(), 0u);
}

// All instruction sets, one thread and more.
TEST(Attend, InstructionSetsAndThreadsGiveOneResult) {
  constexpr uint32_t kLength = 140;
  const Outputs expected = Bench(kernels::Isa::scalar, 1).run(Form::as_is, 80, kLength, 70);
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const int threads : {1, 3}) {
      const Outputs got = Bench(isa, threads).run(Form::as_is, 80, kLength, 70);
      for (size_t layer = 0; layer < kLayers; ++layer)
        EXPECT_EQ(got.of[layer], expected.of[layer]) << kernels::isa_name(isa) << " " << layer;
    }
  }
}

// Rows of other codes, starts and lengths in one step; a clone and a round among them.
TEST(Attend, RowsOfAllKindsShareAStep) {
  Bench bench(kernels::available_isas().back());
  constexpr uint32_t kLength = 160;
  const Outputs plain = bench.run(Form::plain, 0, kLength, 64);
  const Outputs coded = bench.run(Form::as_is, 0, kLength, 64);
  kv::Sequence a = bench.row(Form::as_is, 70), b = bench.row(Form::plain, 0);
  kv::Sequence c = bench.row(Form::as_is, 0);
  Outputs of_a, of_b, of_c, of_d;
  for (int i = 0; i < 12; ++i)
    ASSERT_TRUE(bench.step({{&a, 5, 0, &of_a}, {&b, 7, 0, &of_b}, {&c, 11, 0, &of_c}}).ok());
  // d leaves a's past at 60 for another text, in a round across its start of which nothing stays,
  // and comes back to the first text.
  kv::Sequence d = std::move(*a.clone());
  of_d = of_a;
  ASSERT_TRUE(d.begin(19).ok());
  ASSERT_TRUE(bench.step({{&a, 8, 0, &of_a}, {&d, 20, 5, &of_d}}).ok());
  ASSERT_TRUE(d.resolve(0).ok());
  while (d.length() < kLength) {
    const uint32_t n = std::min(9u, kLength - d.length()), m = std::min(4u, kLength - a.length());
    ASSERT_TRUE(bench.step({{&d, n, 0, &of_d}, {&a, m, 0, &of_a}}).ok());
  }
  expect_delayed(of_a, plain, coded, 70, 0, a.length());
  expect_delayed(of_b, plain, plain, 0, 0, b.length());
  expect_delayed(of_c, coded, coded, 0, 0, c.length());
  expect_delayed(of_d, plain, coded, 70, 0, d.length());
}

TEST(Attend, TheOraclesF32RowsStillWork) {
  Bench bench(kernels::Isa::scalar, 1, true), bf16(kernels::Isa::scalar, 1);
  const Outputs exact = bench.run(Form::f32, 50, 100, 30),
                rounded = bf16.run(Form::plain, 0, 100, 30);
  for (size_t layer = 0; layer < kPlaces.size(); ++layer) {
    ASSERT_EQ(exact.of[layer].size(), rounded.of[layer].size());
    for (size_t i = 0; i < exact.of[layer].size(); ++i)
      ASSERT_NEAR(exact.of[layer][i], rounded.of[layer][i], 0.05);
  }
}

// A row that cannot get its pages: no row of the step has changed, and the others go on.
TEST(Attend, AStepThatCannotBeginLeavesItsRows) {
  Bench bench(kernels::available_isas().back());
  kv::Sequence a = bench.row(Form::as_is, 64), b = bench.row(Form::as_is, 64);
  Outputs out_a, out_b;
  ASSERT_TRUE(bench.step({{&a, 60, 0, &out_a}, {&b, 62, 1, &out_b}}).ok());
  kv::Sequence before_a = std::move(*a.clone()), before_b = std::move(*b.clone());
  const size_t held = bench.pool().bytes_in_use();
  uint32_t failures = 0;
  for (long n = 0;; n += 7) {
    fail_allocation_after(n);
    const Status status = bench.step({{&a, 30, 0, &out_a}, {&b, 30, 1, &out_b}});
    fail_allocation_after(-1);
    if (status.ok()) break;
    ++failures;
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    EXPECT_TRUE(a.same_bytes(before_a));
    EXPECT_TRUE(b.same_bytes(before_b));
    EXPECT_LE(bench.pool().bytes_in_use(), held + a.bytes() + b.bytes());  // copies may stay
  }
  EXPECT_GT(failures, 5u);
  const Outputs alone = bench.run(Form::as_is, 64, 90, 90);
  expect_delayed(out_a, alone, alone, 0, 0, 90);
}

}  // namespace
}  // namespace gyre::nn
