// Llama: grouped-query attention, rope with scaling, SwiGLU, optional biases, tied or own head.
#pragma once

#include "models/model.h"

namespace gyre::models {

Result<std::unique_ptr<Model>> load_llama(loaders::WeightSource& source, const nn::Backend& backend,
                                          const LoadOptions& options);

}  // namespace gyre::models
