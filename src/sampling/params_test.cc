#include "sampling/params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace gyre::sampling {
namespace {

std::string error_of(const std::function<void(SamplerParams&)>& change) {
  SamplerParams params;
  change(params);
  const Status status = validate(params, 100);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.error().code, ErrorCode::usage);
  return status.error().text;
}

TEST(Params, DefaultsAreValid) {
  EXPECT_EQ(error_of([](SamplerParams&) {}), "accepted");
  EXPECT_FALSE(validate({}, 0).ok());
  EXPECT_FALSE(validate({}, (size_t{1} << 23) + 1).ok());
  EXPECT_TRUE(validate({}, size_t{1} << 23).ok());
}

TEST(Params, EveryFieldIsCheckedAndNamed) {
  using P = SamplerParams;
  const struct {
    std::function<void(P&)> change;
    const char* text;
  } cases[] = {
      {[](P& p) { p.temperature = -0.5f; }, "temperature: -0.5, expected 0 (greedy) or more"},
      {[](P& p) { p.temperature = NAN; }, "temperature: nan, expected 0 (greedy) or more"},
      {[](P& p) { p.temperature = INFINITY; }, "temperature: inf, expected 0 (greedy) or more"},
      {[](P& p) { p.top_k = -1; }, "top_k: -1, expected 0 (off) or more"},
      {[](P& p) { p.top_p = 1.5f; }, "top_p: 1.5, expected 0 to 1"},
      {[](P& p) { p.top_p = NAN; }, "top_p: nan, expected 0 to 1"},
      {[](P& p) { p.min_p = -0.1f; }, "min_p: -0.1, expected 0 to 1"},
      {[](P& p) { p.typical_p = 2.0f; }, "typical_p: 2, expected 0 to 1"},
      {[](P& p) { p.top_n_sigma = -1.0f; }, "top_n_sigma: -1, expected 0 (off) or more"},
      {[](P& p) { p.xtc_probability = 1.25f; }, "xtc_probability: 1.25, expected 0 to 1"},
      {[](P& p) { p.xtc_threshold = -1.0f; }, "xtc_threshold: -1, expected 0 to 1"},
      {[](P& p) { p.repetition_penalty = 0.0f; },
       "repetition_penalty: 0, expected a finite number above 0"},
      {[](P& p) { p.presence_penalty = -INFINITY; },
       "presence_penalty: -inf, expected a finite number"},
      {[](P& p) { p.frequency_penalty = NAN; }, "frequency_penalty: nan, expected a finite number"},
      {[](P& p) { p.penalty_last_n = -2; }, "penalty_last_n: -2, expected -1 (all) or more"},
      {[](P& p) { p.dry_multiplier = -1.0f; }, "dry_multiplier: -1, expected 0 (off) or more"},
      {[](P& p) { p.dry_base = 0.5f; }, "dry_base: 0.5, expected a finite number, 1 or more"},
      {[](P& p) { p.dry_allowed_length = 0; }, "dry_allowed_length: 0, expected 1 or more"},
      {[](P& p) { p.dry_penalty_last_n = -7; },
       "dry_penalty_last_n: -7, expected -1 (all) or more"},
      {[](P& p) {
         p.dry_sequence_breakers = {{1}, {}};
       },
       "dry_sequence_breakers: an empty sequence, expected one token id or more in each"},
      {[](P& p) {
         p.dry_sequence_breakers = {{1, 100}};
       },
       "dry_sequence_breakers: 100, expected a token id below 100"},
      {[](P& p) {
         p.logit_bias = {{-1, 0.0f}};
       },
       "logit_bias: -1, expected a token id below 100"},
      {[](P& p) {
         p.logit_bias = {{3, 1.0f}, {4, INFINITY}};
       },
       "logit_bias of id 4: inf, expected a finite number"},
      {[](P& p) {
         p.logit_bias = {{3, 1.0f}, {3, 2.0f}};
       },
       "logit_bias: id 3 twice, expected each id once"},
      {[](P& p) { p.logprobs = -2; },
       "logprobs: -2, expected -1 (none) to the size of the vocabulary"},
      {[](P& p) { p.logprobs = 101; },
       "logprobs: 101, expected -1 (none) to the size of the vocabulary"},
      {[](P& p) {
         p.order = {Step::top_k, Step::top_k};
       },
       "order: a step twice or unknown, expected each step at most once"},
      {[](P& p) { p.order = {static_cast<Step>(10)}; },
       "order: a step twice or unknown, expected each step at most once"},
  };
  for (const auto& c : cases) EXPECT_EQ(error_of(c.change), c.text);
}

TEST(Params, OrderIsParsed) {
  std::string all;
  for (Step step : default_order()) all.append(all.empty() ? "" : ";").append(step_name(step));
  EXPECT_EQ(all, "bias;penalties;dry;top_n_sigma;top_k;typical;top_p;min_p;xtc;temperature");
  EXPECT_EQ(parse_order(all).value(), default_order());
  EXPECT_EQ(parse_order("temperature;top_k").value(),
            (std::vector<Step>{Step::temperature, Step::top_k}));
  EXPECT_EQ(parse_order("top_k;mirostat").error().text,
            "order: step 'mirostat', expected "
            "bias;penalties;dry;top_n_sigma;top_k;typical;top_p;min_p;xtc;temperature");
  EXPECT_FALSE(parse_order("").ok());
  EXPECT_FALSE(parse_order("top_k;").ok());
  EXPECT_FALSE(parse_order(" top_k").ok());
  EXPECT_EQ(parse_order("top_k;min_p;top_k").error().text,
            "order: step 'top_k' twice, expected each step at most once");
}

}  // namespace
}  // namespace gyre::sampling
