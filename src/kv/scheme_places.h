// A scheme on a model's layers: the places a model asks for, with the codes that a scheme gives
// them. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/scheme.h"
#include "kv/spec.h"

namespace gyre::kv {

// Layers as a scheme sees them.
std::vector<LayerShape> layer_shapes(std::span<const LayerSpec> places);

// `places` as a model gives them, all uncoded; a donor's reader gets the donor's code. Errors:
// those of KvScheme::check; unsupported where the model's places have another code already (the
// f32 oracle).
Result<std::vector<LayerSpec>> apply_scheme(const KvScheme& scheme,
                                            std::span<const LayerSpec> places);

// The first position whose query reads codes, as a Sequence takes it. No sequence is as long as
// the largest number.
uint32_t code_start(const KvScheme& scheme);

}  // namespace gyre::kv
