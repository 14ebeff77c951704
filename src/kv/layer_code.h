// The names of a layer's code: bf16, kv4, kv4-g32, turbo-k8v4, anchor-k4v4.
//
// Schemes, kv_config.json and state files spell codes so. A name has one spelling (group 64 is left
// out), so reading and writing are inverse. Values, no state; any thread. Errors: usage.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/codes/row_code.h"

namespace gyre::kv {

using kernels::CodeKind;
using kernels::is_code_bits;
using kernels::is_code_group;
using kernels::LayerCode;
using kernels::RowCode;

inline constexpr const char* kCodeBits = "2, 3, 4, 5, 6 or 8";
inline constexpr const char* kCodeGroups = "32, 64 or 128";

// One code for K and V. Bits and group are checked.
Result<LayerCode> affine_code(uint64_t bits, uint64_t group);
// Rotated rows; full and sliding places alike.
Result<LayerCode> turbo_code(uint64_t k_bits, uint64_t v_bits);
// Turbo in groups of 64 around the mean of page 0's keys.
Result<LayerCode> anchored_code(uint64_t k_bits, uint64_t v_bits);

std::string layer_code_name(const LayerCode& code);
Result<LayerCode> parse_layer_code(std::string_view name);

// The grammar of names alone, for a text that begins with one: what stands there, unchecked.
struct CodeName {
  enum class Kind : uint8_t { bf16, affine, turbo, anchored } kind = Kind::bf16;
  uint64_t k_bits = 0, v_bits = 0, group = 64;
  Result<LayerCode> code() const;
};
std::optional<CodeName> read_code_name(std::string_view text);
// A decimal number without leading zeros, below 10^18, at the front of `text`, which it shortens.
std::optional<uint64_t> take_number(std::string_view& text);

}  // namespace gyre::kv
