#include "kv/scheme_config.h"

#include <nlohmann/json.hpp>

#include "os/file.h"

namespace gyre::kv {
namespace {

using nlohmann::json;

constexpr size_t kMaxBytes = size_t{1} << 20;
constexpr int64_t kMaxLayer = 1 << 20;

// The integer member `key` of an entry, at least 0.
Result<int64_t> member(const json& entry, const std::string& what, const char* key,
                       const char* expected) {
  const auto found = entry.find(key);
  const std::string name = what + ": " + key;
  if (found == entry.end()) return fail(ErrorCode::bad_file, name, "missing", expected);
  if (!found->is_number_integer() ||
      (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)))
    return fail(ErrorCode::bad_file, name,
                found->dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40), expected);
  return found->get<int64_t>();
}

// The extension: a code by its name, in place of bits and group.
Result<LayerCode> parse_code(const json& entry, const std::string& what) {
  const json& name = entry["code"];
  for (const char* other : {"bits", "group_size"}) {
    if (entry.contains(other))
      return fail(ErrorCode::bad_file, what + ": " + other, "given", "nothing beside code");
  }
  if (!name.is_string())
    return fail(ErrorCode::bad_file, what + ": code", name.type_name(), "a name as turbo-k8v4");
  auto code = parse_layer_code(name.get_ref<const std::string&>());
  if (!code) return Error{ErrorCode::bad_file, what + ": code: " + code.error().text};
  return *code;
}

Result<LayerCode> parse_bits(const json& entry, const std::string& what) {
  GYRE_ASSIGN(const int64_t bits, member(entry, what, "bits", kCodeBits));
  GYRE_ASSIGN(const int64_t group, member(entry, what, "group_size", kCodeGroups));
  if (bits < 0 || !is_code_bits(static_cast<uint64_t>(bits)))
    return fail(ErrorCode::bad_file, what + ": bits", std::to_string(bits), kCodeBits);
  if (group < 0 || !is_code_group(static_cast<uint64_t>(group)))
    return fail(ErrorCode::bad_file, what + ": group_size", std::to_string(group), kCodeGroups);
  return affine_code(static_cast<uint64_t>(bits), static_cast<uint64_t>(group));
}

Result<KvConfigEntry> parse_entry(const json& entry, const std::string& what) {
  constexpr const char* kLayers = "an index of the cache list";
  if (!entry.is_object())
    return fail(ErrorCode::bad_file, what, entry.type_name(),
                "an object with layer_idx, bits and group_size");
  GYRE_ASSIGN(const int64_t layer, member(entry, what, "layer_idx", kLayers));
  if (layer < 0 || layer > kMaxLayer)
    return fail(ErrorCode::bad_file, what + ": layer_idx", std::to_string(layer), kLayers);
  GYRE_ASSIGN(const LayerCode code,
              entry.contains("code") ? parse_code(entry, what) : parse_bits(entry, what));
  return KvConfigEntry{layer, code};
}

}  // namespace

Result<std::vector<KvConfigEntry>> parse_kv_config(std::string_view text, const std::string& name) {
  const json root = json::parse(text.begin(), text.end(), nullptr, false);
  if (root.is_discarded()) return fail(ErrorCode::bad_file, name, "not JSON", "a JSON array");
  if (!root.is_array()) return fail(ErrorCode::bad_file, name, root.type_name(), "a JSON array");
  std::vector<KvConfigEntry> out;
  out.reserve(root.size());
  for (size_t i = 0; i < root.size(); ++i) {
    GYRE_ASSIGN(KvConfigEntry entry, parse_entry(root[i], name + ": entry " + std::to_string(i)));
    out.push_back(entry);
  }
  return out;
}

Result<std::vector<KvConfigEntry>> read_kv_config(const std::string& path) {
  GYRE_ASSIGN(const std::string text, os::read_file(path, kMaxBytes));
  return parse_kv_config(text, path);
}

}  // namespace gyre::kv
