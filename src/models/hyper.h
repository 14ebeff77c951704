// Hyper-parameters from metadata, checked before anything is allocated.
#pragma once

#include <string>

#include "loaders/weight_source.h"
#include "models/model.h"
#include "nn/rope.h"

namespace gyre::models {

// Reads "<architecture>.<key>" values that every decoder has, into info (layers, dim, heads,
// kv_heads, head_dim, ffn, vocabulary, context, window) and eps. Ranges and divisibility are
// checked; an error names the key, the value and what was expected.
struct Hyper {
  ModelInfo info;
  float eps = 1e-5f;
  uint32_t value_dim = 0;
  uint32_t rope_dim = 0;
};
Result<Hyper> read_hyper(const loaders::WeightSource& source, const std::string& architecture);

// The widest arrays of one token.
nn::StepShape step_shape(const Hyper& hyper);

// An integer "<architecture>.<key>" within [low, high].
Result<uint32_t> read_count(const loaders::WeightSource& source, const std::string& key,
                            uint64_t low, uint64_t high);
Result<uint32_t> read_count_or(const loaders::WeightSource& source, const std::string& key,
                               uint64_t fallback, uint64_t low, uint64_t high);

// Rope base and scaling ("<architecture>.rope.*").
Result<nn::RopeSpec> read_rope(const loaders::WeightSource& source, const Hyper& hyper,
                               kernels::RopeStyle style, double default_base);

}  // namespace gyre::models
