#include "models/registry.h"

#include "models/gemma3.h"
#include "models/llama.h"

namespace gyre::models {
namespace {

using Load = Result<std::unique_ptr<Model>> (*)(loaders::WeightSource&, const nn::Backend&,
                                                const LoadOptions&);
struct Entry {
  const char* architecture;
  Load load;
};
constexpr Entry kEntries[] = {
    {"gemma3", load_gemma3},
    {"llama", load_llama},
};

}  // namespace

std::string known_architectures() {
  std::string names;
  for (const Entry& entry : kEntries)
    names += (names.empty() ? "" : ", ") + std::string(entry.architecture);
  return names;
}

Result<std::unique_ptr<Model>> load_model(loaders::WeightSource& source, const nn::Backend& backend,
                                          const LoadOptions& options) {
  GYRE_ASSIGN(const std::string architecture, source.get_string("general.architecture"));
  for (const Entry& entry : kEntries)
    if (architecture == entry.architecture) return entry.load(source, backend, options);
  return fail(ErrorCode::unsupported, "general.architecture", architecture,
              "one of " + known_architectures());
}

}  // namespace gyre::models
