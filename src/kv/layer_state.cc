#include "kv/layer_state.h"

#include <string>

namespace gyre::kv {
namespace {

Status check_layer(std::span<const LayerSpec> layers, size_t index) {
  const LayerSpec& spec = layers[index];
  const std::string what = "KV layer " + std::to_string(index);
  if (spec.place == Place::recurrent && spec.donor < 0)
    return check_recurrent(spec.recurrent, what);
  if (spec.donor >= 0) {
    const auto donor = static_cast<size_t>(spec.donor);
    if (donor >= layers.size() || layers[donor].donor >= 0 ||
        layers[donor].place == Place::recurrent)
      return fail(ErrorCode::bad_file, what + ": donor", std::to_string(donor),
                  "a layer that owns its KV");
    return {};
  }
  if (spec.place == Place::sliding && spec.window == 0)
    return fail(ErrorCode::bad_file, what + ": window", "0", "at least 1");
  constexpr uint32_t kMost = 1u << 16;
  const KvLayout& layout = spec.layout;
  if (layout.kv_heads == 0 || layout.kv_heads > kMost || layout.k_dim == 0 ||
      layout.k_dim > kMost || layout.k_dim % 2 != 0 || layout.v_dim > kMost ||
      layout.v_dim % 2 != 0)
    return fail(ErrorCode::bad_file, what,
                std::to_string(layout.kv_heads) + " heads of " + std::to_string(layout.k_dim) +
                    " and " + std::to_string(layout.v_dim),
                "even dimensions up to 65536");
  return kernels::check_layout(layout, what);
}

}  // namespace

Status check_layers(std::span<const LayerSpec> layers) {
  for (size_t i = 0; i < layers.size(); ++i) GYRE_TRY(check_layer(layers, i));
  return {};
}

bool LayerState::has_code() const {
  const LayerCode& code = spec.layout.code;
  return !(code == kBf16Code || code == kernels::kF32Code);
}

KvLayout LayerState::layout(Part part, size_t page) const {
  KvLayout out = spec.layout;
  if (!has_code()) return out;
  if (part == Part::plain) {
    out.code = kBf16Code;
  } else if (page == 0 && anchored()) {
    out = out.wide();
  }
  return out;
}

size_t LayerState::part_bytes(Part part, size_t page) const {
  return part == Part::anchor ? spec.layout.anchor_bytes() : layout(part, page).page_bytes();
}

}  // namespace gyre::kv
