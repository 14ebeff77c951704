#include "engine/verify/verifier.h"

#include <algorithm>

#include "kv/scheme_places.h"
#include "numerics/philox.h"

namespace gyre::engine {
namespace verification {
namespace {

// Ordinary prose, so that a real model's values are of ordinary size.
constexpr const char* kText =
    "A river does not ask the sea how deep it is. It begins somewhere high and cold, as a thread "
    "of "
    "water between two stones, and it goes on. By noon the thread is a brook; children build dams "
    "of clay across it, 3 or 4 at a time, and by evening every dam is gone. \"Where does it all "
    "come "
    "from?\" asked the youngest. Her brother counted on his fingers: rain, snow, springs, dew - "
    "and "
    "the rest, he said, is patience. Further down there are mills (two of them still grind), a "
    "town "
    "with seven bridges, and a weir where the salmon wait in October. The miller's log for 1893 "
    "says: "
    "water 1.72 m, wind NE, 14 sacks, no visitors. Nothing in it says that the miller was happy, "
    "but "
    "the handwriting is round and even, and the ink has hardly faded.\n";

std::vector<TokenId> make_tokens(Loaded& loaded, uint32_t count) {
  std::vector<TokenId> words = loaded.tokenizer().encode(kText, {.add_special = false});
  std::vector<TokenId> ids = loaded.tokenizer().encode(kText);
  const uint32_t vocabulary = loaded.model().info().vocabulary;
  if (words.empty()) words.push_back(0);
  // Past the text: its words in an order that never repeats.
  for (uint64_t i = 0; ids.size() < count; ++i)
    ids.push_back(words[numerics::random_bits(1, 0, i, 0) % words.size()]);
  ids.resize(count);
  for (TokenId& id : ids) id = std::min<TokenId>(id, static_cast<TokenId>(vocabulary) - 1);
  return ids;
}

// A code for each cache in turn, rotated ones on sliding layers too: what no single key can say.
Result<kv::KvScheme> mixed_scheme(std::span<const kv::LayerShape> layers) {
  std::vector<kv::KvConfigEntry> entries;
  const char* const names[] = {"turbo-k8v4", "kv4-g32", "anchor-k4v4", "bf16", "kv6-g32"};
  for (size_t cache = 0; cache < kv::cache_list(layers).size(); ++cache) {
    GYRE_ASSIGN(const kv::LayerCode code, kv::parse_layer_code(names[cache % std::size(names)]));
    entries.push_back({static_cast<int64_t>(cache), code});
  }
  return kv::KvScheme::affine_config(std::move(entries));
}

}  // namespace

Verifier::Runners Verifier::runner(Loaded& loaded, uint32_t max_tokens, uint32_t rows,
                                   uint64_t placement_seed) {
  RunnerSettings settings;
  settings.max_tokens = max_tokens;
  settings.max_rows = rows;
  settings.context = std::min<uint32_t>(loaded.model().info().context, size() + 64);
  settings.placement_seed = placement_seed;
  return Runner::make(loaded, settings);
}

Result<std::string> Verifier::digest_of(Runner& run, const kv::KvScheme& scheme,
                                        std::span<const TokenId> text, uint32_t chunk) {
  GYRE_ASSIGN(TestRow row, open_test_row(run, scheme, text));
  GYRE_TRY(feed_until(run, row, row.left(), chunk));
  if (!row.digest.varied()) return fail(ErrorCode::internal, "logits", "constant", "varied values");
  return row.digest.hex();
}

Result<std::string> Verifier::digest_with(const LoadSettings& load, std::span<const TokenId> text) {
  GYRE_ASSIGN(const std::unique_ptr<Loaded> other, Loaded::open(load));
  GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*other, kChunk, 1));
  return digest_of(*run, first_scheme().scheme, text, kChunk);
}

Result<std::string> Verifier::expected(const TestScheme& scheme, uint32_t first, uint32_t length) {
  const auto key = std::tuple(scheme.name, first, length);
  if (const auto found = expected_.find(key); found != expected_.end()) return found->second;
  GYRE_ASSIGN(std::string digest, digest_of(*alone_, scheme.scheme, text(first, length), kChunk));
  expected_[key] = digest;
  return digest;
}

void Verifier::note(VerifyAxis& axis, const std::string& what, bool same) {
  axis.equal &= same;
  ++axis.cases;
  axis.evidence += (axis.evidence.empty() ? "" : ", ") + what + (same ? "" : " DIFFERS");
  if (settings_.progress) settings_.progress(axis.name, what + (same ? " equal" : " DIFFERS"));
}

Status Verifier::compare(VerifyAxis& axis, const std::string& what,
                         const Result<std::string>& digest, const Result<std::string>& wanted) {
  if (!digest) return digest.error();
  if (!wanted) return wanted.error();
  note(axis, what, *digest == *wanted);
  return {};
}

// The scheme asked for, or all of the list that the model can have.
Status Verifier::choose_schemes() {
  const std::vector<kv::LayerShape> layers = kv::layer_shapes(loaded_->model().places());
  if (settings_.scheme) {
    GYRE_TRY(settings_.scheme->check(layers));
    schemes_.push_back({settings_.scheme->cache_key(), *settings_.scheme});
    return {};
  }
  for (const char* key :
       {"bf16", "kv8", "kv4", "kv4-g32", "config", "turbo-k8v4", "turbo-k8v3", "anchor-k4v4",
        "kv8-start100", "turbo-k8v4-start64", "anchor-k4v4-start130"}) {
    auto scheme = std::string_view(key) == "config" ? mixed_scheme(layers)
                                                    : kv::KvScheme::parse(key, nullptr);
    if (!scheme) return std::move(scheme).error();
    const Status fits = scheme->check(layers);
    if (fits.ok()) {
      schemes_.push_back({key, *scheme});
    } else {
      report_.refused.emplace_back(key, fits.error().text);
    }
  }
  return {};
}

Status Verifier::base_digests() {
  for (const TestScheme& scheme : schemes_) {
    GYRE_ASSIGN(const std::string digest, expected(scheme, 0, size()));
    report_.digests.emplace_back(scheme.name, digest);
    if (settings_.progress) settings_.progress("digest", scheme.name + " " + digest);
  }
  return {};
}

Result<VerifyReport> Verifier::run() {
  GYRE_ASSIGN(loaded_, Loaded::open(settings_.load));
  const models::ModelInfo& info = loaded_->model().info();
  // More than 200 tokens and three windows.
  const uint32_t wanted = std::max(settings_.quick ? 300u : 640u, 3 * info.window + 40);
  if (info.context < 220)
    return fail(ErrorCode::unsupported, "context length", std::to_string(info.context),
                "at least 220 to verify");
  ids_ = make_tokens(*loaded_, std::min(wanted, info.context));
  report_.model = settings_.load.path;
  report_.positions = size();
  GYRE_TRY(choose_schemes());
  GYRE_ASSIGN(alone_, runner(*loaded_, kChunk, 1));
  GYRE_TRY(base_digests());
  GYRE_TRY(chunks());
  GYRE_TRY(neighbours());
  GYRE_TRY(threads());
  GYRE_TRY(isas());
  GYRE_TRY(placement());
  if (loaded_->backend().packs()) GYRE_TRY(packing());
  GYRE_TRY(schemes());
  GYRE_TRY(kernels());
  GYRE_TRY(membership());
  if (info.window > 0) GYRE_TRY(ring());
  GYRE_TRY(rollback());
  GYRE_TRY(clones());
  GYRE_TRY(restores());
  return std::move(report_);
}

}  // namespace verification

bool VerifyReport::ok() const {
  return !axes.empty() && std::all_of(axes.begin(), axes.end(), [](const VerifyAxis& axis) {
    return axis.equal && axis.exercised && axis.cases > 0;
  });
}

Result<VerifyReport> verify(const VerifySettings& settings) {
  return verification::Verifier(settings).run();
}

}  // namespace gyre::engine
