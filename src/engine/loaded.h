// A model ready to run: file, tokenizer, weights, instruction set, threads.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "loaders/weight_source.h"
#include "models/registry.h"
#include "text/tokenizer.h"

namespace gyre::engine {

struct LoadSettings {
  std::string path;
  int threads = 0;         // 0: what affinity, quota and cores allow
  std::string isa;         // "": the best the machine has
  std::string pack_cache;  // folder; "": pack at every load
  bool oracle = false;     // f32 reference; compares Gyre with other engines, tests only
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// Move-only by unique_ptr: parts point at each other.
class Loaded {
 public:
  static Result<std::unique_ptr<Loaded>> open(const LoadSettings& settings);

  loaders::WeightSource& source() { return *source_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  models::Model& model() { return *model_; }
  const nn::Backend& backend() const { return backend_; }
  ThreadPool& pool() { return *pool_; }
  double load_ms() const { return load_ms_; }

 private:
  std::unique_ptr<loaders::WeightSource> source_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<ThreadPool> pool_;
  nn::Backend backend_{};
  std::unique_ptr<models::Model> model_;
  double load_ms_ = 0.0;
};

// Seconds since some fixed moment; for timings only, never for results.
double now_seconds();

}  // namespace gyre::engine
