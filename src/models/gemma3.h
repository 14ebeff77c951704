// Gemma 3 (text): sliding and full layers with two rope bases, head norms, post-norms, GeGLU,
// scaled embeddings, tied head.
#pragma once

#include "models/model.h"

namespace gyre::models {

Result<std::unique_ptr<Model>> load_gemma3(loaders::WeightSource& source,
                                           const nn::Backend& backend, const LoadOptions& options);

}  // namespace gyre::models
