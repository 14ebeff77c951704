// gyre inspect: what a model file holds.

#include <cstdio>
#include <map>

#include "apps/commands.h"
#include "apps/common.h"

namespace gyre::apps {
namespace {

constexpr size_t kShownText = 100;

template <class T>
Json array_json(const std::vector<T>& values) {
  return {{"array", values.size()}};
}

Json value_json(const loaders::MetaValue& value) {
  return std::visit(
      [](const auto& v) -> Json {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                      std::is_same_v<T, uint64_t> || std::is_same_v<T, double>)
          return v;
        else if constexpr (std::is_same_v<T, std::string>)
          return v;
        else
          return array_json(v);
      },
      value);
}

std::string shape_text(const loaders::TensorInfo& tensor) {
  std::string out;
  for (const uint64_t n : tensor.shape) out += (out.empty() ? "" : " x ") + std::to_string(n);
  return out;
}

}  // namespace

Result<int> run_inspect(const Arguments& arguments) {
  std::string positional, model;
  bool json = false;
  Flags flags("inspect");
  flags.positional(&positional, "MODEL")
      .text("-m,--model", &model, "model file (.gguf)")
      .toggle("--json", &json, "one JSON object on stdout");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  if (model.empty()) model = positional;
  if (model.empty()) return fail(ErrorCode::usage, "model", "nothing", "a model file");
  GYRE_ASSIGN(const std::unique_ptr<loaders::WeightSource> source, loaders::open_weights(model));

  Json metadata = Json::object(), tensors = Json::array();
  std::map<std::string, std::pair<size_t, uint64_t>> types;
  for (const std::string& key : source->meta_keys()) metadata[key] = value_json(*source->meta(key));
  for (const loaders::TensorInfo& tensor : source->tensors()) {
    auto& [count, bytes] = types[std::string(name(tensor.dtype))];
    ++count;
    bytes += tensor.bytes;
    tensors.push_back({{"name", tensor.name},
                       {"type", name(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"bytes", tensor.bytes}});
  }
  Json by_type = Json::object();
  for (const auto& [type, sum] : types)
    by_type[type] = {{"tensors", sum.first}, {"bytes", sum.second}};
  if (json) {
    print_json({{"model", model},
                {"files", source->paths()},
                {"file_bytes", source->file_bytes()},
                {"identity", source->identity()},
                {"metadata", metadata},
                {"types", by_type},
                {"tensors", tensors}});
    return 0;
  }
  std::printf("%s  %.1f MB, %zu tensors\n", model.c_str(),
              static_cast<double>(source->file_bytes()) / 1e6, source->tensors().size());
  for (const auto& [key, value] : metadata.items()) {
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kShownText) text = text.substr(0, kShownText) + "...";
    std::printf("  %-44s %s\n", key.c_str(), text.c_str());
  }
  for (const auto& [type, sum] : types)
    std::printf("  %-8s %5zu tensors %12llu bytes\n", type.c_str(), sum.first,
                static_cast<unsigned long long>(sum.second));
  for (const loaders::TensorInfo& tensor : source->tensors())
    std::printf("  %-40s %-6s %s\n", tensor.name.c_str(), std::string(name(tensor.dtype)).c_str(),
                shape_text(tensor).c_str());
  return 0;
}

}  // namespace gyre::apps
