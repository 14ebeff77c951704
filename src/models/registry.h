// Architectures by name.
#pragma once

#include "models/model.h"

namespace gyre::models {

// Loads the model that the source's general.architecture names; an unknown one is refused with the
// list of known ones. `source` must outlive the model.
Result<std::unique_ptr<Model>> load_model(loaders::WeightSource& source, const nn::Backend& backend,
                                          const LoadOptions& options);
std::string known_architectures();

}  // namespace gyre::models
