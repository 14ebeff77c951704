// IQ4_NL, 18 bytes for 32: f16 d | 16 bytes of nibbles, each an index into the codebook.
// weight = d * (code - 128), code = codebook value + 128
#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

void unpack(const uint8_t* block, Codes& out) {
  out.scale = load_f16(block);
  unpack_codebook(block + 2, kIq4Codes, out.code);
}

void pack(const Codes& codes, uint8_t* block) {
  store_f16(codes.scale, block);
  pack_codebook(codes.code, kIq4Codes, block + 2);
}

void quantise(const float* x, Codes& out) {
  search_scaled(kIq4Levels, x, out);
}

}  // namespace

constinit const Format kIq4Nl = {
    {Family::scaled, 32, 32, 128, false, 241}, unpack, pack, quantise, {0, -1}};

}  // namespace gyre::quant
