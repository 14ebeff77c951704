// What the commands share: model flags, loading with a progress bar, JSON on stdout.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/flags.h"
#include "engine/loaded.h"
#include "engine/runner.h"
#include "kv/scheme.h"

namespace gyre::apps {

using Json = nlohmann::ordered_json;

struct ModelFlags {
  std::string model, isa, kv = "bf16", pack_cache;
  int64_t threads = 0, context = 0;
  bool json = false, oracle = false;

  void add_to(Flags& flags);
  // Settings for Loaded::open, with GYRE_ISA where --isa is not given; checks the flags.
  Result<engine::LoadSettings> settings() const;
  // What --kv names; `config` reads the kv_config.json beside the model. Whether the model can have
  // it is checked where a row's places are known.
  Result<kv::KvScheme> scheme() const { return scheme_of("--kv", kv); }
  Result<kv::KvScheme> scheme_of(const char* flag, const std::string& key) const;
};

Result<std::unique_ptr<engine::Loaded>> load(const ModelFlags& flags);

// A bar on stderr, on terminals only; erased when it is done.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress();
  void show(uint64_t done, uint64_t total);

 private:
  std::string what_;
  bool visible_, drawn_ = false;
  double last_ = 0.0, start_;
};

// Invalid UTF-8 becomes U+FFFD: JSON holds text.
void print_json(const Json& json);

// Comma or white space separated ids, each checked against the vocabulary (size 0: any).
Result<std::vector<int32_t>> parse_ids(const std::string& text, uint32_t vocabulary);
Result<std::string> read_text_file(const std::string& path);

}  // namespace gyre::apps
