// What a model's layers ask of the KV state: where positions live, how wide a page is, which code.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention.h"
#include "kv/recurrent.h"

namespace gyre::kv {

using kernels::kBf16Code;
using kernels::KvLayout;
using kernels::LayerCode;
using kernels::Visible;

enum class Place : uint8_t {
  full,       // every position stays
  sliding,    // a query at t sees t - window + 1 .. t; pages wholly behind that are released
  recurrent,  // a state, no positions (recurrent.h)
};

// Heads and dimensions may differ by layer. A place may hold one latent row: kv_heads = 1,
// v_dim = 0.
struct LayerSpec {
  Place place = Place::full;
  uint32_t window = 0;  // >= 1 when sliding
  KvLayout layout;      // with the code that queries from the row's start on read
  int donor = -1;       // >= 0: reads that layer's place and owns nothing; place and layout are its
  RecurrentShape recurrent{};  // of a recurrent place, which has no layout
};

// A row's layers and limits. Layers whose code is bf16 (or f32, the oracle's) know no start.
struct SequenceSpec {
  std::span<const LayerSpec> layers;
  uint32_t max_positions = 0;
  uint32_t start = 0;  // queries below it read bf16; from it on every key is read as a code
};

}  // namespace gyre::kv
