#include "nn/step.h"

#include <algorithm>
#include <cstring>

namespace gyre::nn {

uint32_t StepShape::max_k() const {
  return std::max({dim, attention_dim, ffn});
}

Result<Step> Step::make(const Backend& backend, const StepShape& shape, uint32_t max_tokens,
                        uint32_t max_rows, uint32_t max_positions) {
  Step step;
  step.backend_ = backend;
  step.shape_ = shape;
  step.max_tokens_ = max_tokens;
  step.max_k_ = shape.max_k();
  step.rows_.reserve(max_rows);
  step.first_.reserve(max_rows + 1);
  step.attention_jobs.reserve(size_t{2} * max_rows);
  auto floats = [&](Array<float>& out, uint32_t width, const char* what) -> Status {
    GYRE_ASSIGN(out, Array<float>::make(size_t{max_tokens} * width, what));
    return {};
  };
  GYRE_TRY(floats(step.x_, shape.dim, "residual stream"));
  GYRE_TRY(floats(step.branch_, shape.dim, "branch"));
  GYRE_TRY(floats(step.normed_, step.max_k_, "normed rows"));
  GYRE_TRY(floats(step.q_, shape.q_dim, "queries"));
  GYRE_TRY(floats(step.k_, shape.k_dim, "keys"));
  GYRE_TRY(floats(step.v_, shape.v_dim, "values"));
  GYRE_TRY(floats(step.attended_, shape.attention_dim, "attention output"));
  GYRE_TRY(floats(step.gate_, shape.ffn, "gate"));
  GYRE_TRY(floats(step.up_, shape.ffn, "up"));
  GYRE_ASSIGN(step.token_row_, Array<uint32_t>::make(max_tokens, "token rows"));
  GYRE_ASSIGN(step.token_id_, Array<TokenId>::make(max_tokens, "token ids"));
  GYRE_ASSIGN(step.position_, Array<uint32_t>::make(max_tokens, "positions"));
  GYRE_ASSIGN(step.visible, Array<kernels::Visible>::make(max_tokens, "visibility"));
  GYRE_ASSIGN(step.not_finite_, Array<uint8_t>::make(max_tokens, "finite flags"));
  GYRE_TRY(step.activations.reserve(max_tokens, step.max_k_));
  GYRE_TRY(step.attention_scratch.reserve(backend.pool->size(), shape.q_heads, shape.head_dim,
                                          max_positions));
  return step;
}

Status Step::begin(std::span<const RowInput> rows) {
  uint64_t total = 0;
  for (const RowInput& row : rows) {
    for (const Span& span : row.spans) total += span.count();
    if (row.adapter != 0)
      return fail(ErrorCode::unsupported, "adapter slot", std::to_string(row.adapter), "0");
  }
  if (total == 0 || total > max_tokens_ || rows.size() > rows_.capacity())
    return fail(ErrorCode::internal, "tokens of a step", std::to_string(total),
                "1 to " + std::to_string(max_tokens_));
  rows_.assign(rows.begin(), rows.end());
  first_.clear();
  tokens_ = end_position_ = 0;
  for (size_t r = 0; r < rows_.size(); ++r) {
    first_.push_back(tokens_);
    uint32_t count = 0;
    for (const Span& span : rows_[r].spans) count += span.count();
    const uint32_t start = rows_[r].kv->length();
    if (Status status = reserve(r, count); !status.ok()) {
      abandon();
      return status;
    }
    for (uint32_t i = 0; i < count; ++i, ++tokens_) {
      token_row_[tokens_] = static_cast<uint32_t>(r);
      position_[tokens_] = start + i;
    }
    end_position_ = std::max(end_position_, start + count);
  }
  first_.push_back(tokens_);
  std::memset(not_finite_.data(), 0, tokens_);
  return {};
}

Status Step::reserve(size_t row, uint32_t count) {
  kv::Sequence& kv = *rows_[row].kv;
  GYRE_TRY(kv.reserve(count));
  return kv.convert(*backend_.attention, backend_.pool);
}

void Step::abandon() {
  for (const RowInput& row : rows_) (void)row.kv->commit(0);
}

Status Step::commit() {
  for (size_t r = 0; r < rows_.size(); ++r) GYRE_TRY(rows_[r].kv->can_commit(token_count(r)));
  for (size_t r = 0; r < rows_.size(); ++r) GYRE_TRY(rows_[r].kv->commit(token_count(r)));
  return {};
}

bool Step::row_is_finite(size_t row) const {
  for (uint32_t t = first_[row]; t < first_[row + 1]; ++t)
    if (not_finite_[t] != 0) return false;
  return true;
}

void Step::for_tokens(FunctionRef<void(uint32_t)> body) {
  const uint32_t workers = static_cast<uint32_t>(backend_.pool->size());
  const uint32_t grain = std::max(1u, tokens_ / (workers * 8));
  backend_.pool->run((tokens_ + grain - 1) / grain, [&](size_t index, int) {
    const uint32_t begin = static_cast<uint32_t>(index) * grain;
    for (uint32_t t = begin; t < std::min(tokens_, begin + grain); ++t) body(t);
  });
}

void Step::layer_done(int layer) {
  if (layer == hidden_layer_) std::memcpy(hidden_, x_.data(), size_t{tokens_} * shape_.dim * 4);
}

size_t Step::bytes() const {
  size_t floats = x_.size() + branch_.size() + normed_.size() + q_.size() + k_.size() + v_.size() +
                  attended_.size() + gate_.size() + up_.size();
  return floats * sizeof(float) + activations.bytes() + attention_scratch.bytes();
}

}  // namespace gyre::nn
