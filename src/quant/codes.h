// The integer truth of the quantised weight formats: what one block of a file says, as unsigned
// codes, a zero point and scales. Row decoding, panel packing and the tests derive from this.
// docs/formats/quant.md shows the byte pictures. No state: any thread, caller owns all memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

namespace gyre::quant {

enum class Family : uint8_t {
  plain,   // F32, F16, BF16: no codes
  scaled,  // one scale for each block of 32:    weight = scale * (code - zero) (+ min)
  super,   // 256 codes, scales in two levels:   weight = d * sub_scale * (code - zero)
           //                                             (- dmin * sub_min), one pair per group
};

struct Traits {
  Family family;
  uint32_t block;     // elements of one block along K: 1, 32 or 256
  uint32_t group;     // elements that share a scale: 16 or 32; 1 for plain
  int zero;           // subtracted from a code
  bool has_min;       // scaled: adds `min`; super: subtracts dmin * sub_min
  uint32_t code_max;  // no code of any bytes exceeds this
};
const Traits& traits(DType dtype);

inline constexpr uint32_t kMaxBlock = 256, kMaxGroups = 16;

// One block. Fields that a format lacks are 0; code[block ..] is left alone.
struct Codes {
  uint8_t code[kMaxBlock];  // in k order; codebook formats: codebook value + zero
  float scale, min;         // scaled
  float d, dmin;            // super
  int16_t sub_scale[kMaxGroups], sub_min[kMaxGroups];  // super, per group
};

// Any bytes are a block. `dtype` must not be plain; `block` need not be aligned.
void decode_codes(DType dtype, const std::byte* block, Codes& out);

// The audit of a tensor at load: every scale (or plain value) must be finite, and so must every
// weight that a scale can make. bad_file otherwise, naming tensor, row and block. Reads only the
// scale fields of quantised formats. `view` must be in host memory.
Status check_block_scales(const TensorView& view, std::string_view tensor);

}  // namespace gyre::quant
