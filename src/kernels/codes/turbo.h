// The turbo code of one row: rotated, then each coordinate the index of a codebook value, with one
// f32 factor. Scalar and plain: the definition that a kernel's encoder must equal bit for bit.
//
// After a random rotation every coordinate of a row of norm r has nearly the density of a random
// unit vector's, times r, whatever the row was; so one codebook, best for that density
// (Lloyd-Max), serves all models and layers. A dot product survives rotation: attention rotates
// the query once and reads the codes, and turns the summed values back once.
//
// Row bytes (docs/formats/kv.md): the codes as a little-endian bit stream, then the factor as a
// little-endian f32, or, of a grouped row, a bf16 factor for each 64 values. Callers own all memory
// and have opened a FloatEnvironment; a Rotation is a value, which any thread may use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/codes/row_code.h"

namespace gyre::kernels {

// Part of the contract: the signs of every rotation that Gyre stores.
inline constexpr uint64_t kTurboSeed = 0x6779'7265'7475'7262;

// Random signs, then a Hadamard transform, orthogonal; for rows of one length.
//
// n = the largest power of two not above the length. When the length is n: one pass over the row.
// Otherwise three passes, over its first n values, its last n, its first n again; they overlap,
// so that every value spreads over the row. A pass: flip signs; butterflies (a + b, a - b) at
// distance 1, 2, 4, ... n / 2; multiply by 1 / sqrt(n) as f32. Pass p flips value i where bit
// i % 32 of word 0 of philox4x32({i / 32, p, 0, 0}, seed) is set.
class Rotation {
 public:
  // Lengths that check_row() accepts for turbo; unsupported otherwise.
  static Result<Rotation> make(uint32_t dim, uint64_t seed = kTurboSeed);

  // The rotation of what is stored: of a length that make() accepts, with kTurboSeed.
  static Rotation stored(uint32_t dim);

  uint32_t dim() const { return dim_; }
  void forward(std::span<float> row) const;
  void backward(std::span<float> row) const;

  // What a pass does, for kernels: to values [start(pass), start(pass) + block()).
  uint32_t passes() const { return passes_; }
  uint32_t block() const { return block_; }
  uint32_t start(uint32_t pass) const { return pass == 1 ? dim_ - block_ : 0; }
  float scale() const { return scale_; }
  // Bit i % 32 of word i / 32: whether value i of the pass is flipped.
  const uint32_t* flips(uint32_t pass) const { return flips_.data() + pass * kFlipWords; }

 private:
  static constexpr uint32_t kFlipWords = 32;
  using Flips = std::array<uint32_t, 3 * kFlipWords>;
  static constexpr Flips make_flips(uint64_t seed);
  Rotation(uint32_t dim, const Flips& flips);

  uint32_t dim_ = 0, block_ = 0, passes_ = 0;
  float scale_ = 1.0f;
  Flips flips_;
};

// The positive half of a codebook, ascending, as bf16; code c of 2^bits stands for
// -half[2^(bits-1) - 1 - c] below the middle and half[c - 2^(bits-1)] from it on. Made for variance
// 1, for the largest of the dimensions 32, 64, 128, 256, 512 that is not above `dim`.
std::span<const uint16_t> turbo_codebook(uint32_t dim, uint32_t bits);
float turbo_value(std::span<const uint16_t> codebook, uint32_t code);

// The whole codebook by code, and, for at most 16 values, their low and high bytes.
struct TurboTable {
  alignas(64) uint16_t value[256];
  uint8_t low[16], high[16];
};
const TurboTable& turbo_table(uint32_t dim, uint32_t bits);

// x: one row of rotation.dim() values; out: RowCode{turbo, bits}.row_bytes(dim) bytes.
//   w = bf16 operands of x, times 2^-e, 2^e = the largest power of two not above their maximum
//   S = lane sum of fma(w, w, .), y = rotated w, z_i = y_i * sqrt(dim / S)
//   code_i: of the value nearest to z_i (borders (a + b) / 2, a border counts inwards)
//   factor = lane sum of fma(y, value, .) / lane sum of fma(value, value, .) * 2^e
// The factor that loses least, in place of the norm. A zero row has factor 0 and codes 0. A NaN, an
// infinity or a magnitude of 2^100 or more: the row becomes the zero row, the result is false.
bool turbo_encode_row(const Rotation& rotation, uint32_t bits, std::span<const float> x,
                      std::byte* out);
// factor * value for each code, rotated still.
void turbo_decode_rotated(uint32_t bits, const std::byte* row, std::span<float> out);
// And turned back.
void turbo_decode_row(const Rotation& rotation, uint32_t bits, const std::byte* row,
                      std::span<float> out);

// A grouped row, RowCode{turbo, bits, kTurboGroup}. x: a rotated row (perhaps less an anchor), all
// finite, below 2^106. For each group, n values of it:
//   y = the group times 2^-e, 2^e = the largest power of two not above its maximum magnitude
//   z_i = y_i * sqrt(n / lane sum of fma(y, y, .)), codes in the codebook of n values as above
//   factor = bf16 operand of (lane sum of fma(y, value, .) / lane sum of fma(value, value, .) *
//   2^e)
// A group of magnitudes below 2^-100 has factor 0 and codes 0.
void turbo_encode_groups(uint32_t bits, std::span<const float> x, std::byte* out);
// factor * value for each code.
void turbo_decode_groups(uint32_t bits, const std::byte* row, std::span<float> out);

}  // namespace gyre::kernels
