// What a model's layers ask of the KV state: where positions live and how wide a page is.
#pragma once

#include <cstdint>

#include "kernels/attention.h"

namespace gyre::kv {

using kernels::kBf16Code;
using kernels::KvLayout;
using kernels::LayerCode;
using kernels::Visible;

enum class Place : uint8_t {
  full,     // every position stays
  sliding,  // a query at t sees t - window + 1 .. t; pages wholly behind that are released
};

// Heads and dimensions may differ by layer. A place may hold one latent row: kv_heads = 1,
// v_dim = 0.
struct LayerSpec {
  Place place = Place::full;
  uint32_t window = 0;  // >= 1 when sliding
  KvLayout layout;
  int donor = -1;  // >= 0: reads that layer's place and owns nothing; place and layout are its
};

}  // namespace gyre::kv
