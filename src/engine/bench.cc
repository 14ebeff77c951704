#include "engine/bench.h"

#include <algorithm>
#include <atomic>

namespace gyre::engine {
namespace {

constexpr size_t kReadBytes = size_t{192} << 20, kReadItem = size_t{256} << 10;
constexpr size_t kReadAhead = 6144;  // as the kernels prefetch

std::vector<TokenId> some_ids(uint32_t count, uint32_t vocabulary) {
  std::vector<TokenId> ids(count);
  for (uint32_t i = 0; i < count; ++i)
    ids[i] = static_cast<TokenId>((uint64_t{i} * 7919 + 1234) % vocabulary);
  return ids;
}

constexpr uint32_t kPrefillRuns = 3;

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The weights of one decode step: every matrix once, one row of the embedding (unless it is the
// head as well).
uint64_t step_bytes(Loaded& loaded) {
  uint64_t bytes = loaded.source().file_bytes();
  const loaders::TensorInfo* embedding = loaded.source().find("token_embd.weight");
  if (loaded.source().find("output.weight") != nullptr && embedding != nullptr)
    bytes -= embedding->bytes;
  return bytes;
}

Result<double> measure_read(ThreadPool& pool) {
  GYRE_ASSIGN(os::Pages pages, os::Pages::make(kReadBytes, os::Pages::Huge::yes, "read test"));
  pool.run(kReadBytes / kReadItem, [&](size_t item, int) {
    std::fill_n(pages.data() + item * kReadItem, kReadItem, std::byte{1});
  });
  double best_seconds = 1e9;
  std::atomic<uint64_t> sink{0};
  for (int repeat = 0; repeat < 10; ++repeat) {
    const size_t ahead = repeat % 2 == 0 ? kReadAhead / 8 : 0;  // processors differ
    const double start = now_seconds();
    pool.run(kReadBytes / kReadItem, [&, ahead](size_t item, int) {
      const auto* words = reinterpret_cast<const uint64_t*>(pages.data() + item * kReadItem);
      uint64_t sum = 0;
      for (size_t i = 0; i < kReadItem / 8; i += 8) {  // one word of each line
        if (ahead != 0) __builtin_prefetch(words + i + ahead);
        sum ^= words[i];
      }
      sink ^= sum;
    });
    best_seconds = std::min(best_seconds, now_seconds() - start);
  }
  return kReadBytes / best_seconds / 1e9;
}

Result<double> measure_prefill(Loaded& loaded, const BenchSettings& settings) {
  RunnerSettings runner_settings;
  runner_settings.scheme = settings.scheme;
  runner_settings.max_tokens = std::min(settings.prompt, 512u);
  GYRE_ASSIGN(const std::unique_ptr<Runner> runner, Runner::make(loaded, runner_settings));
  const std::vector<TokenId> ids = some_ids(settings.prompt, runner->vocabulary());
  double best_seconds = 1e9;
  // The first warms up. A prefill is short: a shared host's slow moments would cover a single one.
  const uint32_t runs = std::max(settings.repeats, kPrefillRuns);
  for (uint32_t repeat = 0; repeat < runs + 1; ++repeat) {
    GYRE_ASSIGN(kv::Sequence row, runner->open_row());
    const double start = now_seconds();
    for (size_t done = 0; done < ids.size(); done += runner->step_tokens()) {
      const RowTokens tokens{
          &row, std::span(ids).subspan(done, std::min<size_t>(512, ids.size() - done))};
      GYRE_TRY(runner->step({&tokens, 1}));
    }
    runner->compute_last_logits();
    if (repeat > 0) best_seconds = std::min(best_seconds, now_seconds() - start);
  }
  return settings.prompt / best_seconds;
}

Result<double> measure_decode(Loaded& loaded, const BenchSettings& settings, uint32_t batch) {
  RunnerSettings runner_settings;
  runner_settings.scheme = settings.scheme;
  runner_settings.max_tokens = std::max(batch, 16u);
  runner_settings.max_rows = batch;
  GYRE_ASSIGN(const std::unique_ptr<Runner> runner, Runner::make(loaded, runner_settings));
  double best_seconds = 1e9;
  for (uint32_t repeat = 0; repeat < settings.repeats; ++repeat) {
    std::vector<kv::Sequence> rows;
    std::vector<TokenId> next = some_ids(batch, runner->vocabulary());
    for (uint32_t r = 0; r < batch; ++r) {
      GYRE_ASSIGN(kv::Sequence row, runner->open_row());
      rows.push_back(std::move(row));
    }
    std::vector<RowTokens> step(batch);
    const double start = now_seconds();
    for (uint32_t i = 0; i < settings.generate; ++i) {
      for (uint32_t r = 0; r < batch; ++r) step[r] = {&rows[r], {&next[r], 1}};
      GYRE_TRY(runner->step(step));
      runner->compute_last_logits();
      for (uint32_t r = 0; r < batch; ++r) next[r] = best(runner->last_logits(r));
    }
    best_seconds = std::min(best_seconds, now_seconds() - start);
  }
  return settings.generate * batch / best_seconds;
}

}  // namespace

Result<BenchReport> bench(Loaded& loaded, const BenchSettings& settings) {
  BenchReport report;
  if (settings.prompt > 0) {
    GYRE_ASSIGN(report.prefill_tokens_per_s, measure_prefill(loaded, settings));
  }
  for (const uint32_t batch : settings.batches) {
    if (settings.generate == 0) break;
    GYRE_ASSIGN(report.decode_tokens_per_s[batch], measure_decode(loaded, settings, batch));
  }
  GYRE_ASSIGN(report.measured_read_gb_per_s, measure_read(loaded.pool()));
  if (const auto one = report.decode_tokens_per_s.find(1); one != report.decode_tokens_per_s.end())
    report.read_gb_per_s = one->second * static_cast<double>(step_bytes(loaded)) / 1e9;
  return report;
}

}  // namespace gyre::engine
