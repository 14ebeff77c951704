#include "kv/scheme_places.h"

#include <algorithm>

namespace gyre::kv {

std::vector<LayerShape> layer_shapes(std::span<const LayerSpec> places) {
  std::vector<LayerShape> out;
  out.reserve(places.size());
  for (const LayerSpec& place : places) {
    LayerShape shape;
    shape.type = place.place == Place::sliding     ? LayerType::sliding
                 : place.place == Place::recurrent ? LayerType::linear
                                                   : LayerType::full;
    if (place.place == Place::recurrent) shape.state_bytes = place.recurrent.block_bytes();
    shape.kv_heads = place.layout.kv_heads;
    shape.k_dim = place.layout.k_dim;
    shape.v_dim = place.layout.v_dim;
    shape.window = place.window;
    shape.donor = place.donor;
    out.push_back(shape);
  }
  return out;
}

Result<std::vector<LayerSpec>> apply_scheme(const KvScheme& scheme,
                                            std::span<const LayerSpec> places) {
  const std::vector<LayerShape> shapes = layer_shapes(places);
  GYRE_TRY(scheme.check(shapes));
  std::vector<LayerSpec> out(places.begin(), places.end());
  for (size_t i = 0; i < out.size(); ++i) {
    const LayerCode code = scheme.layer_code(shapes, i);
    if (out[i].donor >= 0 || code == kBf16Code) continue;
    if (!(out[i].layout.code == kBf16Code))
      return fail(ErrorCode::unsupported, "kv scheme", scheme.cache_key(),
                  "bf16 where the model's own KV is " + layer_code_name(out[i].layout.code));
    out[i].layout.code = code;
  }
  for (LayerSpec& reader : out) {
    if (reader.donor >= 0 && static_cast<size_t>(reader.donor) < out.size())
      reader.layout.code = out[static_cast<size_t>(reader.donor)].layout.code;
  }
  return out;
}

uint32_t code_start(const KvScheme& scheme) {
  return static_cast<uint32_t>(std::min<uint64_t>(scheme.start(), UINT32_MAX));
}

}  // namespace gyre::kv
