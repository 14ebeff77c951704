#include "engine/compare.h"

#include <algorithm>
#include <cmath>

#include "base/fp_env.h"
#include "numerics/softmax_row.h"

namespace gyre::engine {
namespace {

constexpr uint32_t kLogitRows = 16;  // of each scheme, held at a time
constexpr uint32_t kFirstDepth = 1024;

// One position: both rows' predictions of the next token.
struct Position {
  double logprob = 0.0, against_logprob = 0.0, kl = 0.0;
  bool same_top = false;
};

// log of the sum of exp(logit), from integer weights of 2^-40.
double log_sum(uint64_t weights, float most) {
  return std::log(static_cast<double>(weights) / static_cast<double>(numerics::kWeightOne)) + most;
}

// `scratch`: a weight for each logit.
Position measure(std::span<const float> scheme, std::span<const float> against, TokenId next,
                 uint64_t* scratch) {
  const size_t n = scheme.size();
  const auto top = std::max_element(scheme.begin(), scheme.end());
  const auto against_top = std::max_element(against.begin(), against.end());
  const double z = log_sum(numerics::softmax_weight_sum(scheme.data(), n, *top), *top);
  const uint64_t sum = numerics::softmax_weights(against.data(), n, *against_top, scratch);
  const double against_z = log_sum(sum, *against_top);
  double difference = 0.0;
  for (size_t i = 0; i < n; ++i)
    difference += static_cast<double>(static_cast<int64_t>(scratch[i])) * (against[i] - scheme[i]);
  Position out;
  out.same_top = top - scheme.begin() == against_top - against.begin();
  out.logprob = scheme[static_cast<size_t>(next)] - z;
  out.against_logprob = against[static_cast<size_t>(next)] - against_z;
  out.kl = difference / static_cast<double>(sum) - against_z + z;
  return out;
}

class Sums {
 public:
  explicit Sums(uint32_t from) : from_(from) {}
  void add(const Position& position) {
    ++count_;
    logprob_ += position.logprob;
    against_ += position.against_logprob;
    kl_ += position.kl;
    same_ += position.same_top ? 1 : 0;
  }
  uint32_t end() const { return from_ + count_; }
  SchemeDistance distance() const {
    return {from_,        end(),         std::exp(-logprob_ / count_), std::exp(-against_ / count_),
            kl_ / count_, same_ / count_};
  }

 private:
  uint32_t from_, count_ = 0;
  double logprob_ = 0.0, against_ = 0.0, kl_ = 0.0, same_ = 0.0;
};

}  // namespace

Result<SchemeComparison> compare_schemes(Runner& runner, std::span<const TokenId> ids,
                                         const kv::KvScheme& scheme, const kv::KvScheme& against,
                                         const CompareSettings& settings) {
  if (ids.size() < 2)
    return fail(ErrorCode::usage, "token ids", std::to_string(ids.size()), "at least two");
  const uint32_t vocabulary = runner.vocabulary();
  const auto total = static_cast<uint32_t>(ids.size()) - 1;  // positions that predict a known token
  const uint32_t chunk = std::clamp(settings.chunk, 1u, runner.max_tokens() / 2);
  GYRE_ASSIGN(kv::Sequence row, runner.open_row(scheme));
  GYRE_ASSIGN(kv::Sequence other, runner.open_row(against));
  GYRE_ASSIGN(Array<float> logits,
              Array<float>::make(size_t{2} * kLogitRows * vocabulary, "logits"));
  GYRE_ASSIGN(Array<uint64_t> weights,
              Array<uint64_t>::make(static_cast<size_t>(runner.loaded().pool().size()) * vocabulary,
                                    "weights"));
  uint8_t not_finite[2 * kLogitRows] = {};
  Position positions[kLogitRows];
  Sums all(0);
  std::vector<Sums> depths{Sums(0)};
  uint32_t depth_end = kFirstDepth;
  for (uint32_t done = 0; done < total;) {
    const uint32_t n = std::min(chunk, total - done);
    const RowTokens step[] = {{&row, ids.subspan(done, n)}, {&other, ids.subspan(done, n)}};
    GYRE_TRY(runner.step(step));
    for (uint32_t first = 0; first < n; first += kLogitRows) {
      const uint32_t count = std::min(kLogitRows, n - first);
      float* const second = &logits[size_t{kLogitRows} * vocabulary];
      runner.logits(first, count, logits.data(), not_finite);
      runner.logits(n + first, count, second, not_finite + kLogitRows);
      for (uint32_t i = 0; i < count; ++i) {
        if (not_finite[i] != 0 || not_finite[kLogitRows + i] != 0)
          return fail(ErrorCode::non_finite, "logits of position", std::to_string(all.end() + i),
                      "finite values");
      }
      runner.loaded().pool().run(count, [&](size_t i, int thread) {
        const FloatEnvironment environment;
        positions[i] =
            measure({&logits[i * vocabulary], vocabulary}, {&second[i * vocabulary], vocabulary},
                    ids[done + first + i + 1], &weights[static_cast<size_t>(thread) * vocabulary]);
      });
      for (uint32_t i = 0; i < count; ++i) {
        if (all.end() == depth_end) {
          depths.emplace_back(depth_end);
          depth_end *= 2;
        }
        all.add(positions[i]);
        depths.back().add(positions[i]);
      }
    }
    done += n;
    if (settings.progress) settings.progress(done, total);
  }
  SchemeComparison out;
  out.all = all.distance();
  for (const Sums& depth : depths) out.depths.push_back(depth.distance());
  return out;
}

}  // namespace gyre::engine
