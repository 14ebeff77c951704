// Random bits from the system, for seeds that nobody gave.
#pragma once

#include <cstdint>

namespace gyre::os {

uint64_t random_bits();

}  // namespace gyre::os
