#include "models/gemma3.h"

#include <cmath>

#include "models/hyper.h"
#include "numerics/half.h"

namespace gyre::models {
namespace {

using kernels::Activation;

// Every sixth layer sees all positions, the others a window.
constexpr uint32_t kDefaultPattern = 6;
constexpr double kDefaultLocalBase = 10000.0, kDefaultGlobalBase = 1000000.0;
// The 27B model has this many layers and scales queries by the embedding's share of a head.
constexpr uint32_t kLayers27B = 62;

struct Layer {
  nn::Norm attention_norm, post_attention_norm, ffn_norm, post_ffn_norm;
  nn::Linear q, k, v, o, gate, up, down;
  nn::AttentionLayer attention;
};

class Gemma3 final : public Model {
 public:
  Status load(loaders::WeightSource& source, const nn::Backend& backend,
              const LoadOptions& options);
  Status forward(nn::Step& step) override;

 private:
  Status load_layer(uint32_t index, const Hyper& hyper, const nn::Backend& backend);
  Status load_ropes(const Hyper& hyper);
  bool is_sliding(uint32_t layer) const { return (layer + 1) % pattern_ != 0; }

  const kernels::Matrix* embedding_ = nullptr;
  float embedding_scale_ = 1.0f;
  uint32_t pattern_ = kDefaultPattern;
  std::vector<Layer> layers_;
  std::unique_ptr<nn::RopeTable> local_rope_, global_rope_;
};

Status Gemma3::forward(nn::Step& step) {
  GYRE_TRY(local_rope_->reserve(step.end_position(), *step.backend().pool));
  GYRE_TRY(global_rope_->reserve(step.end_position(), *step.backend().pool));
  GYRE_TRY(nn::embed(step, *embedding_, embedding_scale_));
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    nn::norm_input(step, layer.attention_norm, nn::input_forms({layer.q, layer.k, layer.v}));
    nn::multiply(step, {{layer.q, step.q(0), shape_.q_dim},
                        {layer.k, step.k(0), shape_.k_dim},
                        {layer.v, step.v(0), shape_.v_dim}});
    nn::attend(step, layer.attention, nn::input_forms({layer.o}));
    nn::multiply(step, {{layer.o, step.branch(0), shape_.dim}});
    nn::add_normed_branch(step, layer.post_attention_norm);

    nn::norm_input(step, layer.ffn_norm, nn::input_forms({layer.gate, layer.up}));
    nn::multiply(step,
                 {{layer.gate, step.gate(0), shape_.ffn}, {layer.up, step.up(0), shape_.ffn}});
    nn::gate_input(step, Activation::gelu_tanh, nn::input_forms({layer.down}));
    nn::multiply(step, {{layer.down, step.branch(0), shape_.dim}});
    nn::add_normed_branch(step, layer.post_ffn_norm);
    step.layer_done(static_cast<int>(l));
  }
  return {};
}

Status Gemma3::load(loaders::WeightSource& source, const nn::Backend& backend,
                    const LoadOptions& options) {
  GYRE_ASSIGN(const Hyper hyper, read_hyper(source, "gemma3"));
  info_ = hyper.info;
  GYRE_ASSIGN(info_.window, read_count(source, "gemma3.attention.sliding_window", 1, 1u << 30));
  GYRE_ASSIGN(pattern_, read_count_or(source, "gemma3.attention.sliding_window_pattern",
                                      kDefaultPattern, 1, 4096));
  GYRE_ASSIGN(const double cap, source.get_f64_or("gemma3.final_logit_softcapping", 0.0));
  logit_cap_ = static_cast<float>(cap);
  if (!(logit_cap_ >= 0.0f && std::isfinite(logit_cap_)))
    return fail(ErrorCode::bad_file, "gemma3.final_logit_softcapping", std::to_string(cap),
                "at least 0");
  weights_ = std::make_unique<Weights>(source);
  shape_ = step_shape(hyper);
  // The model was trained with the factor rounded to bf16.
  embedding_scale_ = bf16_to_f32(f32_to_bf16(std::sqrt(static_cast<float>(info_.dim))));
  GYRE_TRY(load_ropes(hyper));
  GYRE_ASSIGN(embedding_, weights_->matrix("token_embd.weight", info_.vocabulary, info_.dim));
  for (uint32_t l = 0; l < info_.layers; ++l) GYRE_TRY(load_layer(l, hyper, backend));
  GYRE_TRY(load_head(*embedding_, hyper.eps));
  return weights_->finish(backend, options);
}

Status Gemma3::load_ropes(const Hyper& hyper) {
  loaders::WeightSource& source = weights_->source();
  GYRE_ASSIGN(nn::RopeSpec global,
              read_rope(source, hyper, kernels::RopeStyle::halves, kDefaultGlobalBase));
  nn::RopeSpec local;  // never scaled
  local.style = kernels::RopeStyle::halves;
  local.pairs = global.pairs;
  GYRE_ASSIGN(local.base, source.get_f64_or("gemma3.rope.freq_base_swa", kDefaultLocalBase));
  GYRE_TRY(local.validate());
  global_rope_ = std::make_unique<nn::RopeTable>(std::move(global));
  local_rope_ = std::make_unique<nn::RopeTable>(std::move(local));
  return {};
}

Status Gemma3::load_layer(uint32_t index, const Hyper& hyper, const nn::Backend& backend) {
  const std::string block = "blk." + std::to_string(index) + ".";
  Layer layer;
  auto norm = [&](nn::Norm& out, const char* name, uint64_t n) -> Status {
    out.eps = hyper.eps;
    GYRE_ASSIGN(out.weight, weights_->vector(block + name, n));
    return {};
  };
  auto linear = [&](nn::Linear& out, const char* name, uint64_t rows, uint64_t cols) -> Status {
    GYRE_ASSIGN(out.weight, weights_->matrix(block + name, rows, cols));
    return {};
  };
  nn::AttentionLayer& attention = layer.attention;
  GYRE_TRY(norm(layer.attention_norm, "attn_norm.weight", info_.dim));
  GYRE_TRY(linear(layer.q, "attn_q.weight", shape_.q_dim, info_.dim));
  GYRE_TRY(linear(layer.k, "attn_k.weight", shape_.k_dim, info_.dim));
  GYRE_TRY(linear(layer.v, "attn_v.weight", shape_.v_dim, info_.dim));
  GYRE_TRY(norm(attention.q_norm, "attn_q_norm.weight", info_.head_dim));
  GYRE_TRY(norm(attention.k_norm, "attn_k_norm.weight", info_.head_dim));
  GYRE_TRY(linear(layer.o, "attn_output.weight", info_.dim, shape_.attention_dim));
  GYRE_TRY(norm(layer.post_attention_norm, "post_attention_norm.weight", info_.dim));
  GYRE_TRY(norm(layer.ffn_norm, "ffn_norm.weight", info_.dim));
  GYRE_TRY(linear(layer.gate, "ffn_gate.weight", info_.ffn, info_.dim));
  GYRE_TRY(linear(layer.up, "ffn_up.weight", info_.ffn, info_.dim));
  GYRE_TRY(linear(layer.down, "ffn_down.weight", info_.dim, info_.ffn));
  GYRE_TRY(norm(layer.post_ffn_norm, "post_ffw_norm.weight", info_.dim));
  attention.layer = index;
  attention.kv = {info_.kv_heads, info_.head_dim, hyper.value_dim, backend.kv_code};
  attention.heads = info_.heads;
  const uint32_t share = info_.layers == kLayers27B ? info_.dim / info_.heads : info_.head_dim;
  attention.scale = 1.0f / std::sqrt(static_cast<float>(share));
  attention.rope = is_sliding(index) ? local_rope_.get() : global_rope_.get();
  if (is_sliding(index))
    places_.push_back({kv::Place::sliding, info_.window, attention.kv, -1});
  else
    places_.push_back({kv::Place::full, 0, attention.kv, -1});
  layers_.push_back(layer);
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_gemma3(loaders::WeightSource& source,
                                           const nn::Backend& backend, const LoadOptions& options) {
  auto model = std::make_unique<Gemma3>();
  GYRE_TRY(model->load(source, backend, options));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace gyre::models
