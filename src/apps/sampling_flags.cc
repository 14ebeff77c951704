#include "apps/sampling_flags.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace gyre::apps {
namespace {

using nlohmann::json;

constexpr const char* kIgnoreEos = "--ignore-eos";
constexpr const char* kNames[] = {"--temp",
                                  "--top-k",
                                  "--top-p",
                                  "--min-p",
                                  "--typical",
                                  "--top-n-sigma",
                                  "--xtc-probability",
                                  "--xtc-threshold",
                                  "--dry-multiplier",
                                  "--repeat-penalty",
                                  "--presence-penalty",
                                  "--frequency-penalty",
                                  "--repeat-last-n",
                                  "--samplers",
                                  "--seed"};

// The shortest text that reads back as the same number.
std::string spell(double value) {
  return json(value).dump();
}

}  // namespace

void SamplingFlags::add_to(Flags& flags) {
  flags.toggle(kIgnoreEos, &ignore_eos, "go on behind the end token")
      .real("--temp", &temperature, 0.0, 1e4, "temperature; 0 = greedy (0.8)")
      .integer("--top-k", &top_k, 0, 1 << 30, "keep the k likeliest; 0 = all (40)")
      .real("--top-p", &top_p, 0.0, 1.0, "keep this share of probability (0.95)")
      .real("--min-p", &min_p, 0.0, 1.0, "drop what is below this share of the best (0.05)")
      .real("--typical", &typical, 0.0, 1.0, "locally typical share (1 = off)")
      .real("--top-n-sigma", &top_n_sigma, 0.0, 1e4, "keep within n deviations (off)")
      .real("--xtc-probability", &xtc_probability, 0.0, 1.0, "exclude top choices (0)")
      .real("--xtc-threshold", &xtc_threshold, 0.0, 1.0, "threshold of a top choice (0.1)")
      .real("--dry-multiplier", &dry_multiplier, 0.0, 1e4, "DRY repetition penalty (0)")
      .real("--repeat-penalty", &repetition, 1e-3, 1e3, "repetition penalty (1 = off)")
      .real("--presence-penalty", &presence, -1e3, 1e3, "presence penalty (0)")
      .real("--frequency-penalty", &frequency, -1e3, 1e3, "frequency penalty (0)")
      .integer("--repeat-last-n", &penalty_last, -1, 1 << 30, "tokens that penalties read (64)")
      .text("--samplers", &order, "order of the sampling steps, separated by ;")
      .optional_integer("--seed", &seed, "seed of the draws (random, and reported)");
}

Result<sampling::SamplerParams> SamplingFlags::params() const {
  sampling::SamplerParams params;
  params.temperature = static_cast<float>(temperature);
  params.top_k = static_cast<int>(top_k);
  params.top_p = static_cast<float>(top_p);
  params.min_p = static_cast<float>(min_p);
  params.typical_p = static_cast<float>(typical);
  params.top_n_sigma = static_cast<float>(top_n_sigma);
  params.xtc_probability = static_cast<float>(xtc_probability);
  params.xtc_threshold = static_cast<float>(xtc_threshold);
  params.dry_multiplier = static_cast<float>(dry_multiplier);
  params.repetition_penalty = static_cast<float>(repetition);
  params.presence_penalty = static_cast<float>(presence);
  params.frequency_penalty = static_cast<float>(frequency);
  params.penalty_last_n = static_cast<int>(penalty_last);
  params.seed = seed;
  if (!order.empty()) {
    GYRE_ASSIGN(params.order, sampling::parse_order(order));
  }
  GYRE_TRY(sampling::validate(params, size_t{1} << 23));
  return params;
}

std::string SamplingFlags::note(uint64_t used_seed) const {
  const std::string values[] = {spell(temperature),
                                std::to_string(top_k),
                                spell(top_p),
                                spell(min_p),
                                spell(typical),
                                spell(top_n_sigma),
                                spell(xtc_probability),
                                spell(xtc_threshold),
                                spell(dry_multiplier),
                                spell(repetition),
                                spell(presence),
                                spell(frequency),
                                std::to_string(penalty_last),
                                order,
                                std::to_string(used_seed)};
  static_assert(sizeof values / sizeof *values == std::size(kNames));
  json words = json::array();
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (values[i].empty()) continue;
    words.push_back(kNames[i]);
    words.push_back(values[i]);
  }
  if (ignore_eos) words.push_back(kIgnoreEos);
  return words.dump(-1, ' ', true);
}

Status SamplingFlags::recall(const std::string& note, Flags& flags) {
  const auto refuse = [&](const std::string& value) {
    return fail(ErrorCode::bad_file, "state file's note", value, "the sampler's settings");
  };
  const json root = json::parse(note, nullptr, false);
  if (!root.is_array()) return refuse(note.substr(0, 60));
  std::vector<std::string> words;
  for (const json& word : root) {
    if (!word.is_string()) return refuse(note.substr(0, 60));
    words.push_back(word.get<std::string>());
  }
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kIgnoreEos) continue;
    const bool known =
        std::find(std::begin(kNames), std::end(kNames), words[i]) != std::end(kNames);
    if (!known || ++i == words.size()) return refuse(words[std::min(i, words.size() - 1)]);
  }
  const Status parsed = flags.parse(words);
  if (!parsed.ok()) return Error{ErrorCode::bad_file, "state file's note: " + parsed.error().text};
  return {};
}

}  // namespace gyre::apps
