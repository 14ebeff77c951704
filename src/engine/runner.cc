#include "engine/runner.h"

#include <algorithm>
#include <cstring>

#include "kv/scheme_places.h"
#include "os/cpu.h"

namespace gyre::engine {

Result<std::unique_ptr<Runner>> Runner::make(Loaded& loaded, const RunnerSettings& settings) {
  auto runner = std::make_unique<Runner>();
  const models::ModelInfo& info = loaded.model().info();
  runner->loaded_ = &loaded;
  runner->context_ = settings.context == 0 ? info.context : settings.context;
  if (runner->context_ > info.context)
    return fail(ErrorCode::usage, "context", std::to_string(runner->context_),
                "at most the model's " + std::to_string(info.context));
  runner->scheme_ = settings.scheme;
  GYRE_ASSIGN(runner->places_, kv::apply_scheme(settings.scheme, loaded.model().places()));
  runner->pages_ = std::make_unique<kv::PagePool>(
      settings.kv_budget_bytes != 0 ? settings.kv_budget_bytes : os::available_memory_bytes());
  runner->pages_->set_placement_seed(settings.placement_seed);
  nn::Backend backend = loaded.backend();
  if (settings.attention != nullptr) backend.attention = settings.attention;
  GYRE_ASSIGN(nn::Step step, nn::Step::make(backend, loaded.model().shape(), settings.max_tokens,
                                            settings.max_rows, runner->context_));
  runner->step_ = std::make_unique<nn::Step>(std::move(step));
  runner->inputs_.resize(settings.max_rows);
  runner->spans_.resize(settings.max_rows);
  GYRE_ASSIGN(runner->last_hidden_,
              Array<float>::make(size_t{settings.max_rows} * info.dim, "hidden rows"));
  GYRE_ASSIGN(runner->last_logits_,
              Array<float>::make(size_t{settings.max_rows} * info.vocabulary, "logits"));
  GYRE_ASSIGN(runner->last_not_finite_, Array<uint8_t>::make(settings.max_rows, "finite flags"));
  return runner;
}

Result<kv::Sequence> Runner::open_row() {
  return kv::Sequence::make(*pages_, {places_, context_, kv::code_start(scheme_)});
}

Result<kv::Sequence> Runner::open_row(const kv::KvScheme& scheme) {
  GYRE_ASSIGN(const std::vector<kv::LayerSpec> places,
              kv::apply_scheme(scheme, loaded_->model().places()));
  return kv::Sequence::make(*pages_, {places, context_, kv::code_start(scheme)});
}

Status Runner::step(std::span<const RowTokens> rows) {
  if (rows.size() > inputs_.size())
    return fail(ErrorCode::internal, "rows of a step", std::to_string(rows.size()),
                "at most " + std::to_string(inputs_.size()));
  for (size_t r = 0; r < rows.size(); ++r) {
    const uint64_t end = uint64_t{rows[r].kv->length()} + rows[r].tokens.size();
    if (end > context_)
      return fail(ErrorCode::context_overflow, "positions of a row", std::to_string(end),
                  "at most " + std::to_string(context_));
    spans_[r].tokens = rows[r].tokens;
    inputs_[r] = {rows[r].kv, {&spans_[r], 1}, 0};
  }
  GYRE_TRY(step_->begin({inputs_.data(), rows.size()}));
  if (Status status = loaded_->model().forward(*step_); !status.ok()) {
    step_->abandon();
    return status;
  }
  return step_->commit();
}

void Runner::logits(uint32_t first, uint32_t count, float* out, uint8_t* not_finite) {
  loaded_->model().logits(*step_, step_->x(first), count, out, not_finite);
}

void Runner::compute_last_logits() {
  const uint32_t dim = loaded_->model().info().dim;
  const size_t rows = step_->rows().size();
  for (size_t r = 0; r < rows; ++r) {
    const uint32_t last = step_->first_token(r) + step_->token_count(r) - 1;
    std::memcpy(&last_hidden_[r * dim], step_->x(last), dim * sizeof(float));
    last_not_finite_[r] = step_->row_is_finite(r) ? 0 : 1;
  }
  loaded_->model().logits(*step_, last_hidden_.data(), static_cast<uint32_t>(rows),
                          last_logits_.data(), last_not_finite_.data());
}

std::span<const float> Runner::last_logits(size_t row) const {
  return {&last_logits_[row * vocabulary()], vocabulary()};
}

size_t Runner::workspace_bytes() const {
  return step_->bytes() + (last_hidden_.size() + last_logits_.size()) * sizeof(float);
}

}  // namespace gyre::engine
