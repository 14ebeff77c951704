#include "tensor/dtype.h"

namespace gyre {
namespace {
constexpr DTypeInfo kInfo[] = {
    {"F32", 1, 4, 0},       {"F16", 1, 2, 1},       {"BF16", 1, 2, 30},
    {"Q4_0", 32, 18, 2},    {"Q4_1", 32, 20, 3},    {"Q5_0", 32, 22, 6},
    {"Q5_1", 32, 24, 7},    {"Q8_0", 32, 34, 8},    {"Q2_K", 256, 84, 10},
    {"Q3_K", 256, 110, 11}, {"Q4_K", 256, 144, 12}, {"Q5_K", 256, 176, 13},
    {"Q6_K", 256, 210, 14}, {"IQ4_NL", 32, 18, 20}, {"IQ4_XS", 256, 136, 23},
    {"MXFP4", 32, 17, 39},
};
}  // namespace

const DTypeInfo& info(DType dtype) {
  return kInfo[static_cast<size_t>(dtype)];
}

std::optional<DType> dtype_from_gguf(uint32_t gguf_type) {
  for (DType dtype : kAllDTypes) {
    if (info(dtype).gguf_type == gguf_type) return dtype;
  }
  return std::nullopt;
}

}  // namespace gyre
