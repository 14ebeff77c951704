// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011): a counter-based generator. A random number
// is a pure function of its address, so sampling can be replayed, speculated and restored.
#pragma once

#include <array>
#include <cstdint>

namespace gyre::numerics {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

// 64 random bits for draw number `draw` of the token at absolute position `position` of a request's
// choice number `choice`. Key = seed (low word first); counter = position low, position high,
// choice, draw; result = word 0 + 2^32 word 1.
constexpr uint64_t random_bits(uint64_t seed, uint32_t choice, uint64_t position, uint32_t draw) {
  const PhiloxCounter out = philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, draw},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return out[0] | uint64_t{out[1]} << 32;
}

}  // namespace gyre::numerics
