#include "engine/loaded.h"

#include <chrono>
#include <future>

#include "base/fp_env.h"
#include "os/cpu.h"

namespace gyre::engine {

double now_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

Result<std::unique_ptr<Loaded>> Loaded::open(const LoadSettings& settings) {
  const double start = now_seconds();
  if (!float_environment_is_sound())
    return fail(ErrorCode::internal, "floating-point environment", "contracted or flushing",
                "IEEE-754 binary32, one rounding per operation");
  GYRE_ASSIGN(const kernels::Isa isa, kernels::choose_isa(settings.isa));
  auto loaded = std::make_unique<Loaded>();
  GYRE_ASSIGN(loaded->source_, loaders::open_weights(settings.path));
  const int threads = settings.threads > 0 ? settings.threads : os::usable_threads();
  loaded->pool_ = std::make_unique<ThreadPool>(threads);
  loaded->backend_ = settings.oracle ? nn::make_oracle_backend(loaded->pool_.get())
                                     : nn::make_backend(isa, loaded->pool_.get());
  // The vocabulary is read while the weights are packed, where there is a second core.
  auto make_tokenizer = [&source = *loaded->source_] { return text::Tokenizer::make(source); };
  auto tokenizer =
      std::async(threads > 1 ? std::launch::async : std::launch::deferred, make_tokenizer);
  models::LoadOptions options{settings.pack_cache, settings.progress};
  auto model = models::load_model(*loaded->source_, loaded->backend_, options);
  auto made = tokenizer.get();
  if (!model) return std::move(model).error();
  if (!made) return std::move(made).error();
  loaded->model_ = std::move(*model);
  loaded->tokenizer_ = std::move(*made);
  if (loaded->tokenizer_->size() > static_cast<int64_t>(loaded->model_->info().vocabulary))
    return fail(ErrorCode::bad_file, "tokenizer.ggml.tokens",
                std::to_string(loaded->tokenizer_->size()),
                "at most the embedding's " + std::to_string(loaded->model_->info().vocabulary));
  loaded->load_ms_ = (now_seconds() - start) * 1e3;
  return loaded;
}

}  // namespace gyre::engine
