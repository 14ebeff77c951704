// Cache keys back to schemes: the grammar of --kv.
//   key   = "bf16" | "kv" bits ["-g" group] start | "config" start | turbo start
//   turbo = "turbo-k" bits "v" bits           start = ["-start" number]
// Numbers have no leading zeros. What a key leaves out (group 64, start 0) may not be written, so
// that every scheme has one key.
#include "kv/scheme.h"

namespace gyre::kv {
namespace {

constexpr const char* kKeys = "bf16, kv8, kv4-g32, kv4-g32-start128, config or turbo-k8v4";

class Key {
 public:
  explicit Key(std::string_view text) : rest_(text) {}
  bool empty() const { return rest_.empty(); }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  // A number without leading zeros, below 10^18.
  std::optional<uint64_t> number() {
    size_t digits = 0;
    uint64_t value = 0;
    while (digits < rest_.size() && rest_[digits] >= '0' && rest_[digits] <= '9') {
      if (digits == 18) return std::nullopt;
      value = value * 10 + static_cast<uint64_t>(rest_[digits++] - '0');
    }
    if (digits == 0 || (digits > 1 && rest_[0] == '0')) return std::nullopt;
    rest_.remove_prefix(digits);
    return value;
  }
  std::optional<std::pair<uint64_t, uint64_t>> k_and_v() {
    const auto k = number();
    if (!k || !take("v")) return std::nullopt;
    const auto v = number();
    if (!v) return std::nullopt;
    return std::pair(*k, *v);
  }

 private:
  std::string_view rest_;
};

Error bad_key(std::string_view text) {
  return fail(ErrorCode::usage, "kv scheme", std::string(text.substr(0, 60)), kKeys);
}

// The optional start at the end of a key, which must then be used up.
Result<uint64_t> take_start(Key& key, std::string_view text) {
  uint64_t start = 0;
  if (key.take("-start")) {
    const auto given = key.number();
    if (!given) return bad_key(text);
    start = *given;
  }
  if (!key.empty()) return bad_key(text);
  return start;
}

Result<KvScheme> read_key(std::string_view text, const std::vector<KvConfigEntry>* config) {
  Key key(text);
  if (text == "bf16") return KvScheme();
  if (key.take("config")) {
    GYRE_ASSIGN(const uint64_t start, take_start(key, text));
    SchemeRequest request;
    request.override = SchemeRequest::Override::config;
    request.config = config;
    request.start = static_cast<double>(start);
    return KvScheme::resolve(request);
  }
  if (key.take("turbo-k")) {
    const auto bits = key.k_and_v();
    if (!bits) return bad_key(text);
    GYRE_ASSIGN(const uint64_t start, take_start(key, text));
    return KvScheme::turbo(bits->first, bits->second, start);
  }
  if (key.take("anchor-k")) {
    const auto bits = key.k_and_v();
    if (!bits) return bad_key(text);
    GYRE_TRY(take_start(key, text));
    return fail(ErrorCode::unsupported, "kv scheme", text,
                "another one: anchored codes are not built yet");
  }
  if (!key.take("kv")) return bad_key(text);
  const auto bits = key.number();
  if (!bits) return bad_key(text);
  std::optional<uint64_t> group = 64;
  if (key.take("-g")) group = key.number();
  if (!group) return bad_key(text);
  GYRE_ASSIGN(const uint64_t start, take_start(key, text));
  return KvScheme::affine_uniform(*bits, *group, start);
}

}  // namespace

Result<KvScheme> KvScheme::parse(std::string_view key, const std::vector<KvConfigEntry>* config) {
  GYRE_ASSIGN(KvScheme scheme, read_key(key, config));
  if (scheme.cache_key() != key)
    return fail(ErrorCode::usage, "kv scheme", key, "its shortest form, " + scheme.cache_key());
  return scheme;
}

}  // namespace gyre::kv
