#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "sampling/steps.h"

namespace gyre::sampling {
namespace {

std::vector<float> normal_row(size_t n, uint64_t seed, float width = 3.0f) {
  std::mt19937_64 random(seed);
  std::vector<float> row(n);
  for (float& l : row) l = std::normal_distribution<float>(0, width)(random);
  return row;
}

Sampler make(const SamplerParams& params, size_t vocab) {
  return Sampler::make(params, vocab, 1234).value();
}

int32_t token(const Sampler& sampler, SampleInput input) {
  SampleWorkspace workspace = SampleWorkspace::make(input.logits.size()).value();
  return sampler.sample(input, workspace).value().token;
}

// The survivors of one draw, by id.
std::vector<int32_t> survivors(const SamplerParams& params, const std::vector<float>& logits,
                               const std::vector<int32_t>& history = {}, uint64_t position = 0) {
  SampleWorkspace workspace = SampleWorkspace::make(logits.size()).value();
  const SampleInput input{.logits = logits, .history = history, .position = position};
  EXPECT_TRUE(make(params, logits.size()).narrow(input, workspace).ok());
  const std::span<const int32_t> ids = workspace.candidates.ids();
  return {ids.begin(), ids.end()};
}

using Ids = std::vector<int32_t>;

TEST(Sampler, GreedyTakesTheHighestThenTheLowestId) {
  SamplerParams greedy;
  greedy.temperature = 0.0f;
  const auto pick = [&](std::vector<float> row) {
    return token(make(greedy, row.size()), {.logits = row});
  };
  EXPECT_EQ(pick({1.0f, 3.0f, 3.0f, 2.0f}), 1);
  EXPECT_EQ(pick({-1.0f, -0.0f, 0.0f}), 1);
  EXPECT_EQ(pick({-1.0f, 0.0f, -0.0f}), 1);
  EXPECT_EQ(pick({-3e38f}), 0);
  // Filters that remove the best do not run, modifiers do.
  greedy.xtc_probability = 1.0f;
  greedy.xtc_threshold = 0.0f;
  EXPECT_EQ(pick({1.0f, 3.0f, 3.0f, 2.0f}), 1);
  greedy.logit_bias = {{0, 5.0f}};
  EXPECT_EQ(pick({1.0f, 3.0f, 3.0f, 2.0f}), 0);
}

// Without its step in the order, a temperature of 0 means nothing.
TEST(Sampler, StepsLeftOutAreSkipped) {
  SamplerParams p;
  p.temperature = 0.0f;
  p.top_k = 2;
  p.order = {Step::top_k};
  EXPECT_EQ(survivors(p, {1, 2, 3, 4}), (Ids{2, 3}));
  p.order = {Step::bias};
  EXPECT_EQ(survivors(p, {1, 2, 3, 4}).size(), 4u);
}

TEST(Sampler, TopKBreaksTiesByIdAtAnySize) {
  SamplerParams p;
  p.top_k = 3;
  EXPECT_EQ(survivors(p, {1, 2, 1, 2, 1}), (Ids{0, 1, 3}));
  std::vector<float> flat(5000, 0.25f);
  p.top_k = 1700;
  const Ids kept = survivors(p, flat);
  ASSERT_EQ(kept.size(), 1700u);
  EXPECT_EQ(kept.back(), 1699);
  std::vector<float> rising(5000);
  for (size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i) * 1e-3f;
  p.top_k = 40;
  EXPECT_EQ(survivors(p, rising).front(), 4960);
}

TEST(Sampler, OrderMatters) {
  // Top-p sees the temperature only when it comes later.
  SamplerParams p;
  p.top_p = 0.6f;
  p.temperature = 100.0f;
  const std::vector<float> row = {5.0f, 3.0f, 1.0f, 0.0f};
  EXPECT_EQ(survivors(p, row), (Ids{0}));
  p.order = parse_order("temperature;top_p").value();
  EXPECT_EQ(survivors(p, row), (Ids{0, 1, 2}));
}

TEST(Sampler, PenaltiesFollowTheirSigns) {
  SamplerParams p;
  p.repetition_penalty = 2.0f;
  p.top_k = 1;
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {0}), (Ids{1}));    // 3 / 2 < 2
  EXPECT_EQ(survivors(p, {-1.0f, -1.5f}, {0}), (Ids{1}));  // -1 * 2 < -1.5
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {1}), (Ids{0}));
  p.penalty_last_n = 1;
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {0, 1}), (Ids{0}));  // id 0 is out of the window
  p.repetition_penalty = 1.0f;
  p.penalty_last_n = -1;
  p.frequency_penalty = 0.6f;
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {0}), (Ids{0}));
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {0, 0}), (Ids{1}));  // 3 - 2 * 0.6 < 2
  p.frequency_penalty = 0.0f;
  p.presence_penalty = 0.9f;
  EXPECT_EQ(survivors(p, {3.0f, 2.0f}, {0, 0, 0}), (Ids{0}));  // once, however often
}

TEST(Sampler, DryPenalisesWhatWouldContinueARepeat) {
  SamplerParams p;
  p.dry_multiplier = 1.0f;
  p.dry_base = 2.0f;
  p.dry_allowed_length = 2;
  p.top_k = 1;
  const auto best = [&](const Ids& history, std::vector<float> row) {
    return survivors(p, row, history).at(0);
  };
  // "1 2 3 ... 1 2": 3 would continue a repeat of length 2, penalty 1 * 2^0.
  const Ids repeat = {1, 2, 3, 0, 1, 2};
  EXPECT_EQ(best(repeat, {0, 0, 0, 0.9f, 0.5f}), 4);
  EXPECT_EQ(best(repeat, {0, 0, 0, 1.6f, 0.5f}), 3);
  // One longer doubles it.
  EXPECT_EQ(best({5, 1, 2, 3, 5, 1, 2}, {0, 0, 0, 1.9f, 0.5f, 0}), 4);
  EXPECT_EQ(best({5, 1, 2, 3, 5, 1, 2}, {0, 0, 0, 2.6f, 0.5f, 0}), 3);
  // A breaker in the repeat ends it; a breaker itself is never penalised.
  p.dry_sequence_breakers = {{1}};
  EXPECT_EQ(best(repeat, {0, 0, 0, 0.9f, 0.5f}), 3);
  p.dry_sequence_breakers = {{3}};
  EXPECT_EQ(best(repeat, {0, 0, 0, 0.9f, 0.5f}), 3);
  p.dry_sequence_breakers = {{0, 1}};
  EXPECT_EQ(best(repeat, {0, 0, 0, 0.9f, 0.5f}), 3);
  // Penalties saturate.
  p.dry_sequence_breakers = {};
  EXPECT_EQ(best(Ids(5000, 3), {0, 0, 0, 3e38f, -3e38f}), 0);
}

TEST(Sampler, RepeatLengthsEqualTheNaiveOnes) {
  std::mt19937 random(9);
  for (int trial = 0; trial < 500; ++trial) {
    Ids window(random() % 60);
    for (int32_t& id : window) id = static_cast<int32_t>(random() % 2);
    const size_t limit = random() % 20, n = window.size();
    std::vector<int32_t> lengths(n);
    repeat_lengths(window, limit, lengths);
    for (size_t j = 0; j < n; ++j) {
      size_t naive = 0;
      while (naive < limit && naive <= j && window[j - naive] == window[n - 1 - naive]) ++naive;
      ASSERT_EQ(lengths[j], static_cast<int32_t>(naive));
    }
  }
}

TEST(Sampler, XtcKeepsOnlyTheLeastOfTheTopChoices) {
  SamplerParams p;
  p.xtc_probability = 1.0f;
  p.xtc_threshold = 0.2f;
  const float a = std::log(0.4f), b = std::log(0.3f), c = std::log(0.25f), d = std::log(0.05f);
  EXPECT_EQ(survivors(p, {d, a, c, b}), (Ids{0, 2}));
  EXPECT_EQ(survivors(p, {a, b, d}), (Ids{1, 2}));
  p.xtc_threshold = 0.35f;  // only one reaches it
  EXPECT_EQ(survivors(p, {d, a, c, b}).size(), 4u);
  p.xtc_threshold = 0.0f;
  EXPECT_EQ(survivors(p, {1, 1, 1}), (Ids{2}));
  // The chance is per position.
  p.xtc_probability = 0.25f;
  int active = 0;
  for (uint64_t position = 0; position < 4000; ++position)
    active += survivors(p, {1, 1, 1}, {}, position).size() == 1;
  EXPECT_NEAR(active, 1000, 120);
}

TEST(Sampler, EqualAddressesDrawEqualTokensOthersDiffer) {
  const std::vector<float> row = normal_row(500, 3, 0.5f);
  SamplerParams p;
  p.seed = 42;
  const Sampler sampler = make(p, row.size());
  EXPECT_EQ(sampler.seed(), 42u);
  EXPECT_EQ(make({}, row.size()).seed(), 1234u);
  const auto draws = [&](const Sampler& s, uint32_t choice, uint64_t from) {
    Ids out;
    for (uint64_t i = 0; i < 50; ++i)
      out.push_back(token(s, {.logits = row, .position = from + i, .choice = choice}));
    return out;
  };
  const Ids first = draws(sampler, 0, 0);
  EXPECT_EQ(draws(sampler, 0, 0), first);
  EXPECT_NE(draws(sampler, 1, 0), first);
  EXPECT_NE(draws(sampler, 0, uint64_t{1} << 32), first);
  p.seed = 43;
  EXPECT_NE(draws(make(p, row.size()), 0, 0), first);
  EXPECT_EQ(draws(sampler, 0, 10)[0], first[10]);
}

// Chi-square of 200 000 draws against exact probabilities: 39 degrees of freedom, mean 39,
// standard deviation 8.8.
TEST(Sampler, DrawsFollowTheDistribution) {
  const std::vector<float> row = normal_row(40, 4, 1.0f);
  SamplerParams p;
  p.seed = 7;
  p.temperature = 0.8f;
  const Sampler sampler = make(p, row.size());
  SampleWorkspace workspace = SampleWorkspace::make(row.size()).value();
  std::vector<double> probability(row.size());
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += probability[i] = std::exp(row[i] / 0.8);
  constexpr int kDraws = 200000;
  std::vector<int> seen(row.size());
  for (int i = 0; i < kDraws; ++i)
    ++seen[sampler.sample({.logits = row, .position = static_cast<uint64_t>(i)}, workspace)
               .value()
               .token];
  double chi = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    const double expected = kDraws * probability[i] / sum;
    chi += (seen[i] - expected) * (seen[i] - expected) / expected;
  }
  EXPECT_LT(chi, 39 + 4 * 8.8);
  EXPECT_GT(chi, 39 - 4 * 8.8);
}

// A scan, blocks of 512 and a tree must give one token: the sums are integers.
TEST(Sampler, AnyOrderOfSummationDrawsTheSameToken) {
  const std::vector<float> row = normal_row(20000, 5);
  Candidates c = Candidates::make(row.size()).value();
  std::mt19937_64 random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const uint64_t bits = random();
    c.load(row);
    const int32_t scanned = draw(c, bits);
    std::vector<uint64_t> blocks((row.size() + 511) / 512);
    for (size_t i = row.size(); i-- > 0;) blocks[i / 512] += c.weights()[i];
    uint64_t total = 0;
    for (size_t b = blocks.size(); b-- > 0;) total += blocks[b];
    ASSERT_EQ(total, c.total());
    auto target = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * total) >> 64);
    size_t block = 0;
    while (blocks[block] <= target) target -= blocks[block++];
    size_t i = block * 512;
    while (c.weights()[i] <= target) target -= c.weights()[i++];
    ASSERT_EQ(scanned, static_cast<int32_t>(i));
  }
}

TEST(Sampler, ExtremeParametersStillDraw) {
  const float huge = std::numeric_limits<float>::max();
  const std::vector<float> row = {huge, -huge, 0.0f, 1e-45f, huge};
  for (float temperature : {0.0f, 1e-45f, 1e-30f, 1.0f, 1e30f, huge}) {
    SamplerParams p;
    p.temperature = temperature;
    p.repetition_penalty = 1e-40f;
    p.presence_penalty = huge;
    p.frequency_penalty = -huge;
    p.dry_multiplier = huge;
    p.dry_base = huge;
    p.dry_allowed_length = 1;
    p.top_n_sigma = 1e-30f;
    p.top_p = 0.0f;
    p.typical_p = 0.0f;
    p.min_p = 1.0f;
    p.xtc_probability = 1.0f;
    p.xtc_threshold = 0.0f;
    p.logit_bias = {{0, huge}, {1, -huge}};
    EXPECT_GE(survivors(p, row, {0, 1, 2, 3, 4, 0, 1, 2}).size(), 1u) << temperature;
  }
  EXPECT_EQ(survivors({}, {0.5f}), (Ids{0}));
}

TEST(Sampler, NonFiniteLogitsEndTheRow) {
  for (float bad : {NAN, INFINITY, -INFINITY}) {
    std::vector<float> row(100, 1.0f);
    row[37] = bad;
    for (float temperature : {0.0f, 1.0f}) {
      SamplerParams p;
      p.temperature = temperature;
      SampleWorkspace workspace = SampleWorkspace::make(row.size()).value();
      const Result<Draw> draw = make(p, row.size()).sample({.logits = row}, workspace);
      ASSERT_FALSE(draw.ok());
      EXPECT_EQ(draw.error().code, ErrorCode::non_finite);
      EXPECT_NE(draw.error().text.find("logit of id 37"), std::string::npos);
    }
    EXPECT_EQ(LogprobRow::make(row).error().code, ErrorCode::non_finite);
  }
}

TEST(Sampler, WrongInputsAreErrors) {
  const std::vector<float> row(100, 1.0f);
  SampleWorkspace workspace = SampleWorkspace::make(100).value();
  SampleWorkspace small = SampleWorkspace::make(99).value();
  SamplerParams p;
  p.presence_penalty = 1.0f;
  const Sampler sampler = make(p, 100);
  const std::vector<int32_t> bad_history = {5, 100};
  const std::vector<uint64_t> none(2), too_short(1, ~uint64_t{0});
  EXPECT_FALSE(sampler.sample({.logits = std::span(row).first(99)}, workspace).ok());
  EXPECT_FALSE(sampler.sample({.logits = row}, small).ok());
  EXPECT_FALSE(sampler.sample({.logits = row, .history = bad_history}, workspace).ok());
  EXPECT_FALSE(sampler.sample({.logits = row, .allowed = none}, workspace).ok());
  EXPECT_FALSE(sampler.sample({.logits = row, .allowed = too_short}, workspace).ok());
  EXPECT_TRUE(sampler.sample({.logits = row}, workspace).ok());
  p.top_p = NAN;
  EXPECT_FALSE(Sampler::make(p, 100, 0).ok());
}

TEST(Sampler, AllocationFailuresAreValues) {
  for (long n = 0; n < 7; ++n) {
    fail_allocation_after(n);
    EXPECT_FALSE(SampleWorkspace::make(10).ok()) << n;
  }
  fail_allocation_after(-1);
  EXPECT_TRUE(SampleWorkspace::make(10).ok());
}

TEST(Logprobs, SumToOneAndRankTies) {
  const std::vector<float> row = normal_row(3000, 8);
  const LogprobRow logprobs = LogprobRow::make(row).value();
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i)
    sum += std::exp(double{logprobs.of(static_cast<int32_t>(i))});
  EXPECT_NEAR(sum, 1.0, 1e-6);
  std::vector<TokenLogprob> best(row.size());
  logprobs.best(best);
  for (size_t i = 1; i < best.size(); ++i) ASSERT_GE(best[i - 1].logprob, best[i].logprob);
  const std::vector<float> ties = {1, 2, 2, 0, 2};
  std::vector<TokenLogprob> three(3);
  LogprobRow::make(ties).value().best(three);
  EXPECT_EQ(three[0].id, 1);
  EXPECT_EQ(three[1].id, 2);
  EXPECT_EQ(three[2].id, 4);
  EXPECT_EQ(LogprobRow::make(std::vector<float>{-7.0f}).value().of(0), 0.0f);
  EXPECT_FALSE(LogprobRow::make({}).ok());
}

}  // namespace
}  // namespace gyre::sampling
