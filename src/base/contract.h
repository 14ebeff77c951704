// The version of the arithmetic contract (docs/contract.md). A changed order of operations anywhere
// bumps it; it is part of every digest, and of every state that outlives a process.
#pragma once

#include <cstdint>

namespace gyre {

inline constexpr uint32_t kContractVersion = 1;

}  // namespace gyre
