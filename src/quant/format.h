// Inside of quant/: what each format's file provides, and how bytes are read.
#pragma once

#include <bit>
#include <cstring>

#include "numerics/half.h"
#include "quant/codes.h"

namespace gyre::quant {

struct Format {
  Traits traits;
  // Null for plain. `out` arrives with zeros; pack(unpack(block)) gives the block's bytes again.
  void (*unpack)(const uint8_t* block, Codes& out);
  void (*pack)(const Codes& codes, uint8_t* block);  // rounds scale, min, d and dmin to f16
  void (*quantise)(const float* x, Codes& out);      // `out` arrives with zeros
  // Where the f16 scales of a block lie; -1 = none.
  int scale_at[2];
  bool e8m0_scale = false;  // MXFP4: byte 0 is a power of two instead
};

extern const Format kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kIq4Nl, kMxfp4;
extern const Format kQ2K, kQ3K, kQ4K, kQ5K, kQ6K, kIq4Xs;
const Format& format(DType dtype);

inline uint16_t load_u16(const uint8_t* p) {
  return static_cast<uint16_t>(p[0] | (p[1] << 8));
}
inline uint32_t load_u32(const uint8_t* p) {
  return load_u16(p) | (static_cast<uint32_t>(load_u16(p + 2)) << 16);
}
inline float load_f16(const uint8_t* p) {
  return f16_to_f32(load_u16(p));
}
inline void store_u16(uint16_t value, uint8_t* p) {
  p[0] = static_cast<uint8_t>(value);
  p[1] = static_cast<uint8_t>(value >> 8);
}
inline void store_u32(uint32_t value, uint8_t* p) {
  store_u16(static_cast<uint16_t>(value), p);
  store_u16(static_cast<uint16_t>(value >> 16), p + 2);
}
inline void store_f16(float value, uint8_t* p) {
  store_u16(f32_to_f16(value), p);
}

// 16 bytes hold 32 nibbles: the low ones are k = 0..15, the high ones 16..31.
inline void unpack_nibbles(const uint8_t* bytes, uint8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = bytes[i] & 15;
    code[i + 16] = bytes[i] >> 4;
  }
}
inline void pack_nibbles(const uint8_t* code, uint8_t* bytes) {
  for (int i = 0; i < 16; ++i)
    bytes[i] = static_cast<uint8_t>((code[i] & 15) | ((code[i + 16] & 15) << 4));
}

// 128 bytes hold 256 nibbles: `run` bytes serve 2 * run codes, low nibbles first.
inline void unpack_nibble_rows(const uint8_t* bytes, int run, uint8_t* code) {
  for (int start = 0; start < 128; start += run) {
    for (int i = 0; i < run; ++i) {
      code[2 * start + i] = bytes[start + i] & 15;
      code[2 * start + run + i] = bytes[start + i] >> 4;
    }
  }
}
inline void pack_nibble_rows(const uint8_t* code, int run, uint8_t* bytes) {
  for (int start = 0; start < 128; start += run) {
    for (int i = 0; i < run; ++i) {
      const uint8_t low = code[2 * start + i], high = code[2 * start + run + i];
      bytes[start + i] = static_cast<uint8_t>((low & 15) | ((high & 15) << 4));
    }
  }
}

// 16 bytes as unpack_nibbles, through a table.
inline void unpack_codebook(const uint8_t* bytes, const uint8_t* table, uint8_t* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = table[bytes[i] & 15];
    code[i + 16] = table[bytes[i] >> 4];
  }
}
inline void pack_codebook(const uint8_t* code, const uint8_t* table, uint8_t* bytes) {
  uint8_t index[32];
  for (int i = 0; i < 32; ++i) {
    index[i] = 0;
    while (table[index[i]] != code[i]) ++index[i];  // every code comes from the table
  }
  pack_nibbles(index, bytes);
}

// Bit k of `bits` is worth 16 in code k.
inline void add_fifth_bits(uint32_t bits, uint8_t* code) {
  for (int k = 0; k < 32; ++k) code[k] = static_cast<uint8_t>(code[k] | (((bits >> k) & 1) << 4));
}
inline uint32_t fifth_bits(const uint8_t* code) {
  uint32_t bits = 0;
  for (int k = 0; k < 32; ++k) bits |= static_cast<uint32_t>(code[k] >> 4) << k;
  return bits;
}

// 32 bytes hold one more bit for 256 codes: bit j of byte l belongs to k = 32 j + l and is worth
// 1 << shift.
inline void add_high_bits(const uint8_t* bytes, int shift, uint8_t* code) {
  for (int j = 0; j < 8; ++j) {
    for (int l = 0; l < 32; ++l) code[32 * j + l] |= ((bytes[l] >> j) & 1) << shift;
  }
}
inline void pack_high_bits(const uint8_t* code, int shift, uint8_t* bytes) {
  std::memset(bytes, 0, 32);
  for (int j = 0; j < 8; ++j) {
    for (int l = 0; l < 32; ++l) bytes[l] |= (code[32 * j + l] >> shift) << j;
  }
}

// IQ4_NL and IQ4_XS share one codebook of signed bytes; here with the zero point 128 added.
inline constexpr uint8_t kIq4Codes[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                          129, 141, 153, 166, 181, 197, 217, 241};

// Q4_K and Q5_K: eight 6-bit scales and minima in 12 bytes.
void unpack_scales_and_minima(const uint8_t* bytes, Codes& out);
void pack_scales_and_minima(const Codes& codes, uint8_t* bytes);

// Q2_K and Q3_K: 64 bytes hold 256 two-bit codes. Each 32 bytes serve 128 codes: bit pair j of
// byte l is k = 32 j + l.
inline void unpack_pairs(const uint8_t* bytes, uint8_t* code) {
  for (int half = 0; half < 2; ++half) {
    for (int j = 0; j < 4; ++j) {
      for (int l = 0; l < 32; ++l)
        code[128 * half + 32 * j + l] = (bytes[32 * half + l] >> (2 * j)) & 3;
    }
  }
}
inline void pack_pairs(const uint8_t* code, uint8_t* bytes) {
  for (int i = 0; i < 64; ++i) {
    const uint8_t* first = code + 128 * (i / 32) + i % 32;
    int byte = 0;
    for (int j = 0; j < 4; ++j) byte |= (first[32 * j] & 3) << (2 * j);
    bytes[i] = static_cast<uint8_t>(byte);
  }
}

}  // namespace gyre::quant
