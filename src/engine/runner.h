// Runs steps of a loaded model over rows and their KV state: the one place where maths and serving
// meet. Sizes are fixed at make(); steps do not allocate but for KV pages. One thread.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/loaded.h"
#include "kv/pool.h"
#include "kv/scheme.h"
#include "kv/sequence.h"
#include "nn/step.h"

namespace gyre::engine {

using nn::TokenId;

struct RunnerSettings {
  uint32_t max_tokens = 512;  // of one step, all rows together
  uint32_t max_rows = 1;
  uint32_t context = 0;          // positions of one row; 0: the model's own
  uint64_t placement_seed = 0;   // shuffles where KV pages lie; 0: in order (verify)
  uint64_t kv_budget_bytes = 0;  // 0: what the machine has
  kv::KvScheme scheme;           // of open_row()'s rows
  // Another instruction set's attention (verify); null: the model's own.
  const kernels::AttentionOps* attention = nullptr;
};

struct RowTokens {
  kv::Sequence* kv = nullptr;
  std::span<const TokenId> tokens;
};

class Runner {
 public:
  static Result<std::unique_ptr<Runner>> make(Loaded& loaded, const RunnerSettings& settings);

  // A new, empty row, of the runner's scheme or of another: rows of all schemes may share a step.
  // It must not outlive the runner. A scheme that the model cannot have is refused by name.
  Result<kv::Sequence> open_row();
  Result<kv::Sequence> open_row(const kv::KvScheme& scheme);

  // One step: the rows' tokens continue their sequences. A row whose tokens do not fit its context
  // is a context_overflow error before anything is computed. After success the rows have grown.
  Status step(std::span<const RowTokens> rows);
  bool row_is_finite(size_t row) const { return step_->row_is_finite(row); }

  // The residual stream behind the last layer of token `token` of the last step.
  const float* hidden(uint32_t token) { return step_->x(token); }
  uint32_t step_tokens() const { return step_->tokens(); }

  // Logits of tokens [first, first + count) of the last step: out[count][vocabulary].
  void logits(uint32_t first, uint32_t count, float* out, uint8_t* not_finite);
  // Logits of each row's last token, in the runner's own memory until the next call; non_finite
  // for the rows that met a NaN or Inf is reported by last_is_finite().
  void compute_last_logits();
  std::span<const float> last_logits(size_t row) const;
  bool last_is_finite(size_t row) const { return last_not_finite_[row] == 0; }

  uint32_t context() const { return context_; }
  const kv::KvScheme& scheme() const { return scheme_; }
  uint32_t vocabulary() const { return loaded_->model().info().vocabulary; }
  uint32_t max_tokens() const { return step_->max_tokens(); }
  size_t workspace_bytes() const;
  kv::PagePool& pages() { return *pages_; }
  Loaded& loaded() { return *loaded_; }

 private:
  Loaded* loaded_ = nullptr;
  uint32_t context_ = 0;
  kv::KvScheme scheme_;
  std::vector<kv::LayerSpec> places_;  // with the scheme's codes
  std::unique_ptr<kv::PagePool> pages_;
  std::unique_ptr<nn::Step> step_;
  std::vector<nn::RowInput> inputs_;
  std::vector<nn::Span> spans_;
  Array<float> last_hidden_, last_logits_;
  Array<uint8_t> last_not_finite_;
};

}  // namespace gyre::engine
