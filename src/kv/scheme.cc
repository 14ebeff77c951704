#include "kv/scheme.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/attention.h"
#include "kv/saturating.h"

namespace gyre::kv {
namespace {

constexpr uint64_t kMaxStart = (uint64_t{1} << 53) - 1;  // the integers that JSON carries safely

Status check_start(uint64_t start) {
  if (start <= kMaxStart) return {};
  return fail(ErrorCode::usage, "quantizedKvStart", std::to_string(start),
              "a nonnegative integer below 2^53");
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

// `count` positions of one layer.
uint64_t rows_bytes(const LayerShape& shape, const LayerCode& code, uint64_t count) {
  const uint64_t one = code.k.row_bytes(shape.k_dim) + code.v.row_bytes(shape.v_dim);
  return saturating_multiply(saturating_multiply(shape.kv_heads, one), count);
}

// Positions [first, end) of one layer that has come to its code.
uint64_t coded_bytes(const LayerShape& shape, const LayerCode& code, uint64_t first, uint64_t end) {
  if (!code.anchored) return rows_bytes(shape, code, end - first);
  const uint64_t wide_end = std::min<uint64_t>(end, kernels::kPagePositions);
  const uint64_t wide = wide_end > first ? wide_end - first : 0;
  return saturating_add(rows_bytes(shape, kernels::kBf16Code, wide),
                        rows_bytes(shape, code, end - first - wide));
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

Result<KvScheme> KvScheme::of_one_code(SchemeKind kind, Result<LayerCode> code, uint64_t start) {
  KvScheme made;
  GYRE_ASSIGN(made.code_, std::move(code));
  GYRE_TRY(check_start(start));
  made.kind_ = kind;
  made.start_ = start;
  return made;
}

Result<KvScheme> KvScheme::affine_uniform(uint64_t bits, uint64_t group, uint64_t start) {
  return of_one_code(SchemeKind::affine_uniform, affine_code(bits, group), start);
}

Result<KvScheme> KvScheme::turbo(uint64_t k_bits, uint64_t v_bits, uint64_t start) {
  return of_one_code(SchemeKind::turbo, turbo_code(k_bits, v_bits), start);
}

Result<KvScheme> KvScheme::anchored(uint64_t k_bits, uint64_t v_bits, uint64_t start) {
  return of_one_code(SchemeKind::anchored, anchored_code(k_bits, v_bits), start);
}

Result<KvScheme> KvScheme::affine_config(std::vector<KvConfigEntry> entries, uint64_t start) {
  GYRE_TRY(check_start(start));
  for (const KvConfigEntry& entry : entries) {  // made by hand or read: a code that has a name
    const std::string name = layer_code_name(entry.code);
    GYRE_ASSIGN(const LayerCode named, parse_layer_code(name));
    if (named != entry.code)
      return fail(ErrorCode::usage, "kv config code", name,
                  "one code of K and V, as its name says");
  }
  KvScheme made;
  made.kind_ = SchemeKind::affine_config;
  made.start_ = start;
  made.entries_ = std::move(entries);
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
      return "uniform-kv" + std::to_string(code_.k.bits);
    case SchemeKind::affine_config:
      return "mixed (kv_config.json)";
    case SchemeKind::turbo:
    case SchemeKind::anchored:
      return layer_code_name(code_);
  }
  return "bf16";
}

std::string KvScheme::cache_key() const {
  if (kind_ == SchemeKind::bf16) return "bf16";
  const std::string name =
      kind_ == SchemeKind::affine_config ? std::string("config") : layer_code_name(code_);
  return name + (start_ > 0 ? "-start" + std::to_string(start_) : "");
}

std::string KvScheme::persistent_key(const StateIdentity& identity) const {
  std::string out = cache_key();
  if (kind_ == SchemeKind::affine_config) {
    std::map<int64_t, KvConfigEntry> last;  // what counts, in the order of caches
    for (const KvConfigEntry& entry : entries_) last[entry.layer_idx] = entry;
    std::string contents;
    for (const auto& [layer, entry] : last) {
      contents +=
          (contents.empty() ? "" : ",") + std::to_string(layer) + "=" + layer_code_name(entry.code);
    }
    out += field("layers", contents);
  }
  return out + field("model", identity.model) + field("dtype", identity.dtype) +
         field("contract", std::to_string(identity.contract_version));
}

const KvConfigEntry* KvScheme::entry_of(size_t cache) const {
  const KvConfigEntry* found = nullptr;
  for (const KvConfigEntry& entry : entries_) {
    if (entry.layer_idx == static_cast<int64_t>(cache)) found = &entry;
  }
  return found;
}

LayerCode KvScheme::layer_code(std::span<const LayerShape> layers, size_t layer) const {
  const LayerShape& shape = layers[layer];
  if (shape.donor >= 0 || shape.type == LayerType::linear) return {};
  switch (kind_) {
    case SchemeKind::bf16:
      return {};
    case SchemeKind::affine_uniform:
      return code_;
    case SchemeKind::turbo:
    case SchemeKind::anchored:
      return shape.type == LayerType::sliding ? LayerCode{} : code_;
    case SchemeKind::affine_config: {
      const KvConfigEntry* entry = entry_of(cache_index(layers, layer));
      return entry == nullptr ? LayerCode{} : entry->code;
    }
  }
  return {};
}

Status KvScheme::check(std::span<const LayerShape> layers) const {
  const std::vector<size_t> caches = cache_list(layers);
  const auto fits = [&](const LayerCode& code, size_t layer, const std::string& what) {
    const LayerShape& shape = layers[layer];
    return kernels::check_layout({shape.kv_heads, shape.k_dim, shape.v_dim, code}, what);
  };
  for (size_t i = 0; i < entries_.size(); ++i) {  // those that a later one overrides as well
    const KvConfigEntry& entry = entries_[i];
    const std::string what = "kv_config.json: entry " + std::to_string(i);
    if (entry.layer_idx < 0 || static_cast<uint64_t>(entry.layer_idx) >= caches.size())
      return fail(ErrorCode::bad_file, what + ": layer_idx", std::to_string(entry.layer_idx),
                  "one of the model's " + std::to_string(caches.size()) + " caches");
    const size_t layer = caches[static_cast<size_t>(entry.layer_idx)];
    if (layers[layer].type == LayerType::linear)
      return fail(ErrorCode::bad_file, what + ": layer_idx", std::to_string(entry.layer_idx),
                  "an attention layer; this one is recurrent");
    GYRE_TRY(fits(entry.code, layer, what));
  }
  if (kind_ == SchemeKind::affine_config) return {};
  for (size_t layer : caches) {
    if (layers[layer].type == LayerType::linear) continue;
    GYRE_TRY(
        fits(layer_code(layers, layer), layer, cache_key() + ": layer " + std::to_string(layer)));
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
    const LayerCode code = layer_code(layers, i);
    const std::string name = code.k.kind == CodeKind::affine
                                 ? "kv" + std::to_string(code.k.bits)  // whatever its group
                                 : layer_code_name(code);
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
    const LayerCode code = layer_code(layers, i);
    const bool bounded = shape.type == LayerType::sliding && shape.window > 0;
    const uint64_t stored = bounded ? std::min<uint64_t>(tokens, shape.window) : tokens;
    total =
        saturating_add(total, tokens > start_ ? coded_bytes(shape, code, tokens - stored, tokens)
                                              : rows_bytes(shape, kernels::kBf16Code, stored));
    if (code.anchored && tokens >= kernels::kPagePositions)  // coded already or not
      total = saturating_add(total, 2 * uint64_t{shape.kv_heads} * shape.k_dim);
  }
  return total;
}

bool KvScheme::batchable(std::span<const LayerShape> layers,
                         const std::function<bool(size_t)>& can_convert,
                         bool delayed_affine) const {
  if (kind_ == SchemeKind::bf16) return true;
  if (!can_convert) return false;  // a configuration alone never authorises batching
  const bool rotated = kind_ == SchemeKind::turbo || kind_ == SchemeKind::anchored;
  if (start_ > 0 && !rotated && !delayed_affine) return false;
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
