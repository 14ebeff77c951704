#include "os/random.h"

#include <sys/random.h>

#include <chrono>

namespace gyre::os {

uint64_t random_bits() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) == sizeof bits) return bits;
  // No entropy source at all: the clock still tells two runs apart.
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace gyre::os
