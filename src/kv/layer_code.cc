#include "kv/layer_code.h"

namespace gyre::kv {
namespace {

constexpr uint32_t kAnchoredGroup = 64;

Status check_bits(const char* what, uint64_t bits) {
  if (is_code_bits(bits)) return {};
  return fail(ErrorCode::usage, what, std::to_string(bits), kCodeBits);
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// "8v4" of turbo-k8v4
bool take_pair(std::string_view& text, CodeName& out) {
  const auto k = take_number(text);
  if (!k || !take(text, "v")) return false;
  const auto v = take_number(text);
  if (!v) return false;
  out.k_bits = *k;
  out.v_bits = *v;
  return true;
}

}  // namespace

Result<LayerCode> affine_code(uint64_t bits, uint64_t group) {
  GYRE_TRY(check_bits("kv bits", bits));
  if (!is_code_group(group))
    return fail(ErrorCode::usage, "kv group", std::to_string(group), kCodeGroups);
  const RowCode row{CodeKind::affine, static_cast<uint32_t>(bits), static_cast<uint32_t>(group)};
  return LayerCode{row, row, false, false};
}

Result<LayerCode> turbo_code(uint64_t k_bits, uint64_t v_bits) {
  GYRE_TRY(check_bits("turbo key bits", k_bits));
  GYRE_TRY(check_bits("turbo value bits", v_bits));
  return LayerCode{{CodeKind::turbo, static_cast<uint32_t>(k_bits), 0},
                   {CodeKind::turbo, static_cast<uint32_t>(v_bits), 0},
                   false,
                   false};
}

Result<LayerCode> anchored_code(uint64_t k_bits, uint64_t v_bits) {
  GYRE_TRY(check_bits("anchored key bits", k_bits));
  GYRE_TRY(check_bits("anchored value bits", v_bits));
  return LayerCode{{CodeKind::turbo, static_cast<uint32_t>(k_bits), kAnchoredGroup},
                   {CodeKind::turbo, static_cast<uint32_t>(v_bits), kAnchoredGroup},
                   false,
                   true};
}

std::string layer_code_name(const LayerCode& code) {
  const std::string k = std::to_string(code.k.bits), v = std::to_string(code.v.bits);
  switch (code.k.kind) {
    case CodeKind::bf16:
      return "bf16";
    case CodeKind::f32:
      return "f32";
    case CodeKind::affine:
      return "kv" + k + (code.k.group != 64 ? "-g" + std::to_string(code.k.group) : "");
    case CodeKind::turbo:
      return (code.anchored ? "anchor-k" : "turbo-k") + k + "v" + v;
  }
  return "bf16";
}

std::optional<uint64_t> take_number(std::string_view& text) {
  size_t digits = 0;
  uint64_t value = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
    if (digits == 18) return std::nullopt;
    value = value * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  if (digits == 0 || (digits > 1 && text[0] == '0')) return std::nullopt;
  text.remove_prefix(digits);
  return value;
}

std::optional<CodeName> read_code_name(std::string_view text) {
  CodeName out;
  if (text == "bf16") return out;
  if (take(text, "turbo-k")) {
    out.kind = CodeName::Kind::turbo;
    if (!take_pair(text, out)) return std::nullopt;
  } else if (take(text, "anchor-k")) {
    out.kind = CodeName::Kind::anchored;
    if (!take_pair(text, out)) return std::nullopt;
  } else if (take(text, "kv")) {
    out.kind = CodeName::Kind::affine;
    const auto bits = take_number(text);
    if (!bits) return std::nullopt;
    out.k_bits = out.v_bits = *bits;
    if (take(text, "-g")) {
      const auto group = take_number(text);
      if (!group) return std::nullopt;
      out.group = *group;
    }
  } else {
    return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return out;
}

Result<LayerCode> CodeName::code() const {
  switch (kind) {
    case Kind::bf16:
      return LayerCode{};
    case Kind::affine:
      return affine_code(k_bits, group);
    case Kind::turbo:
      return turbo_code(k_bits, v_bits);
    case Kind::anchored:
      return anchored_code(k_bits, v_bits);
  }
  return LayerCode{};
}

Result<LayerCode> parse_layer_code(std::string_view name) {
  const std::optional<CodeName> read = read_code_name(name);
  if (!read)
    return fail(ErrorCode::usage, "kv code", std::string(name.substr(0, 60)),
                "bf16, kv8, kv4-g32, turbo-k8v4 or anchor-k4v4");
  GYRE_ASSIGN(const LayerCode code, read->code());
  if (layer_code_name(code) != name)
    return fail(ErrorCode::usage, "kv code", name, "its shortest form, " + layer_code_name(code));
  return code;
}

}  // namespace gyre::kv
