#include "quant/codes.h"

#include <cassert>
#include <cmath>
#include <string>

#include "quant/format.h"

namespace gyre::quant {
namespace {

constexpr Format kPlain = {{Family::plain, 1, 1, 0, false, 0}, nullptr, nullptr, nullptr, {-1, -1}};

// In the order of DType.
constexpr const Format* kFormats[] = {&kPlain, &kPlain, &kPlain, &kQ4_0, &kQ4_1, &kQ5_0,
                                      &kQ5_1,  &kQ8_0,  &kQ2K,   &kQ3K,  &kQ4K,  &kQ5K,
                                      &kQ6K,   &kIq4Nl, &kIq4Xs, &kMxfp4};
static_assert(std::size(kFormats) == std::size(kAllDTypes));

}  // namespace

const Format& format(DType dtype) {
  return *kFormats[static_cast<size_t>(dtype)];
}
const Traits& traits(DType dtype) {
  return format(dtype).traits;
}

void decode_codes(DType dtype, const std::byte* block, Codes& out) {
  const Format& f = format(dtype);
  assert(f.unpack != nullptr);
  out.scale = out.min = out.d = out.dmin = 0;
  std::memset(out.sub_scale, 0, sizeof out.sub_scale);
  std::memset(out.sub_min, 0, sizeof out.sub_min);
  f.unpack(reinterpret_cast<const uint8_t*>(block), out);
}

}  // namespace gyre::quant
