#include "text/vocab.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace gyre::text {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kTypes = "tokenizer.ggml.token_type";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr size_t kMaxTokens = size_t{1} << 24;

std::string at(std::string_view key, size_t i) {
  return std::string(key) + "[" + std::to_string(i) + "]";
}

Error wrong_length(std::string_view key, size_t is, size_t tokens) {
  return fail(ErrorCode::bad_file, key, std::to_string(is) + " entries",
              std::to_string(tokens) + " as in tokenizer.ggml.tokens");
}

uint8_t kind_of(int64_t type) {
  constexpr uint8_t kKinds[] = {0, kNormal, kUnknown, kControl, kUserDefined, kUnused, kByte};
  return kKinds[type];
}

// Floats as integers in descending order of value; -0 equals 0.
uint32_t descending(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value == 0 ? 0.0f : value);
  return bits >> 31 ? bits : 0x7FFFFFFFu - bits;
}

template <class T>
const std::vector<T>* array_of(const loaders::MetaValue* value) {
  return value == nullptr ? nullptr : std::get_if<std::vector<T>>(value);
}

uint64_t mix(uint64_t h) {
  h *= 0x9E3779B97F4A7C15u;
  return h ^ h >> 29;
}

}  // namespace

uint64_t hash_bytes(const char* data, size_t size) {
  uint64_t h = size * 0xC2B2AE3D27D4EB4Fu, word;
  const char* const end = data + size;
  for (; end - data >= 8; data += 8) {
    std::memcpy(&word, data, 8);
    h = mix(h ^ word);
  }
  word = 0;
  if (end != data) std::memcpy(&word, data, static_cast<size_t>(end - data));
  h = mix(h ^ word);
  return mix(h ^ h >> 32);
}

Result<const std::vector<std::string>*> string_array(const loaders::WeightSource& source,
                                                     std::string_view key) {
  const loaders::MetaValue* value = source.meta(key);
  if (value == nullptr) return fail(ErrorCode::bad_file, key, "missing", "an array of strings");
  const auto* strings = array_of<std::string>(value);
  if (strings == nullptr)
    return fail(ErrorCode::bad_file, key, "another type", "an array of strings");
  return strings;
}

Status Vocab::read_texts(const loaders::WeightSource& source) {
  GYRE_ASSIGN(const auto* tokens, string_array(source, kTokens));
  const size_t n = tokens->size();
  if (n == 0 || n > kMaxTokens) {
    return fail(ErrorCode::bad_file, kTokens, std::to_string(n) + " tokens", "1 to 16777216");
  }
  size_t bytes = 0;
  for (const std::string& t : *tokens) bytes += t.size();
  if (bytes > std::numeric_limits<uint32_t>::max()) {
    return fail(ErrorCode::bad_file, kTokens, std::to_string(bytes) + " bytes", "less than 4 GiB");
  }
  texts_.reserve(bytes);
  offsets_.reserve(n + 1);
  slots_.resize(std::bit_ceil(2 * n));
  const size_t mask = slots_.size() - 1;
  for (size_t id = 0; id < n; ++id) {
    const std::string& t = (*tokens)[id];
    offsets_.push_back(static_cast<uint32_t>(texts_.size()));
    texts_ += t;
    if (t.empty()) continue;  // a hole: never found
    const uint64_t hash = hash_bytes(t.data(), t.size());
    const uint32_t tag = static_cast<uint32_t>(hash >> 32);
    size_t at_slot = hash & mask;
    for (; slots_[at_slot].id >= 0; at_slot = (at_slot + 1) & mask) {
      if (slots_[at_slot].tag == tag && (*tokens)[slots_[at_slot].id] == t) {
        return fail(ErrorCode::bad_file, at(kTokens, id), "'" + t + "'",
                    "no token twice, it is also number " + std::to_string(slots_[at_slot].id));
      }
    }
    slots_[at_slot] = {tag, static_cast<TokenId>(id)};
  }
  offsets_.push_back(static_cast<uint32_t>(texts_.size()));
  return {};
}

TokenId Vocab::find(std::string_view text) const {
  const uint64_t hash = hash_bytes(text.data(), text.size());
  const uint32_t tag = static_cast<uint32_t>(hash >> 32);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return -1;
    if (slot.tag == tag && this->text(slot.id) == text) return slot.id;
  }
}

TokenId Vocab::find_byte(uint8_t byte) const {
  constexpr char kHex[] = "0123456789ABCDEF";
  const char name[6] = {'<', '0', 'x', kHex[byte >> 4], kHex[byte & 15], '>'};
  return find({name, sizeof(name)});
}

Status Vocab::read_kinds(const loaders::WeightSource& source, bool required) {
  const size_t n = static_cast<size_t>(size());
  kinds_.assign(n, kNormal);
  const loaders::MetaValue* value = source.meta(kTypes);
  if (value == nullptr && !required) return {};
  const auto* is_signed = array_of<int64_t>(value);
  const auto* is_unsigned = array_of<uint64_t>(value);
  if (is_signed == nullptr && is_unsigned == nullptr) {
    return fail(ErrorCode::bad_file, kTypes, value == nullptr ? "missing" : "another type",
                "an array of integers");
  }
  const size_t count = is_signed ? is_signed->size() : is_unsigned->size();
  if (count != n) return wrong_length(kTypes, count, n);
  for (size_t i = 0; i < n; ++i) {
    const uint64_t type = is_signed ? static_cast<uint64_t>((*is_signed)[i]) : (*is_unsigned)[i];
    if (type > 6) {
      const std::string shown = is_signed ? std::to_string((*is_signed)[i]) : std::to_string(type);
      return fail(ErrorCode::bad_file, at(kTypes, i), shown, "0 to 6");
    }
    kinds_[i] = kind_of(static_cast<int64_t>(type));
  }
  return {};
}

Status Vocab::read_scores(const loaders::WeightSource& source) {
  const loaders::MetaValue* value = source.meta(kScores);
  const auto* scores = array_of<double>(value);
  if (scores == nullptr) {
    return fail(ErrorCode::bad_file, kScores, value == nullptr ? "missing" : "another type",
                "an array of floats");
  }
  const size_t n = static_cast<size_t>(size());
  if (scores->size() != n) return wrong_length(kScores, scores->size(), n);
  orders_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const double score = (*scores)[i];
    if (std::isnan(score) || std::abs(score) > std::numeric_limits<float>::max()) {
      return fail(ErrorCode::bad_file, at(kScores, i), std::to_string(score), "a finite number");
    }
    orders_[i] = descending(static_cast<float>(score));
  }
  return {};
}

Status Vocab::read_ids(const loaders::WeightSource& source, const Defaults& defaults) {
  const auto read = [&](std::string_view name, TokenId missing) -> Result<TokenId> {
    const std::string key = "tokenizer.ggml." + std::string(name) + "_token_id";
    if (source.meta(key) == nullptr) return has(missing) ? missing : -1;
    GYRE_ASSIGN(const uint64_t id, source.get_u64(key));
    if (id >= static_cast<uint64_t>(size())) {
      return fail(ErrorCode::bad_file, key, std::to_string(id),
                  "less than " + std::to_string(size()));
    }
    return static_cast<TokenId>(id);
  };
  GYRE_ASSIGN(bos_, read("bos", defaults.bos));
  GYRE_ASSIGN(eos_, read("eos", defaults.eos));
  GYRE_ASSIGN(unknown_, read("unknown", defaults.unknown));
  GYRE_ASSIGN(const TokenId eot, read("eot", -1));
  GYRE_ASSIGN(const TokenId eom, read("eom", -1));
  GYRE_ASSIGN(const TokenId pad, read("fim_pad", -1));
  GYRE_ASSIGN(const TokenId repository, read("fim_rep", -1));
  GYRE_ASSIGN(const TokenId separator, read("fim_sep", -1));
  GYRE_ASSIGN(add_bos_, source.get_bool_or("tokenizer.ggml.add_bos_token", defaults.add_bos));
  GYRE_ASSIGN(add_eos_, source.get_bool_or("tokenizer.ggml.add_eos_token", false));
  for (const auto& [adds, id, name] :
       {std::tuple(add_bos_, bos_, "bos"), std::tuple(add_eos_, eos_, "eos")}) {
    if (adds && id < 0) {
      return fail(ErrorCode::bad_file, std::string("tokenizer.ggml.") + name + "_token_id",
                  "missing", std::string("an id, because add_") + name + "_token is true");
    }
  }
  find_ends(eot, eom, pad, repository, separator);
  return {};
}

Result<Vocab> Vocab::make(const loaders::WeightSource& source, const Defaults& defaults) {
  Vocab out;
  GYRE_TRY(out.read_texts(source));
  GYRE_TRY(out.read_kinds(source, defaults.needs_scores));
  if (defaults.needs_scores) GYRE_TRY(out.read_scores(source));
  GYRE_TRY(out.read_ids(source, defaults));
  out.mark_space_swallowers(source);
  return out;
}

}  // namespace gyre::text
