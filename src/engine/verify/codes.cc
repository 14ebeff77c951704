// Every scheme by chunks, and every code's kernels by instruction set.
#include <algorithm>

#include "engine/verify/verifier.h"

namespace gyre::engine::verification {
namespace {
// A scalar dot over codes is slow; the first page and some of the second are enough.
constexpr uint32_t kQuickScalarPositions = 72, kScalarPositions = 140;
constexpr uint32_t kQuickPositions = 100, kPositions = 200;
}  // namespace

// The same text in other chunks: codes are made when a row is written, anchors and delayed starts
// come in the middle of a chunk.
Status Verifier::schemes() {
  VerifyAxis axis{.name = "schemes"};
  GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*loaded_, size(), 1));
  const TestScheme bf16{"bf16", kv::KvScheme()};
  GYRE_ASSIGN(const std::string uncoded, expected(bf16, 0, size()));
  bool all_coded = true;
  for (const TestScheme& scheme : schemes_) {
    const Result<std::string> wanted = expected(scheme, 0, size());
    std::vector<uint32_t> chunks{37};
    if (!settings_.quick) chunks.insert(chunks.end(), {64, size()});
    for (const uint32_t chunk : chunks)
      GYRE_TRY(compare(axis, scheme.name + " by " + std::to_string(chunk),
                       digest_of(*run, scheme.scheme, ids_, chunk), wanted));
    const std::span<const TokenId> head = text(0, settings_.quick ? 70 : 140);
    GYRE_TRY(compare(axis, scheme.name + " by 1", digest_of(*run, scheme.scheme, head, 1),
                     expected(scheme, 0, static_cast<uint32_t>(head.size()))));
    // A code leaves its mark on the bits.
    if (scheme.scheme != bf16.scheme) all_coded &= *wanted != uncoded;
  }
  axis.exercised = all_coded;
  finish(std::move(axis));
  return {};
}

// Attention of each instruction set under the fastest one's other operators. A delayed start has no
// kernels of its own.
Status Verifier::kernels() {
  VerifyAxis axis{.name = "kv kernels"};
  for (const gyre::kernels::Isa isa : gyre::kernels::available_isas()) {
    const bool scalar = isa == gyre::kernels::Isa::scalar;
    RunnerSettings settings;
    settings.max_tokens = kChunk;
    settings.context = std::min<uint32_t>(loaded_->model().info().context, size() + 64);
    settings.attention = &gyre::kernels::attention_ops(isa);
    GYRE_ASSIGN(const std::unique_ptr<Runner> run, Runner::make(*loaded_, settings));
    const uint32_t most = settings_.quick ? (scalar ? kQuickScalarPositions : kQuickPositions)
                                          : (scalar ? kScalarPositions : kPositions);
    const uint32_t count = std::min(most, size());
    for (const TestScheme& scheme : schemes_) {
      if (scheme.scheme.start() != 0 && schemes_.size() > 1) continue;
      GYRE_TRY(compare(axis, scheme.name + " on " + std::string(gyre::kernels::isa_name(isa)),
                       digest_of(*run, scheme.scheme, text(0, count), kChunk),
                       expected(scheme, 0, count)));
    }
  }
  axis.exercised = axis.cases >= 2;
  finish(std::move(axis));
  return {};
}

}  // namespace gyre::engine::verification
