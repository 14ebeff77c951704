#include "quant/rows.h"

#include <cassert>

#include "quant/format.h"

namespace gyre::quant {
namespace {

void decode_plain(DType dtype, const std::byte* src, float* dst, size_t n) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(src);
  if (dtype == DType::f32) {
    std::memcpy(dst, src, n * sizeof(float));
  } else if (dtype == DType::f16) {
    for (size_t i = 0; i < n; ++i) dst[i] = load_f16(bytes + 2 * i);
  } else {
    for (size_t i = 0; i < n; ++i) dst[i] = bf16_to_f32(load_u16(bytes + 2 * i));
  }
}

void decode_scaled(const Traits& t, const Codes& codes, float* dst) {
  for (uint32_t k = 0; k < t.block; ++k) {
    const float product = codes.scale * static_cast<float>(codes.code[k] - t.zero);
    dst[k] = t.has_min ? product + codes.min : product;
  }
}

void decode_super(const Traits& t, const Codes& codes, float* dst) {
  for (uint32_t k = 0; k < t.block; ++k) {
    const uint32_t g = k / t.group;
    const float scale = codes.d * static_cast<float>(codes.sub_scale[g]);
    const float product = scale * static_cast<float>(codes.code[k] - t.zero);
    dst[k] = t.has_min ? product - codes.dmin * static_cast<float>(codes.sub_min[g]) : product;
  }
}

void encode_plain(DType dtype, const float* src, std::byte* dst, size_t n) {
  auto* bytes = reinterpret_cast<uint8_t*>(dst);
  if (dtype == DType::f32) {
    std::memcpy(dst, src, n * sizeof(float));
  } else if (dtype == DType::f16) {
    for (size_t i = 0; i < n; ++i) store_f16(src[i], bytes + 2 * i);
  } else {
    for (size_t i = 0; i < n; ++i) store_u16(f32_to_bf16(src[i]), bytes + 2 * i);
  }
}

}  // namespace

void decode_row(DType dtype, const std::byte* src, float* dst, size_t n) {
  const Traits& t = traits(dtype);
  assert(n % t.block == 0);
  if (t.family == Family::plain) return decode_plain(dtype, src, dst, n);
  Codes codes;
  for (size_t k = 0; k < n; k += t.block, src += info(dtype).bytes) {
    decode_codes(dtype, src, codes);
    if (t.family == Family::scaled) {
      decode_scaled(t, codes, dst + k);
    } else {
      decode_super(t, codes, dst + k);
    }
  }
}

void encode_row(DType dtype, const float* src, std::byte* dst, size_t n) {
  const Format& f = format(dtype);
  assert(n % f.traits.block == 0);
  if (f.traits.family == Family::plain) return encode_plain(dtype, src, dst, n);
  for (size_t k = 0; k < n; k += f.traits.block, dst += info(dtype).bytes) {
    Codes codes{};
    f.quantise(src + k, codes);
    f.pack(codes, reinterpret_cast<uint8_t*>(dst));
  }
}

}  // namespace gyre::quant
