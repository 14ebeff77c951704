// Instruction sets: which exist in this build, which this machine has, which one is used.
//
// Chosen once at start, forceable by name (--isa, GYRE_ISA). "scalar" is the reference itself.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace gyre::kernels {

enum class Isa : uint8_t {
  scalar,      // kernels/reference: the definition
  avx2,        // AVX2, FMA, F16C
  avxvnni,     // avx2 and 256-bit VNNI
  avx512vnni,  // AVX-512 F BW DQ VL and VNNI
  avx512,      // avx512vnni and BF16
  neon,        // arm64 with dot product
};

std::string_view isa_name(Isa isa);
// The sets that this build and this machine have, scalar first, best last.
std::vector<Isa> available_isas();
// The best set, or the one that `forced` names ("" = none). An unknown or missing one is an error
// that lists what there is.
Result<Isa> choose_isa(std::string_view forced);

}  // namespace gyre::kernels
