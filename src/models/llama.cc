#include "models/llama.h"

#include <cmath>

#include "models/hyper.h"

namespace gyre::models {
namespace {

using kernels::Activation;

struct Layer {
  nn::Norm attention_norm, ffn_norm;
  nn::Linear q, k, v, o, gate, up, down;
  nn::AttentionLayer attention;
};

class Llama final : public Model {
 public:
  Status load(loaders::WeightSource& source, const nn::Backend& backend,
              const LoadOptions& options);
  Status forward(nn::Step& step) override;

 private:
  Status load_layer(uint32_t index, const Hyper& hyper, const nn::Backend& backend);
  Result<nn::Linear> linear(const std::string& name, uint64_t rows, uint64_t cols);
  Status load_rope(const Hyper& hyper);

  const kernels::Matrix* embedding_ = nullptr;
  std::vector<Layer> layers_;
  std::unique_ptr<nn::RopeTable> rope_;
};

Status Llama::forward(nn::Step& step) {
  GYRE_TRY(rope_->reserve(step.end_position(), *step.backend().pool));
  GYRE_TRY(nn::embed(step, *embedding_, 1.0f));
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    nn::norm_input(step, layer.attention_norm, nn::input_forms({layer.q, layer.k, layer.v}));
    nn::multiply(step, {{layer.q, step.q(0), shape_.q_dim},
                        {layer.k, step.k(0), shape_.k_dim},
                        {layer.v, step.v(0), shape_.v_dim}});
    nn::attend(step, layer.attention, nn::input_forms({layer.o}));
    nn::multiply(step, {{layer.o, step.x(0), shape_.dim, true}});

    nn::norm_input(step, layer.ffn_norm, nn::input_forms({layer.gate, layer.up}));
    nn::multiply(step,
                 {{layer.gate, step.gate(0), shape_.ffn}, {layer.up, step.up(0), shape_.ffn}});
    nn::gate_input(step, Activation::silu, nn::input_forms({layer.down}));
    nn::multiply(step, {{layer.down, step.x(0), shape_.dim, true}});
    step.layer_done(static_cast<int>(l));
  }
  return {};
}

Status Llama::load(loaders::WeightSource& source, const nn::Backend& backend,
                   const LoadOptions& options) {
  GYRE_ASSIGN(const Hyper hyper, read_hyper(source, "llama"));
  info_ = hyper.info;
  GYRE_ASSIGN(const uint64_t experts, source.get_u64_or("llama.expert_count", 0));
  if (experts != 0)
    return fail(ErrorCode::unsupported, "llama.expert_count", std::to_string(experts), "0");
  weights_ = std::make_unique<Weights>(source);
  shape_ = step_shape(hyper);
  GYRE_TRY(load_rope(hyper));
  GYRE_ASSIGN(embedding_, weights_->matrix("token_embd.weight", info_.vocabulary, info_.dim));
  for (uint32_t l = 0; l < info_.layers; ++l) GYRE_TRY(load_layer(l, hyper, backend));
  GYRE_TRY(load_head(*embedding_, hyper.eps));
  return weights_->finish(backend, options);
}

Status Llama::load_rope(const Hyper& hyper) {
  loaders::WeightSource& source = weights_->source();
  GYRE_ASSIGN(nn::RopeSpec spec, read_rope(source, hyper, kernels::RopeStyle::adjacent, 10000.0));
  // llama3 stores one factor per pair; longrope two sets, chosen by the trained context, which is
  // fixed by the file, so that bits never depend on the current length.
  for (const char* name : {"rope_freqs.weight", "rope_factors_long.weight"}) {
    GYRE_ASSIGN(const float* factors, weights_->optional_vector(name, spec.pairs));
    if (factors != nullptr) spec.factors.assign(factors, factors + spec.pairs);
  }
  GYRE_ASSIGN(const float* unused_short,
              weights_->optional_vector("rope_factors_short.weight", spec.pairs));
  (void)unused_short;
  GYRE_TRY(spec.validate());
  rope_ = std::make_unique<nn::RopeTable>(std::move(spec));
  return {};
}

Result<nn::Linear> Llama::linear(const std::string& name, uint64_t rows, uint64_t cols) {
  nn::Linear out;
  GYRE_ASSIGN(out.weight, weights_->matrix(name + ".weight", rows, cols));
  GYRE_ASSIGN(out.bias, weights_->optional_vector(name + ".bias", rows));
  return out;
}

Status Llama::load_layer(uint32_t index, const Hyper& hyper, const nn::Backend& backend) {
  const std::string block = "blk." + std::to_string(index) + ".";
  Layer layer;
  layer.attention_norm.eps = layer.ffn_norm.eps = hyper.eps;
  GYRE_ASSIGN(layer.attention_norm.weight, weights_->vector(block + "attn_norm.weight", info_.dim));
  GYRE_ASSIGN(layer.q, linear(block + "attn_q", shape_.q_dim, info_.dim));
  GYRE_ASSIGN(layer.k, linear(block + "attn_k", shape_.k_dim, info_.dim));
  GYRE_ASSIGN(layer.v, linear(block + "attn_v", shape_.v_dim, info_.dim));
  GYRE_ASSIGN(layer.o, linear(block + "attn_output", info_.dim, shape_.attention_dim));
  GYRE_ASSIGN(layer.ffn_norm.weight, weights_->vector(block + "ffn_norm.weight", info_.dim));
  GYRE_ASSIGN(layer.gate, linear(block + "ffn_gate", info_.ffn, info_.dim));
  GYRE_ASSIGN(layer.up, linear(block + "ffn_up", info_.ffn, info_.dim));
  GYRE_ASSIGN(layer.down, linear(block + "ffn_down", info_.dim, info_.ffn));
  layer.attention.layer = index;
  layer.attention.kv = {info_.kv_heads, info_.head_dim, hyper.value_dim, backend.kv_code};
  layer.attention.heads = info_.heads;
  layer.attention.scale = 1.0f / std::sqrt(static_cast<float>(info_.head_dim));
  layer.attention.rope = rope_.get();
  places_.push_back({kv::Place::full, 0, layer.attention.kv, -1});
  layers_.push_back(layer);
  return {};
}

}  // namespace

Result<std::unique_ptr<Model>> load_llama(loaders::WeightSource& source, const nn::Backend& backend,
                                          const LoadOptions& options) {
  auto model = std::make_unique<Llama>();
  GYRE_TRY(model->load(source, backend, options));
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace gyre::models
