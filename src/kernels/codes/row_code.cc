#include "kernels/codes/row_code.h"

namespace gyre::kernels {

bool is_code_bits(uint64_t bits) {
  return (bits >= 2 && bits <= 6) || bits == 8;
}

bool is_code_group(uint64_t group) {
  return group == 32 || group == 64 || group == 128;
}

size_t RowCode::row_bytes(uint32_t dim) const {
  const size_t codes = size_t{dim} * bits / 8;
  switch (kind) {
    case CodeKind::bf16:
      return size_t{2} * dim;
    case CodeKind::f32:
      return size_t{4} * dim;
    case CodeKind::affine:
      return codes + size_t{4} * groups(dim);
    case CodeKind::turbo:
      if (group != 0) return codes + size_t{2} * groups(dim);
      return dim == 0 ? 0 : codes + 4;
  }
  return 0;
}

Status check_row(const RowCode& code, uint32_t dim, const std::string& what) {
  if (code.kind == CodeKind::bf16 || code.kind == CodeKind::f32 || dim == 0) return {};
  if (!is_code_bits(code.bits))
    return fail(ErrorCode::unsupported, what + ": bits", std::to_string(code.bits),
                "2, 3, 4, 5, 6 or 8");
  if (code.kind == CodeKind::affine) {
    if (!is_code_group(code.group))
      return fail(ErrorCode::unsupported, what + ": group", std::to_string(code.group),
                  "32, 64 or 128");
    if (dim % code.group != 0)
      return fail(ErrorCode::unsupported, what + ": group", std::to_string(code.group),
                  "a divisor of the head size " + std::to_string(dim));
    return {};
  }
  if (dim % 8 != 0 || dim < 32 || dim > 1024)
    return fail(ErrorCode::unsupported, what + ": head size of a turbo code", std::to_string(dim),
                "a multiple of 8 from 32 to 1024");
  if (code.group != 0 && code.group != kTurboGroup)
    return fail(ErrorCode::unsupported, what + ": group of a turbo code",
                std::to_string(code.group), "0 or 64");
  return {};
}

}  // namespace gyre::kernels
