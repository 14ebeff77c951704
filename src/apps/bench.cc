// gyre bench: prefill and decode speed of a model.

#include <cstdio>

#include "apps/commands.h"
#include "apps/common.h"
#include "engine/bench.h"

namespace gyre::apps {

Result<int> run_bench(const Arguments& arguments) {
  ModelFlags model;
  int64_t prompt = 512, generate = 128, repeats = 3;
  std::string batches = "1";
  Flags flags("bench");
  model.add_to(flags);
  flags.integer("--prompt", &prompt, 0, 1 << 20, "tokens of the prefill test (512); 0 = none")
      .integer("--gen", &generate, 0, 1 << 20, "tokens of the decode test (128); 0 = none")
      .text("--batch", &batches, "streams decoded together, a list (1)")
      .integer("--repeats", &repeats, 1, 1000, "runs of each test; the best counts (3)");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  engine::BenchSettings settings;
  GYRE_ASSIGN(settings.scheme, model.scheme());
  settings.prompt = static_cast<uint32_t>(prompt);
  settings.generate = static_cast<uint32_t>(generate);
  settings.repeats = static_cast<uint32_t>(repeats);
  settings.batches.clear();
  auto list = parse_ids(batches, 4097);
  if (!list || list->empty() || std::count(list->begin(), list->end(), 0) != 0)
    return fail(ErrorCode::usage, "--batch", batches, "numbers from 1 to 4096");
  settings.batches.assign(list->begin(), list->end());
  GYRE_ASSIGN(const std::unique_ptr<engine::Loaded> loaded, load(model));
  GYRE_ASSIGN(const engine::BenchReport report, engine::bench(*loaded, settings));
  const std::string isa(kernels::isa_name(loaded->backend().isa));
  if (model.json) {
    Json decode = Json::object();
    for (const auto& [batch, speed] : report.decode_tokens_per_s)
      decode[std::to_string(batch)] = speed;
    print_json({{"isa", isa},
                {"scheme", settings.scheme.cache_key()},
                {"threads", loaded->pool().size()},
                {"load_ms", loaded->load_ms()},
                {"prefill_tokens_per_s", report.prefill_tokens_per_s},
                {"decode_tokens_per_s", decode},
                {"read_gb_per_s", report.read_gb_per_s},
                {"measured_read_gb_per_s", report.measured_read_gb_per_s}});
    return 0;
  }
  std::printf("%s, %d threads, %s, load %.0f ms\nprefill %lld: %.0f tokens/s\n", isa.c_str(),
              loaded->pool().size(), settings.scheme.cache_key().c_str(), loaded->load_ms(),
              static_cast<long long>(prompt), report.prefill_tokens_per_s);
  for (const auto& [batch, speed] : report.decode_tokens_per_s)
    std::printf("decode %lld, batch %u: %.1f tokens/s\n", static_cast<long long>(generate), batch,
                speed);
  std::printf("weights read at %.1f GB/s of %.1f GB/s measured\n", report.read_gb_per_s,
              report.measured_read_gb_per_s);
  return 0;
}

}  // namespace gyre::apps
