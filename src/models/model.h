// A decoder model: from tokens of some rows to the residual stream, and from there to logits.
//
// One short file per architecture implements it; registry.h chooses by the file's architecture
// name. A model is immutable but for its lazily grown rope tables: forward() from one thread at a
// time, everything else from any.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kv/spec.h"
#include "loaders/weight_source.h"
#include "models/weights.h"
#include "nn/layers.h"
#include "nn/step.h"

namespace gyre::models {

struct ModelInfo {
  std::string architecture;
  std::string name;
  uint32_t layers = 0, dim = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
  uint32_t vocabulary = 0;
  uint32_t context = 0;  // positions the model was trained for
  uint32_t window = 0;   // sliding layers; 0: none
};

class Model {
 public:
  virtual ~Model() = default;

  const ModelInfo& info() const { return info_; }
  const nn::StepShape& shape() const { return shape_; }
  // What each layer keeps of the past.
  std::span<const kv::LayerSpec> places() const { return places_; }
  const Weights& weights() const { return *weights_; }

  // All tokens of the step through all layers; leaves the residual stream in step.x. Does not
  // commit. A row that met a NaN or Inf is marked in the step; the others are not touched by it.
  virtual Status forward(nn::Step& step) = 0;

  // Logits of hidden rows x[count][dim] as forward() left them: see nn::head_logits.
  void logits(nn::Step& step, const float* x, uint32_t count, float* logits,
              uint8_t* not_finite) const {
    nn::head_logits(step, final_norm_, head_, logit_cap_, x, count, logits, not_finite);
  }

 protected:
  // The final norm and the head: its own matrix, or the embedding's.
  Status load_head(const kernels::Matrix& embedding, float eps);

  ModelInfo info_;
  nn::StepShape shape_;
  std::vector<kv::LayerSpec> places_;
  std::unique_ptr<Weights> weights_;
  nn::Norm final_norm_;
  nn::Linear head_;
  float logit_cap_ = 0.0f;
};

}  // namespace gyre::models
