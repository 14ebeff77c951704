#include "models/hyper.h"

#include <algorithm>
#include <cmath>

namespace gyre::models {
namespace {

constexpr uint64_t kMaxDim = 1 << 20, kMaxLayers = 4096, kMaxVocabulary = 1 << 24;

Status divides(const std::string& what, uint64_t value, uint64_t by) {
  if (by != 0 && value % by == 0) return {};
  return fail(ErrorCode::bad_file, what, std::to_string(value),
              "a multiple of " + std::to_string(by));
}

// Per-layer arrays (head counts that differ by layer) are for architectures to come.
Status refuse_array(const loaders::WeightSource& source, const std::string& key) {
  const loaders::MetaValue* value = source.meta(key);
  if (value != nullptr && value->index() > 4)
    return fail(ErrorCode::unsupported, key, "an array", "one number");
  return {};
}

}  // namespace

nn::StepShape step_shape(const Hyper& hyper) {
  const ModelInfo& info = hyper.info;
  nn::StepShape shape;
  shape.dim = info.dim;
  shape.q_dim = info.heads * info.head_dim;
  shape.k_dim = info.kv_heads * info.head_dim;
  shape.v_dim = info.kv_heads * hyper.value_dim;
  shape.attention_dim = info.heads * hyper.value_dim;
  shape.ffn = info.ffn;
  shape.q_heads = info.heads;
  shape.head_dim = std::max(info.head_dim, hyper.value_dim);
  return shape;
}

Result<uint32_t> read_count(const loaders::WeightSource& source, const std::string& key,
                            uint64_t low, uint64_t high) {
  GYRE_ASSIGN(const uint64_t value, source.get_u64(key));
  if (value < low || value > high)
    return fail(ErrorCode::bad_file, key, std::to_string(value),
                std::to_string(low) + " to " + std::to_string(high));
  return static_cast<uint32_t>(value);
}

Result<uint32_t> read_count_or(const loaders::WeightSource& source, const std::string& key,
                               uint64_t fallback, uint64_t low, uint64_t high) {
  if (source.meta(key) == nullptr) return static_cast<uint32_t>(fallback);
  return read_count(source, key, low, high);
}

Result<Hyper> read_hyper(const loaders::WeightSource& source, const std::string& architecture) {
  const std::string prefix = architecture + ".";
  Hyper hyper;
  ModelInfo& info = hyper.info;
  info.architecture = architecture;
  GYRE_ASSIGN(info.name, source.get_string_or("general.name", ""));
  GYRE_TRY(refuse_array(source, prefix + "attention.head_count"));
  GYRE_TRY(refuse_array(source, prefix + "attention.head_count_kv"));
  GYRE_TRY(refuse_array(source, prefix + "feed_forward_length"));
  GYRE_ASSIGN(info.layers, read_count(source, prefix + "block_count", 1, kMaxLayers));
  GYRE_ASSIGN(info.dim, read_count(source, prefix + "embedding_length", 1, kMaxDim));
  GYRE_ASSIGN(info.heads, read_count(source, prefix + "attention.head_count", 1, 4096));
  GYRE_ASSIGN(info.kv_heads,
              read_count_or(source, prefix + "attention.head_count_kv", info.heads, 1, 4096));
  GYRE_TRY(divides(prefix + "attention.head_count", info.heads, info.kv_heads));
  GYRE_ASSIGN(info.ffn, read_count(source, prefix + "feed_forward_length", 1, kMaxDim));
  GYRE_ASSIGN(info.context, read_count(source, prefix + "context_length", 1, 1u << 30));
  if (source.meta(prefix + "attention.key_length") == nullptr) {
    GYRE_TRY(divides(prefix + "embedding_length", info.dim, info.heads));
    info.head_dim = info.dim / info.heads;
  } else {
    GYRE_ASSIGN(info.head_dim, read_count(source, prefix + "attention.key_length", 1, 8192));
  }
  GYRE_TRY(divides("head dimension", info.head_dim, 2));
  GYRE_ASSIGN(hyper.value_dim,
              read_count_or(source, prefix + "attention.value_length", info.head_dim, 1, 8192));
  GYRE_TRY(divides(prefix + "attention.value_length", hyper.value_dim, 2));
  GYRE_ASSIGN(hyper.rope_dim, read_count_or(source, prefix + "rope.dimension_count", info.head_dim,
                                            2, info.head_dim));
  GYRE_TRY(divides(prefix + "rope.dimension_count", hyper.rope_dim, 2));
  GYRE_ASSIGN(const double eps, source.get_f64(prefix + "attention.layer_norm_rms_epsilon"));
  if (!(eps > 0.0 && eps < 1.0))
    return fail(ErrorCode::bad_file, prefix + "attention.layer_norm_rms_epsilon",
                std::to_string(eps), "above 0, below 1");
  hyper.eps = static_cast<float>(eps);
  // The embedding's shape is the vocabulary's truth; metadata may repeat it.
  const loaders::TensorInfo* embedding = source.find("token_embd.weight");
  if (embedding == nullptr)
    return fail(ErrorCode::bad_file, "tensor token_embd.weight", "missing", "the embedding table");
  if (embedding->shape.size() != 2 || embedding->shape[0] > kMaxVocabulary)
    return fail(ErrorCode::bad_file, "tensor token_embd.weight",
                std::to_string(embedding->shape.size()) + " dimensions",
                "[vocabulary, embedding_length]");
  GYRE_ASSIGN(info.vocabulary,
              read_count_or(source, prefix + "vocab_size", embedding->shape[0], 1, kMaxVocabulary));
  return hyper;
}

Result<nn::RopeSpec> read_rope(const loaders::WeightSource& source, const Hyper& hyper,
                               kernels::RopeStyle style, double default_base) {
  const std::string prefix = hyper.info.architecture + ".rope.";
  nn::RopeSpec spec;
  spec.style = style;
  spec.pairs = hyper.rope_dim / 2;
  GYRE_ASSIGN(spec.base, source.get_f64_or(prefix + "freq_base", default_base));
  GYRE_ASSIGN(const std::string scaling, source.get_string_or(prefix + "scaling.type", "none"));
  GYRE_ASSIGN(spec.factor, source.get_f64_or(prefix + "scaling.factor", 1.0));
  // Files of an earlier time have the linear factor alone.
  GYRE_ASSIGN(const double old_factor, source.get_f64_or(prefix + "scale_linear", 0.0));
  if (old_factor != 0.0) spec.scaling = nn::RopeScaling::linear, spec.factor = old_factor;
  GYRE_ASSIGN(spec.magnitude, source.get_f64_or(prefix + "scaling.attn_factor", 1.0));
  GYRE_ASSIGN(const uint64_t original,
              source.get_u64_or(prefix + "scaling.original_context_length", hyper.info.context));
  spec.original_context = static_cast<double>(original);
  if (scaling == "linear") {
    spec.scaling = nn::RopeScaling::linear;
  } else if (scaling == "yarn") {
    spec.scaling = nn::RopeScaling::yarn;
    GYRE_ASSIGN(spec.beta_fast, source.get_f64_or(prefix + "scaling.yarn_beta_fast", 32.0));
    GYRE_ASSIGN(spec.beta_slow, source.get_f64_or(prefix + "scaling.yarn_beta_slow", 1.0));
  } else if (scaling != "none" && scaling != "longrope") {
    return fail(ErrorCode::unsupported, prefix + "scaling.type", scaling,
                "none, linear, yarn or longrope");
  }
  GYRE_TRY(spec.validate());
  return spec;
}

}  // namespace gyre::models
