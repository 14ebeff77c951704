// The layers that models are built from. Each works on all tokens of a step.
#pragma once

#include <span>

#include "kernels/linear.h"
#include "nn/rope.h"
#include "nn/step.h"

namespace gyre::nn {

struct Linear {
  const kernels::Matrix* weight = nullptr;
  const float* bias = nullptr;  // [rows] or null
  explicit operator bool() const { return weight != nullptr; }
};

struct Norm {
  const float* weight = nullptr;
  float eps = 1e-5f;
};

// The int8, bf16 or f32 forms that these matrices read.
uint32_t input_forms(std::initializer_list<Linear> consumers);

// x = embedding of each token (or the given rows), times scale (1: not multiplied).
Status embed(Step& step, const kernels::Matrix& table, float scale);

// input = prepared norm(x), for the given consumers.
void norm_input(Step& step, const Norm& norm, uint32_t forms);

// One matrix with its output: y[token][ldy], starting at y.
struct Product {
  Linear linear;
  float* y = nullptr;
  size_t ldy = 0;
  bool add_to_y = false;
};
// All products read step.input.
void multiply(Step& step, std::initializer_list<Product> products);

// x += norm(branch)
void add_normed_branch(Step& step, const Norm& norm);

struct AttentionLayer {
  uint32_t layer = 0;  // index of the KV place
  kernels::KvLayout kv;
  uint32_t heads = 0;
  float scale = 1.0f, softcap = 0.0f;
  const float* sinks = nullptr;  // [heads] or null
  Norm q_norm, k_norm;           // per head; weight null: none
  RopeTable* rope = nullptr;     // null: no positions
  bool owns_kv = true;           // false: reads a donor's place
};
// From step.q/k/v: head norms, rope, K/V into the pages, attention; the result is prepared as
// step.input for `forms`.
void attend(Step& step, const AttentionLayer& layer, uint32_t forms);

// input = prepared act(gate) * up
void gate_input(Step& step, kernels::Activation act, uint32_t forms);

// Logits of `count` hidden rows x[row][dim]: norm, head, then cap * tanh(logit / cap) if cap > 0.
// Uses the step's input buffers: call it after the step's layers are done. Rows are taken in
// groups, so count may exceed the step's size. logits: [count][vocabulary]. not_finite[row] is set,
// never cleared, where a logit is NaN or Inf.
void head_logits(Step& step, const Norm& norm, const Linear& head, float cap, const float* x,
                 uint32_t count, float* logits, uint8_t* not_finite);

}  // namespace gyre::nn
