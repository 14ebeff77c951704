// Speed of a loaded model on this machine.
#pragma once

#include <map>
#include <vector>

#include "engine/runner.h"

namespace gyre::engine {

struct BenchSettings {
  uint32_t prompt = 512, generate = 128;
  std::vector<uint32_t> batches{1};
  uint32_t repeats = 3;
  kv::KvScheme scheme;
};

struct BenchReport {
  double prefill_tokens_per_s = 0.0;
  std::map<uint32_t, double> decode_tokens_per_s;  // all streams together, by batch
  double read_gb_per_s = 0.0;                      // weights read per second, decoding one stream
  double measured_read_gb_per_s = 0.0;             // what plain reads of the same memory reach
};

Result<BenchReport> bench(Loaded& loaded, const BenchSettings& settings);

}  // namespace gyre::engine
