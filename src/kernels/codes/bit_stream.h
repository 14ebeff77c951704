// Codes of 1 to 8 bits in one little-endian bit stream: code i in bits [i * bits, (i + 1) * bits),
// bit 0 = lowest bit of byte 0. A stream of a multiple of 8 codes fills whole bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gyre::kernels {

// ORs code i (below 2^bits) into a stream that was zeroed.
inline void put_code(std::byte* stream, size_t i, uint32_t bits, uint32_t code) {
  const size_t bit = i * bits;
  const uint32_t shifted = code << (bit % 8);
  stream[bit / 8] |= static_cast<std::byte>(shifted & 0xff);
  if (bit % 8 + bits > 8) stream[bit / 8 + 1] |= static_cast<std::byte>(shifted >> 8);
}

inline uint32_t get_code(const std::byte* stream, size_t i, uint32_t bits) {
  const size_t bit = i * bits;
  uint32_t pair = std::to_integer<uint32_t>(stream[bit / 8]);
  if (bit % 8 + bits > 8) pair |= std::to_integer<uint32_t>(stream[bit / 8 + 1]) << 8;
  return (pair >> (bit % 8)) & ((1u << bits) - 1);
}

// A 16-bit number, lowest byte first.
inline void put_u16(std::byte* at, uint16_t value) {
  at[0] = static_cast<std::byte>(value & 0xff);
  at[1] = static_cast<std::byte>(value >> 8);
}
inline uint16_t get_u16(const std::byte* at) {
  return static_cast<uint16_t>(std::to_integer<uint32_t>(at[0]) | std::to_integer<uint32_t>(at[1])
                                                                      << 8);
}

}  // namespace gyre::kernels
