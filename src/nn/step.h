// One forward step: some tokens of some rows, side by side, and the buffers they pass through.
//
// A row is one sequence with its KV state; its tokens stand together, in order, at absolute
// positions. What a token computes depends on its own row only (contract C1), so rows of any
// lengths may share a step. Buffers are sized once: a step does not allocate. One Step serves one
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/memory.h"
#include "kv/sequence.h"
#include "nn/backend.h"

namespace gyre::nn {

using TokenId = int32_t;

// A piece of a row's input: token ids, or ready embedding rows (images, audio) named by the hash of
// their content.
struct Span {
  std::span<const TokenId> tokens;
  const float* embeddings = nullptr;  // [count][dim]; used where tokens is empty
  uint32_t embedding_count = 0;
  uint64_t content_hash = 0;
  uint32_t count() const {
    return tokens.empty() ? embedding_count : static_cast<uint32_t>(tokens.size());
  }
};

struct RowInput {
  kv::Sequence* kv = nullptr;  // positions continue at kv->length()
  std::span<const Span> spans;
  uint32_t adapter = 0;  // slot of a LoRA adapter; 0: none
};

// The widest arrays a model needs, per token.
struct StepShape {
  uint32_t dim = 0, q_dim = 0, k_dim = 0, v_dim = 0, attention_dim = 0, ffn = 0;
  uint32_t q_heads = 0, head_dim = 0;
  uint32_t max_k() const;
};

class Step {
 public:
  static Result<Step> make(const Backend& backend, const StepShape& shape, uint32_t max_tokens,
                           uint32_t max_rows, uint32_t max_positions);

  // Lays the rows' tokens side by side, reserves their pages and makes the codes that they need. On
  // error nothing has changed.
  Status begin(std::span<const RowInput> rows);
  // The step did not happen: the rows are as they were before it.
  void abandon();
  // The rows' tokens become part of their KV state: of all rows, or of none.
  Status commit();

  uint32_t tokens() const { return tokens_; }
  uint32_t max_tokens() const { return max_tokens_; }
  std::span<const RowInput> rows() const { return rows_; }
  uint32_t first_token(size_t row) const { return first_[row]; }
  uint32_t token_count(size_t row) const { return first_[row + 1] - first_[row]; }
  uint32_t row_of(uint32_t token) const { return token_row_[token]; }
  uint32_t position(uint32_t token) const { return position_[token]; }
  uint32_t end_position() const { return end_position_; }  // one past the largest
  bool row_is_finite(size_t row) const;
  size_t bytes() const;

  const Backend& backend() const { return backend_; }
  const StepShape& shape() const { return shape_; }

  // Calls body(token) for each token, in parallel when there are several.
  void for_tokens(FunctionRef<void(uint32_t token)> body);

  // Asks for a copy of the residual stream behind layer `layer` (0-based): out[token][dim].
  void want_hidden(int layer, float* out) { hidden_layer_ = layer, hidden_ = out; }
  void layer_done(int layer);  // called by the models after each layer

  TokenId& token_id(uint32_t token) { return token_id_[token]; }  // -1: a ready embedding row
  float* x(uint32_t token) { return &x_[size_t{token} * shape_.dim]; }
  float* branch(uint32_t token) { return &branch_[size_t{token} * shape_.dim]; }
  float* normed(uint32_t token) { return &normed_[size_t{token} * max_k_]; }
  float* q(uint32_t token) { return &q_[size_t{token} * shape_.q_dim]; }
  float* k(uint32_t token) { return &k_[size_t{token} * shape_.k_dim]; }
  float* v(uint32_t token) { return &v_[size_t{token} * shape_.v_dim]; }
  float* attended(uint32_t token) { return &attended_[size_t{token} * shape_.attention_dim]; }
  float* gate(uint32_t token) { return &gate_[size_t{token} * shape_.ffn]; }
  float* up(uint32_t token) { return &up_[size_t{token} * shape_.ffn]; }
  uint8_t* not_finite() { return not_finite_.data(); }

  // The prepared input of the next linear.
  kernels::Activations input;
  kernels::ActivationBuffer activations;
  kernels::AttentionScratch attention_scratch;
  std::vector<kernels::AttentionJob> attention_jobs;  // [2 max_rows] reserved
  Array<kernels::Visible> visible;                    // [max_tokens]

 private:
  Status reserve(size_t row, uint32_t count);

  Backend backend_{};
  StepShape shape_{};
  uint32_t max_tokens_ = 0, max_k_ = 0, tokens_ = 0, end_position_ = 0;
  std::vector<RowInput> rows_;
  std::vector<uint32_t> first_;
  Array<uint32_t> token_row_, position_;
  Array<TokenId> token_id_;
  Array<float> x_, branch_, normed_, q_, k_, v_, attended_, gate_, up_;
  Array<uint8_t> not_finite_;
  int hidden_layer_ = -1;
  float* hidden_ = nullptr;
};

}  // namespace gyre::nn
