#include "engine/saved.h"

#include "base/contract.h"
#include "kv/saved_row.h"

namespace gyre::engine {
namespace {

kv::RowOwner owner(Runner& runner, const kv::KvScheme& scheme) {
  const bool wide = runner.loaded().backend().kv_code.k.kind == kernels::CodeKind::f32;
  const std::string model = runner.loaded().source().identity();
  return {model, scheme.persistent_key({model, wide ? "f32" : "bf16", kContractVersion})};
}

}  // namespace

Status save_row(Runner& runner, const kv::Sequence& row, const kv::KvScheme& scheme,
                std::span<const TokenId> ids, const std::string& note, const std::string& path) {
  return kv::save_row(path, row, owner(runner, scheme), ids, note);
}

Result<kv::Sequence> load_row(Runner& runner, const kv::KvScheme& scheme,
                              const kv::StateFile& file) {
  GYRE_ASSIGN(const kv::Sequence blank, runner.open_row(scheme));
  for (const TokenId id : file.tokens()) {
    if (id < 0 || static_cast<uint32_t>(id) >= runner.vocabulary())
      return fail(ErrorCode::bad_file, file.name() + ": token", std::to_string(id),
                  "0 to " + std::to_string(runner.vocabulary() - 1));
  }
  return kv::load_row(file, owner(runner, scheme), blank);
}

}  // namespace gyre::engine
