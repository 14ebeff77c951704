// Any bytes are a row of any format: decoding stays in range, the audit agrees with the decoder.
// Byte 0 picks the format; the rest is as many whole blocks as fit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <vector>

#include "quant/codes.h"
#include "quant/rows.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const gyre::DType dtype = gyre::kAllDTypes[data[0] % std::size(gyre::kAllDTypes)];
  const gyre::quant::Traits& traits = gyre::quant::traits(dtype);
  const uint32_t bytes = gyre::info(dtype).bytes;
  const auto blocks = static_cast<uint32_t>((size - 1) / bytes);
  if (blocks == 0) return 0;
  const auto* row = reinterpret_cast<const std::byte*>(data + 1);

  std::vector<float> values(static_cast<size_t>(blocks) * traits.block);
  gyre::quant::decode_row(dtype, row, values.data(), values.size());
  const gyre::TensorView view{dtype, 1, blocks * traits.block, row};
  if (gyre::quant::check_block_scales(view, "fuzz").ok() &&
      !std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); }))
    std::abort();
  if (traits.family == gyre::quant::Family::plain) return 0;
  gyre::quant::Codes codes;
  for (uint32_t b = 0; b < blocks; ++b) {
    gyre::quant::decode_codes(dtype, row + static_cast<size_t>(b) * bytes, codes);
    if (*std::max_element(codes.code, codes.code + traits.block) > traits.code_max) std::abort();
  }
  return 0;
}
