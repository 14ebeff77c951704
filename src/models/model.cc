#include "models/model.h"

namespace gyre::models {

Status Model::load_head(const kernels::Matrix& embedding, float eps) {
  GYRE_ASSIGN(final_norm_.weight, weights_->vector("output_norm.weight", info_.dim));
  final_norm_.eps = eps;
  GYRE_ASSIGN(head_.weight,
              weights_->optional_matrix("output.weight", info_.vocabulary, info_.dim));
  if (!head_) head_.weight = &embedding;
  return {};
}

}  // namespace gyre::models
