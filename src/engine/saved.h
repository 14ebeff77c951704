// A runner's rows in state files: whose they are is said by the model and the scheme.
#pragma once

#include <string>

#include "engine/runner.h"
#include "kv/state_file.h"

namespace gyre::engine {

// `ids` from position 0 on, at least as many as the row has positions. Errors: kv/saved_row.h.
Status save_row(Runner& runner, const kv::Sequence& row, const kv::KvScheme& scheme,
                std::span<const TokenId> ids, const std::string& note, const std::string& path);
// Refused by name: another model, scheme, contract, or a file that is not whole.
Result<kv::Sequence> load_row(Runner& runner, const kv::KvScheme& scheme,
                              const kv::StateFile& file);

}  // namespace gyre::engine
