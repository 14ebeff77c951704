#include "kv/scheme.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kv/saturating.h"

namespace gyre::kv {
namespace {

constexpr uint64_t kMaxStart = (uint64_t{1} << 53) - 1;  // the integers that JSON carries safely
constexpr const char* kBits = "2, 3, 4, 5, 6 or 8";

Status check_bits(const char* what, uint64_t bits) {
  if (is_code_bits(bits)) return {};
  return fail(ErrorCode::usage, what, std::to_string(bits), kBits);
}

Status check_start(uint64_t start) {
  if (start <= kMaxStart) return {};
  return fail(ErrorCode::usage, "quantizedKvStart", std::to_string(start),
              "a nonnegative integer below 2^53");
}

std::string start_suffix(uint64_t start) {
  return start > 0 ? "-start" + std::to_string(start) : "";
}

// One field of a persistent key; the length makes the whole key unambiguous.
std::string field(std::string_view name, std::string_view value) {
  return "|" + std::string(name) + ":" + std::to_string(value.size()) + ":" + std::string(value);
}

// Where a layer stands in the cache list; only for layers that own state.
size_t cache_index(std::span<const LayerShape> layers, size_t layer) {
  return static_cast<size_t>(std::count_if(layers.begin(),
                                           layers.begin() + static_cast<std::ptrdiff_t>(layer),
                                           [](const LayerShape& l) { return l.donor < 0; }));
}

}  // namespace

std::vector<LayerShape> make_layers(size_t count, std::span<const LayerType> types,
                                    const LayerShape& full, const LayerShape& sliding) {
  std::vector<LayerShape> out;
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const LayerType type = i < types.size() ? types[i] : LayerType::full;
    out.push_back(type == LayerType::sliding ? sliding : full);
    out.back().type = type;
  }
  return out;
}

std::vector<size_t> cache_list(std::span<const LayerShape> layers) {
  std::vector<size_t> out;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].donor < 0) out.push_back(i);
  }
  return out;
}

Result<KvScheme> KvScheme::affine_uniform(uint64_t bits, uint64_t group, uint64_t start) {
  GYRE_TRY(check_bits("kv bits", bits));
  GYRE_TRY(check_start(start));
  if (!is_code_group(group))
    return fail(ErrorCode::usage, "kv group", std::to_string(group), "32, 64 or 128");
  KvScheme made;
  made.kind_ = SchemeKind::affine_uniform;
  made.k_bits_ = made.v_bits_ = static_cast<uint32_t>(bits);
  made.group_ = static_cast<uint32_t>(group);
  made.start_ = start;
  return made;
}

Result<KvScheme> KvScheme::affine_config(std::vector<KvConfigEntry> entries, uint64_t start) {
  GYRE_TRY(check_start(start));
  for (const KvConfigEntry& entry : entries) {
    GYRE_TRY(check_bits("kv config bits", entry.bits));
    if (!is_code_group(entry.group))
      return fail(ErrorCode::usage, "kv config group", std::to_string(entry.group),
                  "32, 64 or 128");
  }
  KvScheme made;
  made.kind_ = SchemeKind::affine_config;
  made.start_ = start;
  made.entries_ = std::move(entries);
  return made;
}

Result<KvScheme> KvScheme::turbo(uint64_t k_bits, uint64_t v_bits, uint64_t start) {
  GYRE_TRY(check_bits("turbo key bits", k_bits));
  GYRE_TRY(check_bits("turbo value bits", v_bits));
  GYRE_TRY(check_start(start));
  KvScheme made;
  made.kind_ = SchemeKind::turbo;
  made.k_bits_ = static_cast<uint32_t>(k_bits);
  made.v_bits_ = static_cast<uint32_t>(v_bits);
  made.start_ = start;
  return made;
}

Result<KvScheme> KvScheme::resolve(const SchemeRequest& request) {
  using Override = SchemeRequest::Override;
  uint64_t start = 0;
  if (request.start) {
    const double given = *request.start;
    if (!(given >= 0 && given <= static_cast<double>(kMaxStart)) || given != std::floor(given))
      return fail(ErrorCode::usage, "quantizedKvStart", std::to_string(given),
                  "a nonnegative integer below 2^53");
    start = static_cast<uint64_t>(given);
  }
  if (request.turbo) return turbo(request.turbo->first, request.turbo->second, start);
  switch (request.override) {
    case Override::absent:
    case Override::off:
      return KvScheme();
    case Override::config:
      if (request.config == nullptr || request.config->empty()) {
        if (!request.missing_config_is_error) return KvScheme();
        return fail(ErrorCode::not_found, "kv_config.json", "none beside the model",
                    "one, for the scheme config");
      }
      return affine_config(*request.config, start);
    case Override::bits:
      return affine_uniform(request.bits, 64, start);
  }
  return KvScheme();
}

std::string KvScheme::label() const {
  switch (kind_) {
    case SchemeKind::bf16:
      return "bf16";
    case SchemeKind::affine_uniform:
      return "uniform-kv" + std::to_string(k_bits_);
    case SchemeKind::affine_config:
      return "mixed (kv_config.json)";
    case SchemeKind::turbo:
      return "turbo-k" + std::to_string(k_bits_) + "v" + std::to_string(v_bits_);
  }
  return "bf16";
}

std::string KvScheme::cache_key() const {
  switch (kind_) {
    case SchemeKind::bf16:
      return "bf16";
    case SchemeKind::affine_uniform:
      return "kv" + std::to_string(k_bits_) +
             (group_ != 64 ? "-g" + std::to_string(group_) : std::string()) + start_suffix(start_);
    case SchemeKind::affine_config:
      return "config" + start_suffix(start_);
    case SchemeKind::turbo:
      return label() + start_suffix(start_);
  }
  return "bf16";
}

std::string KvScheme::persistent_key(const StateIdentity& identity) const {
  std::string out = cache_key();
  if (kind_ == SchemeKind::affine_config) {
    std::map<int64_t, KvConfigEntry> last;  // what counts, in the order of caches
    for (const KvConfigEntry& entry : entries_) last[entry.layer_idx] = entry;
    std::string contents;
    for (const auto& [layer, entry] : last) {
      contents += (contents.empty() ? "" : ",") + std::to_string(layer) + "=" +
                  std::to_string(entry.bits) + "g" + std::to_string(entry.group);
    }
    out += field("layers", contents);
  }
  return out + field("model", identity.model) + field("dtype", identity.dtype) +
         field("contract", std::to_string(identity.contract_version));
}

RowCode KvScheme::cache_code(size_t cache) const {
  if (kind_ == SchemeKind::affine_uniform) return {CodeKind::affine, k_bits_, group_};
  RowCode code;
  for (const KvConfigEntry& entry : entries_) {  // the last one counts
    if (entry.layer_idx == static_cast<int64_t>(cache))
      code = {CodeKind::affine, entry.bits, entry.group};
  }
  return code;
}

LayerCode KvScheme::layer_code(std::span<const LayerShape> layers, size_t layer) const {
  const LayerShape& shape = layers[layer];
  if (shape.donor >= 0 || shape.type == LayerType::linear || kind_ == SchemeKind::bf16) return {};
  if (kind_ == SchemeKind::turbo) {
    if (shape.type == LayerType::sliding) return {};
    return {{CodeKind::turbo, k_bits_, 0}, {CodeKind::turbo, v_bits_, 0}};
  }
  const RowCode code = cache_code(cache_index(layers, layer));
  return {code, code};
}

Status KvScheme::check(std::span<const LayerShape> layers) const {
  const std::vector<size_t> caches = cache_list(layers);
  for (const KvConfigEntry& entry : entries_) {
    const std::string what = "kv_config.json: layer_idx";
    if (entry.layer_idx < 0 || static_cast<uint64_t>(entry.layer_idx) >= caches.size())
      return fail(ErrorCode::bad_file, what, std::to_string(entry.layer_idx),
                  "one of the model's " + std::to_string(caches.size()) + " caches");
    if (layers[caches[static_cast<size_t>(entry.layer_idx)]].type == LayerType::linear)
      return fail(ErrorCode::bad_file, what, std::to_string(entry.layer_idx),
                  "an attention layer; this one is recurrent");
  }
  for (size_t layer : caches) {
    const LayerCode code = layer_code(layers, layer);
    const std::string what = cache_key() + ": layer " + std::to_string(layer);
    GYRE_TRY(check_row(code.k, layers[layer].k_dim, what));
    GYRE_TRY(check_row(code.v, layers[layer].v_dim, what));
  }
  return {};
}

SchemeDescription KvScheme::describe(std::span<const LayerShape> layers) const {
  SchemeDescription out;
  out.mode = label();
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].donor >= 0) {
      ++out.shared_layers;
      continue;
    }
    if (layers[i].type == LayerType::linear) {
      ++out.recurrent_layers;
      continue;
    }
    ++(layers[i].type == LayerType::sliding ? out.sliding_window : out.global);
    const RowCode code = layer_code(layers, i).k;
    const std::string name = code.kind == CodeKind::turbo    ? label()
                             : code.kind == CodeKind::affine ? "kv" + std::to_string(code.bits)
                                                             : "bf16";
    const auto found =
        std::ranges::find(out.layers, name, &std::pair<std::string, uint32_t>::first);
    if (found == out.layers.end()) {
      out.layers.emplace_back(name, 1);
    } else {
      ++found->second;
    }
  }
  return out;
}

uint64_t KvScheme::bytes_at(std::span<const LayerShape> layers, uint64_t tokens) const {
  uint64_t total = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    const LayerShape& shape = layers[i];
    if (shape.donor >= 0) continue;
    if (shape.type == LayerType::linear) {
      total = saturating_add(total, shape.state_bytes);
      continue;
    }
    const LayerCode code = tokens > start_ ? layer_code(layers, i) : LayerCode{};
    const bool bounded = shape.type == LayerType::sliding && shape.window > 0;
    const uint64_t stored = bounded ? std::min<uint64_t>(tokens, shape.window) : tokens;
    const uint64_t rows =
        saturating_add(code.k.row_bytes(shape.k_dim), code.v.row_bytes(shape.v_dim));
    total = saturating_add(total,
                           saturating_multiply(saturating_multiply(shape.kv_heads, rows), stored));
  }
  return total;
}

bool KvScheme::batchable(std::span<const LayerShape> layers,
                         const std::function<bool(size_t)>& can_convert,
                         bool delayed_affine) const {
  if (kind_ == SchemeKind::bf16) return true;
  if (!can_convert) return false;  // a configuration alone never authorises batching
  if (start_ > 0 && kind_ != SchemeKind::turbo && !delayed_affine) return false;
  const std::vector<size_t> caches = cache_list(layers);
  if (kind_ != SchemeKind::affine_config) {
    for (size_t cache = 0; cache < caches.size(); ++cache) {
      if (layers[caches[cache]].type != LayerType::linear && !can_convert(cache)) return false;
    }
    return true;
  }
  for (const KvConfigEntry& entry : entries_) {
    if (entry.layer_idx < 0 || static_cast<uint64_t>(entry.layer_idx) >= caches.size())
      return false;
    const auto cache = static_cast<size_t>(entry.layer_idx);
    if (layers[caches[cache]].type == LayerType::linear || !can_convert(cache)) return false;
  }
  return true;
}

}  // namespace gyre::kv
