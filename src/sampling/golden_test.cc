// Every step against tests/oracle/make_sampling_goldens.py: the exact set of survivors, their
// integer weights, the drawn token.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "numerics/philox.h"
#include "sampling/sampler.h"

namespace gyre::sampling {
namespace {

struct Case {
  std::string name;
  SamplerParams params;
  std::vector<float> logits;
  std::vector<int32_t> history, best;
  std::vector<uint64_t> allowed;
  std::vector<int32_t> allowed_ids;
  uint64_t position = 0;
  uint32_t choice = 0;
  size_t survivors = 0;
  uint64_t digest = 0, total = 0;
  std::string weights;
  int32_t token = -1;
  double logprob = 0;
};

std::vector<std::string> words(std::istream& in) {
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

std::vector<int32_t> ids(std::istream& in, char separator = ' ') {
  std::vector<int32_t> out;
  for (std::string word; std::getline(in, word, separator);)
    if (!word.empty()) out.push_back(std::stoi(word));
  return out;
}

// The rows that the script names instead of listing them.
std::vector<float> made_row(const std::string& kind, uint64_t seed, size_t n) {
  std::vector<float> row(n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t bits = numerics::random_bits(seed, 0, i, 0);
    row[i] =
        kind == "wide"
            ? std::ldexp(static_cast<float>(static_cast<int64_t>(bits >> 40)) - 8388608.0f, -19)
            : (static_cast<float>(bits >> 59) - 16.0f) * 0.5f;
  }
  return row;
}

bool read_number(const std::string& key, std::istream& in, SamplerParams& p) {
  const std::pair<const char*, float*> floats[] = {
      {"temperature", &p.temperature},
      {"top_p", &p.top_p},
      {"min_p", &p.min_p},
      {"typical_p", &p.typical_p},
      {"top_n_sigma", &p.top_n_sigma},
      {"xtc_probability", &p.xtc_probability},
      {"xtc_threshold", &p.xtc_threshold},
      {"dry_multiplier", &p.dry_multiplier},
      {"dry_base", &p.dry_base},
      {"repetition_penalty", &p.repetition_penalty},
      {"presence_penalty", &p.presence_penalty},
      {"frequency_penalty", &p.frequency_penalty},
  };
  const std::pair<const char*, int32_t*> integers[] = {
      {"top_k", &p.top_k},
      {"dry_allowed_length", &p.dry_allowed_length},
      {"dry_penalty_last_n", &p.dry_penalty_last_n},
      {"penalty_last_n", &p.penalty_last_n},
  };
  std::string value;
  for (const auto& [name, target] : floats)
    if (key == name) return in >> value && (*target = std::strtof(value.c_str(), nullptr), true);
  for (const auto& [name, target] : integers)
    if (key == name) return static_cast<bool>(in >> *target);
  return false;
}

bool read_list(const std::string& key, std::istream& in, Case& c) {
  if (key == "logit_bias") {
    for (const std::string& word : words(in))
      c.params.logit_bias.emplace_back(std::stoi(word),
                                       std::strtof(word.c_str() + word.find(':') + 1, nullptr));
  } else if (key == "dry_sequence_breakers") {
    for (const std::string& word : words(in)) {
      std::istringstream sequence(word);
      c.params.dry_sequence_breakers.push_back(ids(sequence, ','));
    }
  } else if (key == "logits") {
    for (const std::string& word : words(in))
      c.logits.push_back(
          std::bit_cast<float>(static_cast<uint32_t>(std::stoul(word, nullptr, 16))));
  } else if (key == "made") {
    std::string kind;
    uint64_t seed = 0;
    size_t n = 0;
    in >> kind >> seed >> n;
    c.logits = made_row(kind, seed, n);
  } else if (key == "history") {
    c.history = ids(in);
  } else if (key == "allowed") {
    c.allowed_ids = ids(in);
  } else if (key == "best") {
    c.best = ids(in);
  } else if (key == "weights") {
    std::getline(in >> std::ws, c.weights);
  } else {
    return false;
  }
  return true;
}

bool read_scalar(const std::string& key, std::istream& in, Case& c) {
  std::string text;
  if (key == "case")
    in >> c.name;
  else if (key == "seed")
    in >> c.params.seed.emplace();
  else if (key == "position")
    in >> c.position;
  else if (key == "choice")
    in >> c.choice;
  else if (key == "token")
    in >> c.token;
  else if (key == "logprob")
    in >> c.logprob;
  else if (key == "survivors")
    in >> c.survivors >> std::hex >> c.digest >> std::dec >> c.total;
  else if (key == "order")
    in >> text, c.params.order = parse_order(text).value();
  else
    return false;
  return !in.fail();
}

std::vector<Case> read_cases() {
  std::ifstream file(std::string(GYRE_SOURCE_DIR) + "/tests/golden/sampling/cases.txt");
  std::vector<Case> out;
  Case c;
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string key;
    in >> key;
    if (key == "end") {
      out.push_back(std::exchange(c, Case{}));
    } else if (!read_scalar(key, in, c) && !read_number(key, in, c.params) &&
               !read_list(key, in, c)) {
      ADD_FAILURE() << "unknown line " << line;
    }
  }
  return out;
}

void check(Case& c, SampleWorkspace& workspace) {
  SCOPED_TRACE(c.name);
  const size_t vocab = c.logits.size();
  if (!c.allowed_ids.empty()) c.allowed.assign((vocab + 63) / 64, 0);
  for (int32_t id : c.allowed_ids) c.allowed[id / 64] |= uint64_t{1} << (id % 64);
  c.params.logprobs = static_cast<int32_t>(c.best.size());
  const Result<Sampler> sampler = Sampler::make(c.params, vocab, 0);
  ASSERT_TRUE(sampler.ok()) << sampler.error().text;
  const SampleInput input{.logits = c.logits,
                          .history = c.history,
                          .position = c.position,
                          .choice = c.choice,
                          .allowed = c.allowed};
  ASSERT_TRUE(sampler->narrow(input, workspace).ok());
  const Candidates& left = workspace.candidates;
  uint64_t digest = 0xcbf29ce484222325u;
  std::string weights;
  for (size_t i = 0; i < left.size(); ++i) {
    for (uint64_t word : {static_cast<uint64_t>(left.ids()[i]), left.weights()[i]})
      digest = (digest ^ word) * 0x100000001b3u;
    weights += (i > 0 ? " " : "") + std::to_string(left.ids()[i]) + ":" +
               std::to_string(left.weights()[i]);
  }
  EXPECT_EQ(left.size(), c.survivors);
  EXPECT_EQ(left.total(), c.total);
  EXPECT_EQ(digest, c.digest);
  if (!c.weights.empty()) {
    EXPECT_EQ(weights, c.weights);
  }
  const Result<Draw> draw = sampler->sample(input, workspace);
  ASSERT_TRUE(draw.ok());
  EXPECT_EQ(draw->token, c.token);
  EXPECT_NEAR(draw->logprob.value(), c.logprob, 1e-6 * (1 + std::fabs(c.logprob)));
  ASSERT_EQ(draw->best.size(), c.best.size());
  for (size_t i = 0; i < c.best.size(); ++i) EXPECT_EQ(draw->best[i].id, c.best[i]);
}

TEST(SamplingGoldens, SurvivorsWeightsAndTokens) {
  std::vector<Case> cases = read_cases();
  ASSERT_EQ(cases.size(), 176u);
  SampleWorkspace workspace = SampleWorkspace::make(3000).value();  // one for all sizes
  for (Case& c : cases) check(c, workspace);
}

}  // namespace
}  // namespace gyre::sampling
