#include "engine/score.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

#include "base/contract.h"
#include "sampling/logprobs.h"

namespace gyre::engine {
namespace {

// Logit rows held at a time: 16 rows of a vocabulary of 262,144 are 16 MiB.
constexpr uint32_t kLogitRows = 16;

}  // namespace

Digest::Digest() : state_(XXH3_createState()) {
  XXH3_128bits_reset_withSeed(static_cast<XXH3_state_t*>(state_), kContractVersion);
}
Digest::Digest(const Digest& other) : Digest() {
  *this = other;
}
Digest& Digest::operator=(const Digest& other) {
  XXH3_copyState(static_cast<XXH3_state_t*>(state_),
                 static_cast<const XXH3_state_t*>(other.state_));
  return *this;
}
Digest::~Digest() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

void Digest::add(std::span<const float> values) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), values.data(), values.size_bytes());
}

std::string Digest::hex() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

Result<Score> score(Runner& runner, std::span<const TokenId> ids, const ScoreSettings& settings) {
  if (ids.empty()) return fail(ErrorCode::usage, "token ids", "none", "at least one");
  const uint32_t vocabulary = runner.vocabulary();
  const uint32_t chunk = std::min(settings.chunk, runner.max_tokens());
  GYRE_ASSIGN(kv::Sequence row, runner.open_row());
  GYRE_ASSIGN(Array<float> logits, Array<float>::make(size_t{kLogitRows} * vocabulary, "logits"));
  uint8_t not_finite[kLogitRows] = {};
  double row_logprob[kLogitRows];
  Score out;
  Digest digest;
  double sum = 0.0;
  for (size_t done = 0; done < ids.size(); done += runner.step_tokens()) {
    const RowTokens tokens{&row, ids.subspan(done, std::min<size_t>(chunk, ids.size() - done))};
    GYRE_TRY(runner.step({&tokens, 1}));
    const uint32_t n = runner.step_tokens();
    if (!runner.row_is_finite(0))
      return fail(ErrorCode::non_finite, "position", std::to_string(done), "finite values");
    for (uint32_t first = 0; first < n; first += kLogitRows) {
      const uint32_t rows = std::min(kLogitRows, n - first);
      runner.logits(first, rows, logits.data(), not_finite);
      runner.loaded().pool().run(rows, [&](size_t i, int) {
        const size_t position = done + first + i;
        if (position + 1 >= ids.size() || not_finite[i] != 0) return;
        const auto row = sampling::LogprobRow::make({&logits[i * vocabulary], vocabulary});
        row_logprob[i] = row ? row->of(ids[position + 1]) : 0.0;
      });
      for (uint32_t i = 0; i < rows; ++i) {
        const uint32_t position = static_cast<uint32_t>(done) + first + i;
        if (not_finite[i] != 0)
          return fail(ErrorCode::non_finite, "logits of position", std::to_string(position),
                      "finite values");
        const std::span<const float> one(&logits[size_t{i} * vocabulary], vocabulary);
        digest.add(one);
        if (settings.on_logits && !settings.on_logits(position, one))
          return fail(ErrorCode::cancelled, "scoring");
        if (position + 1 >= ids.size()) continue;
        out.logprobs.push_back(row_logprob[i]);
        sum += row_logprob[i];
      }
    }
  }
  if (!out.logprobs.empty())
    out.perplexity = std::exp(-sum / static_cast<double>(out.logprobs.size()));
  out.digest = digest.hex();
  return out;
}

}  // namespace gyre::engine
