// Cache keys back to schemes: the grammar of --kv.
//   key   = "bf16" | (code | "config") ["-start" number]
//   code  = "kv" bits ["-g" group] | "turbo-k" bits "v" bits | "anchor-k" bits "v" bits
// Numbers have no leading zeros. What a key leaves out (group 64, start 0) may not be written, so
// that every scheme has one key.
#include "kv/scheme.h"

namespace gyre::kv {
namespace {

Error bad_key(std::string_view text) {
  return fail(ErrorCode::usage, "kv scheme", std::string(text.substr(0, 60)),
              "bf16, kv8, kv4-g32, kv4-g32-start128, config, turbo-k8v4 or anchor-k4v4");
}

Result<KvScheme> read_key(std::string_view text, const std::vector<KvConfigEntry>* config) {
  const size_t cut = text.find("-start");
  const std::string_view name = text.substr(0, cut);
  uint64_t start = 0;
  if (cut != std::string_view::npos) {
    std::string_view rest = text.substr(cut + std::string_view("-start").size());
    const auto given = take_number(rest);
    if (!given || !rest.empty() || name == "bf16") return bad_key(text);
    start = *given;
  }
  if (name == "config") {
    SchemeRequest request;
    request.override = SchemeRequest::Override::config;
    request.config = config;
    request.start = static_cast<double>(start);
    return KvScheme::resolve(request);
  }
  const std::optional<CodeName> read = read_code_name(name);
  if (!read) return bad_key(text);
  switch (read->kind) {
    case CodeName::Kind::bf16:
      return KvScheme();
    case CodeName::Kind::affine:
      return KvScheme::affine_uniform(read->k_bits, read->group, start);
    case CodeName::Kind::turbo:
      return KvScheme::turbo(read->k_bits, read->v_bits, start);
    case CodeName::Kind::anchored:
      return KvScheme::anchored(read->k_bits, read->v_bits, start);
  }
  return bad_key(text);
}

}  // namespace

Result<KvScheme> KvScheme::parse(std::string_view key, const std::vector<KvConfigEntry>* config) {
  GYRE_ASSIGN(KvScheme scheme, read_key(key, config));
  if (scheme.cache_key() != key)
    return fail(ErrorCode::usage, "kv scheme", key, "its shortest form, " + scheme.cache_key());
  return scheme;
}

}  // namespace gyre::kv
