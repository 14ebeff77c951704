// Any text is a kv_config.json or a scheme's key: what is accepted is in bounds, and a key comes
// back as it was. Byte 0 picks: even = a config, odd = a key, resolved beside a small config.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "kv/scheme.h"

using gyre::kv::KvConfigEntry;
using gyre::kv::KvScheme;

namespace {

void use(const KvScheme& scheme) {
  gyre::kv::LayerShape layer;
  layer.kv_heads = 2;
  layer.k_dim = layer.v_dim = 128;
  layer.window = 100;
  const gyre::kv::LayerType types[] = {gyre::kv::LayerType::sliding, gyre::kv::LayerType::linear};
  auto layers = gyre::kv::make_layers(5, types, layer, layer);
  layers[4].donor = 2;
  const bool fits = scheme.check(layers).ok();
  const bool batches = scheme.batchable(
      layers, [](size_t) { return true; }, true);
  if (fits && !batches) std::abort();
  const auto described = scheme.describe(layers);
  if (described.global + described.sliding_window != 3) std::abort();
  const uint64_t bytes = scheme.bytes_at(layers, 1000);
  if (bytes > KvScheme().bytes_at(layers, 1000)) std::abort();
  if (!scheme.persistent_key({"model", "bf16", 1}).starts_with(scheme.cache_key())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  if (data[0] % 2 == 0) {
    auto entries = gyre::kv::parse_kv_config(text, "fuzz");
    if (!entries.ok()) return 0;
    for (const KvConfigEntry& entry : *entries) {
      const auto named = gyre::kv::parse_layer_code(gyre::kv::layer_code_name(entry.code));
      if (entry.layer_idx < 0 || !named.ok() || *named != entry.code) std::abort();
    }
    const auto scheme = KvScheme::affine_config(std::move(*entries));
    if (!scheme.ok()) std::abort();
    use(*scheme);
    return 0;
  }
  const std::vector<KvConfigEntry> config = {{0, *gyre::kv::affine_code(4, 64)},
                                             {3, *gyre::kv::turbo_code(8, 3)}};
  const auto scheme = KvScheme::parse(text, &config);
  if (!scheme.ok()) return 0;
  if (scheme->cache_key() != text) std::abort();
  use(*scheme);
  return 0;
}
