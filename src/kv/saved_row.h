// A row as a state file: saved as it stands, loaded without computing anything, continued with the
// same bytes. Every place and code.
//
// Tokens are the row's ids from position 0 on, at least as many as it has positions; later ones are
// drawn but not computed. Loading makes a new row: after an error there is none. Errors: those of
// kv/state_file.h; bad_file also where parts and layers disagree; out_of_memory, context_overflow.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kv/sequence.h"
#include "kv/state_file.h"

namespace gyre::kv {

// Whose state it is, beside what the row itself says (its signature).
struct RowOwner {
  std::string model;   // the weights' digest
  std::string scheme;  // KvScheme::persistent_key
};

// Between steps and outside rounds. `note` is the caller's (a seed, a request).
Status save_row(const std::string& path, const Sequence& row, const RowOwner& owner,
                std::span<const int32_t> tokens, std::string_view note = {});

// The same bytes in memory.
Result<Array<std::byte>> pack_row(const Sequence& row, const RowOwner& owner,
                                  std::span<const int32_t> tokens, std::string_view note = {});

// A row of the form of `blank` (which stays as it is) with the file's state.
Result<Sequence> load_row(const StateFile& file, const RowOwner& owner, const Sequence& blank);

}  // namespace gyre::kv
