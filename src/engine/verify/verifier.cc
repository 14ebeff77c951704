#include "engine/verify.h"

#include <algorithm>
#include <cstdlib>

#include "engine/runner.h"
#include "engine/score.h"
#include "numerics/philox.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

constexpr uint32_t kLogitStride = 16;
constexpr uint32_t kChunk = 256;
constexpr uint32_t kScalarPositions = 24, kQuickScalarPositions = 8;

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

// One row's digest, fed in order of positions whatever the steps were.
class RowDigest {
 public:
  RowDigest(uint32_t total, uint32_t vocabulary) : total_(total), logits_(vocabulary) {}

  Status add(Runner& runner, uint32_t first_token, uint32_t count, uint32_t first_position) {
    const uint32_t dim = runner.loaded().model().info().dim;
    for (uint32_t i = 0; i < count; ++i) {
      digest_.add({runner.hidden(first_token + i), dim});
      const uint32_t position = first_position + i;
      if (position % kLogitStride != 0 && position + kLogitStride < total_) continue;
      uint8_t not_finite = 0;
      runner.logits(first_token + i, 1, logits_.data(), &not_finite);
      if (not_finite != 0)
        return fail(ErrorCode::non_finite, "logits of position", std::to_string(position));
      digest_.add(logits_);
      varied_ |= std::any_of(logits_.begin(), logits_.end(),
                             [&](float x) { return x != logits_.front(); });
    }
    return {};
  }
  std::string hex() const { return digest_.hex(); }
  bool varied() const { return varied_; }  // logits are not constant

 private:
  uint32_t total_;
  bool varied_ = false;
  std::vector<float> logits_;
  Digest digest_;
};

class Verifier {
 public:
  explicit Verifier(const VerifySettings& settings) : settings_(settings) {}

  Result<VerifyReport> run();

 private:
  Result<std::string> digest_of(Runner& runner, std::span<const TokenId> ids, uint32_t chunk);
  Result<std::string> digest_with(const LoadSettings& load, std::span<const TokenId> ids);
  Status compare(VerifyAxis& axis, const std::string& what, Result<std::string> digest,
                 Result<std::string> expected);
  Status chunks();
  Status neighbours();
  Status threads();
  Status isas();
  Status placement();
  Status packing();
  Result<std::unique_ptr<Runner>> runner(Loaded& loaded, uint32_t max_tokens, uint32_t rows,
                                         uint64_t placement_seed = 0);
  void finish(VerifyAxis axis) { report_.axes.push_back(std::move(axis)); }
  uint32_t chunk_cap() const { return static_cast<uint32_t>(ids_.size()); }

  const VerifySettings& settings_;
  std::unique_ptr<Loaded> loaded_;
  std::vector<TokenId> ids_;
  VerifyReport report_;
};

Result<std::unique_ptr<Runner>> Verifier::runner(Loaded& loaded, uint32_t max_tokens, uint32_t rows,
                                                 uint64_t placement_seed) {
  RunnerSettings settings;
  settings.max_tokens = max_tokens;
  settings.max_rows = rows;
  settings.context = std::min<uint32_t>(loaded.model().info().context, chunk_cap() + 64);
  settings.placement_seed = placement_seed;
  return Runner::make(loaded, settings);
}

Result<std::string> Verifier::digest_of(Runner& runner, std::span<const TokenId> ids,
                                        uint32_t chunk) {
  GYRE_ASSIGN(kv::Sequence row, runner.open_row());
  RowDigest digest(static_cast<uint32_t>(ids.size()), runner.vocabulary());
  for (uint32_t done = 0; done < ids.size();) {
    const uint32_t n = std::min<uint32_t>(chunk, static_cast<uint32_t>(ids.size()) - done);
    const RowTokens tokens{&row, ids.subspan(done, n)};
    GYRE_TRY(runner.step({&tokens, 1}));
    if (!runner.row_is_finite(0))
      return fail(ErrorCode::non_finite, "position", std::to_string(done), "finite values");
    GYRE_TRY(digest.add(runner, 0, n, done));
    done += n;
  }
  if (!digest.varied()) return fail(ErrorCode::internal, "logits", "constant", "varied values");
  return digest.hex();
}

Result<std::string> Verifier::digest_with(const LoadSettings& load, std::span<const TokenId> ids) {
  GYRE_ASSIGN(std::unique_ptr<Loaded> other, Loaded::open(load));
  GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*other, kChunk, 1));
  return digest_of(*run, ids, kChunk);
}

Status Verifier::compare(VerifyAxis& axis, const std::string& what, Result<std::string> digest,
                         Result<std::string> expected) {
  if (!digest) return std::move(digest).error();
  if (!expected) return std::move(expected).error();
  const bool same = *digest == *expected;
  axis.equal &= same;
  ++axis.cases;
  axis.evidence += (axis.evidence.empty() ? "" : ", ") + what + (same ? "" : " DIFFERS");
  if (settings_.progress) settings_.progress(axis.name, what + (same ? " equal" : " DIFFERS"));
  return {};
}

// Prefill chunks: the same text in steps of 1, 3, 64, 511 tokens, and whole.
Status Verifier::chunks() {
  VerifyAxis axis{.name = "chunk"};
  std::vector<uint32_t> sizes{3, 64, 511};
  if (!settings_.quick) sizes.insert(sizes.begin(), 1);
  sizes.push_back(chunk_cap());
  GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*loaded_, chunk_cap(), 1));
  for (uint32_t size : sizes) {
    const uint32_t chunk = std::min(size, chunk_cap());
    GYRE_TRY(compare(axis, std::to_string(chunk), digest_of(*run, ids_, chunk), report_.digest));
  }
  if (settings_.quick) {  // decode token by token over the first positions only
    const std::span<const TokenId> head(ids_.data(), 48);
    GYRE_TRY(
        compare(axis, "1 (48 positions)", digest_of(*run, head, 1), digest_of(*run, head, 48)));
  }
  axis.exercised = axis.cases >= 4 && ids_.size() > kChunk;
  finish(std::move(axis));
  return {};
}

// Rows of different lengths side by side in one step, each fed at its own pace.
Status Verifier::neighbours() {
  VerifyAxis axis{.name = "neighbours"};
  uint32_t largest_step = 0;
  for (uint32_t rows : {2u, 7u, 33u}) {
    if (settings_.quick && rows == 33) continue;
    GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*loaded_, 1024, rows));
    GYRE_ASSIGN(std::unique_ptr<Runner> alone, runner(*loaded_, kChunk, 1));
    // Row r holds ids[r ..] with its own length; row 0 is the longest.
    std::vector<std::span<const TokenId>> texts;
    std::vector<std::unique_ptr<RowDigest>> digests;
    std::vector<kv::Sequence> sequences;
    const uint32_t longest = rows > 7 ? 96 : chunk_cap() / 2;
    for (uint32_t r = 0; r < rows; ++r) {
      const uint32_t length = std::max<uint32_t>(20, longest - r * (longest / (rows + 1)));
      texts.push_back(std::span<const TokenId>(ids_).subspan(r, length));
      digests.push_back(std::make_unique<RowDigest>(length, run->vocabulary()));
      GYRE_ASSIGN(kv::Sequence sequence, run->open_row());
      sequences.push_back(std::move(sequence));
    }
    std::vector<uint32_t> done(rows, 0), owner;
    for (uint32_t round = 0;; ++round) {
      std::vector<RowTokens> step;
      owner.clear();
      for (uint32_t r = 0; r < rows; ++r) {
        // A different number of tokens for each row and round, 1 to 24.
        const uint32_t pace = 1 + static_cast<uint32_t>(numerics::random_bits(2, r, round, 0) % 24);
        const uint32_t n =
            std::min<uint32_t>(pace, static_cast<uint32_t>(texts[r].size()) - done[r]);
        if (n == 0) continue;
        step.push_back({&sequences[r], texts[r].subspan(done[r], n)});
        owner.push_back(r);
      }
      if (step.empty()) break;
      largest_step = std::max(largest_step, static_cast<uint32_t>(step.size()));
      GYRE_TRY(run->step(step));
      uint32_t token = 0;
      for (size_t s = 0; s < step.size(); ++s) {
        const uint32_t n = static_cast<uint32_t>(step[s].tokens.size());
        GYRE_TRY(digests[owner[s]]->add(*run, token, n, done[owner[s]]));
        done[owner[s]] += n;
        token += n;
      }
    }
    // Every row of the small groups, a sample of the large one, against the row alone.
    for (uint32_t r = 0; r<rows; r += rows> 7 ? 8 : 1)
      GYRE_TRY(compare(axis, "row " + std::to_string(r) + " of " + std::to_string(rows),
                       digests[r]->hex(), digest_of(*alone, texts[r], kChunk)));
  }
  axis.exercised = largest_step >= (settings_.quick ? 7u : 33u);
  finish(std::move(axis));
  return {};
}

Status Verifier::threads() {
  VerifyAxis axis{.name = "threads"};
  for (int threads : {1, 2, 3}) {
    LoadSettings load = settings_.load;
    load.threads = threads;
    GYRE_TRY(compare(axis, std::to_string(threads), digest_with(load, ids_), report_.digest));
  }
  axis.exercised = axis.cases == 3;
  finish(std::move(axis));
  return {};
}

Status Verifier::isas() {
  VerifyAxis axis{.name = "isa"};
  const uint32_t scalar_positions = settings_.quick ? kQuickScalarPositions : kScalarPositions;
  const std::span<const TokenId> head(ids_.data(), scalar_positions);
  for (kernels::Isa isa : kernels::available_isas()) {
    LoadSettings load = settings_.load;
    load.isa = std::string(kernels::isa_name(isa));
    if (isa == kernels::Isa::scalar) {
      GYRE_TRY(compare(axis, load.isa + " (" + std::to_string(head.size()) + " positions)",
                       digest_with(load, head), digest_with(settings_.load, head)));
    } else {
      GYRE_TRY(compare(axis, load.isa, digest_with(load, ids_), report_.digest));
    }
  }
  axis.exercised = axis.cases >= 2;
  finish(std::move(axis));
  return {};
}

Status Verifier::placement() {
  VerifyAxis axis{.name = "placement"};
  for (uint64_t seed : {1u, 2u}) {
    GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*loaded_, kChunk, 2, seed));
    GYRE_ASSIGN(kv::Sequence other, run->open_row());  // takes pages in between
    const RowTokens first{&other, std::span<const TokenId>(ids_).subspan(0, 65)};
    GYRE_TRY(run->step({&first, 1}));
    GYRE_TRY(
        compare(axis, "seed " + std::to_string(seed), digest_of(*run, ids_, 64), report_.digest));
  }
  axis.exercised = axis.cases == 2 && ids_.size() > 2 * kernels::kPagePositions;
  finish(std::move(axis));
  return {};
}

// Weights packed at load, then written to and mapped from a pack cache.
Status Verifier::packing() {
  VerifyAxis axis{.name = "pack"};
  GYRE_ASSIGN(const os::TemporaryFolder folder, os::TemporaryFolder::make("gyre-verify"));
  LoadSettings load = settings_.load;
  load.pack_cache = folder.path();
  bool mapped = false;
  for (const char* what : {"written", "mapped"}) {
    GYRE_ASSIGN(std::unique_ptr<Loaded> other, Loaded::open(load));
    mapped = other->model().weights().from_cache();
    GYRE_ASSIGN(std::unique_ptr<Runner> run, runner(*other, kChunk, 1));
    GYRE_TRY(compare(axis, what, digest_of(*run, ids_, kChunk), report_.digest));
  }
  axis.exercised = mapped;
  finish(std::move(axis));
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
  report_.scheme = "bf16";
  report_.positions = static_cast<uint32_t>(ids_.size());
  GYRE_ASSIGN(std::unique_ptr<Runner> base, runner(*loaded_, kChunk, 1));
  GYRE_ASSIGN(report_.digest, digest_of(*base, ids_, kChunk));
  base.reset();
  GYRE_TRY(chunks());
  GYRE_TRY(neighbours());
  GYRE_TRY(threads());
  GYRE_TRY(isas());
  GYRE_TRY(placement());
  if (loaded_->backend().packs()) GYRE_TRY(packing());
  return std::move(report_);
}

}  // namespace

bool VerifyReport::ok() const {
  return !axes.empty() && std::all_of(axes.begin(), axes.end(), [](const VerifyAxis& axis) {
    return axis.equal && axis.exercised && axis.cases > 0;
  });
}

Result<VerifyReport> verify(const VerifySettings& settings) {
  return Verifier(settings).run();
}

}  // namespace gyre::engine
