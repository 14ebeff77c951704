// gyre inspect: what a model file holds; with --kv, what a row of a scheme costs.

#include <cstdio>
#include <map>

#include "apps/commands.h"
#include "apps/common.h"
#include "kv/scheme_places.h"

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

// How the model's layers store K and V under a scheme, and the bytes of a row of `tokens`
// positions (0: the model's context).
Result<Json> kv_json(loaders::WeightSource& source, const kv::KvScheme& scheme, uint64_t tokens) {
  ThreadPool pool(1);  // the reference packs nothing: only the layers' shapes are read
  GYRE_ASSIGN(const std::unique_ptr<models::Model> model,
              models::load_model(source, nn::make_backend(kernels::Isa::scalar, &pool), {}));
  const std::vector<kv::LayerShape> layers = kv::layer_shapes(model->places());
  GYRE_TRY(scheme.check(layers));
  const kv::SchemeDescription about = scheme.describe(layers);
  if (tokens == 0) tokens = model->info().context;
  Json by_code = Json::object();
  for (const auto& [code, count] : about.layers) by_code[code] = count;
  return Json{{"scheme", scheme.cache_key()},
              {"mode", about.mode},
              {"layers", by_code},
              {"attention", {{"global", about.global}, {"sliding_window", about.sliding_window}}},
              {"recurrent_layers", about.recurrent_layers},
              {"shared_layers", about.shared_layers},
              {"tokens", tokens},
              {"bytes", scheme.bytes_at(layers, tokens)},
              {"bf16_bytes", kv::KvScheme().bytes_at(layers, tokens)}};
}

void print_kv(const Json& kv) {
  std::printf("  kv %s:", kv["scheme"].get<std::string>().c_str());
  for (const auto& [code, count] : kv["layers"].items())
    std::printf(" %u layers %s,", count.get<uint32_t>(), code.c_str());
  std::printf(" %llu bytes for %llu tokens (bf16: %llu)\n",
              static_cast<unsigned long long>(kv["bytes"].get<uint64_t>()),
              static_cast<unsigned long long>(kv["tokens"].get<uint64_t>()),
              static_cast<unsigned long long>(kv["bf16_bytes"].get<uint64_t>()));
}

}  // namespace

Result<int> run_inspect(const Arguments& arguments) {
  std::string positional, model;
  ModelFlags scheme_flags;
  int64_t tokens = 0;
  bool json = false;
  Flags flags("inspect");
  flags.positional(&positional, "MODEL")
      .text("-m,--model", &model, "model file (.gguf)")
      .text("--kv", &scheme_flags.kv, "a KV scheme: its layers and the bytes of a row")
      .integer("-c,--ctx", &tokens, 1, 1 << 30, "positions of that row (the model's context)")
      .toggle("--json", &json, "one JSON object on stdout");
  GYRE_TRY(flags.parse(arguments));
  if (flags.wants_help()) return std::fputs(flags.help().c_str(), stdout), 0;
  if (model.empty()) model = positional;
  if (model.empty()) return fail(ErrorCode::usage, "model", "nothing", "a model file");
  scheme_flags.model = model;
  GYRE_ASSIGN(const kv::KvScheme scheme, scheme_flags.scheme());
  GYRE_ASSIGN(const std::unique_ptr<loaders::WeightSource> source, loaders::open_weights(model));
  Json row;
  if (flags.was_given("--kv")) {
    GYRE_ASSIGN(row, kv_json(*source, scheme, static_cast<uint64_t>(tokens)));
  }

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
    Json out = {{"model", model},
                {"files", source->paths()},
                {"file_bytes", source->file_bytes()},
                {"identity", source->identity()},
                {"metadata", metadata},
                {"types", by_type},
                {"tensors", tensors}};
    if (!row.is_null()) out["kv"] = row;
    print_json(out);
    return 0;
  }
  std::printf("%s  %.1f MB, %zu tensors\n", model.c_str(),
              static_cast<double>(source->file_bytes()) / 1e6, source->tensors().size());
  if (!row.is_null()) print_kv(row);
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
