// The definition of the linear operator and of activation quantisation, from the file's rows, row
// by row as the contract's table says (docs/contract.md). Every fast kernel equals it byte for
// byte.
#include "kernels/reference/linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "numerics/half.h"
#include "quant/codes.h"
#include "quant/rows.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kTileColumns = 64;  // columns served by one decoding of a row
constexpr uint32_t kSegmentBlocks = kSegment / kActBlock;

// One column of one activation block.
struct Block {
  const int8_t* q;
  float d;
  int32_t sum16[2];  // of the two halves
  int32_t sum() const { return sum16[0] + sum16[1]; }
};

Block activation_block(const Activations& x, uint32_t block, uint32_t column) {
  const size_t cell = size_t{block} * x.stride + column;
  const int32_t* sums = x.sum16 + size_t{block} * 2 * x.stride + column;
  return {x.q + cell * kActBlock, x.d[cell], {sums[0], sums[x.stride]}};
}

int32_t dot(const int16_t* w, const int8_t* q, uint32_t n) {
  int32_t sum = 0;
  for (uint32_t i = 0; i < n; ++i) sum += w[i] * q[i];
  return sum;
}

// code - zero of one segment's codes; the tail of a short segment is 0.
void centre(const uint8_t* code, uint32_t n, int zero, int16_t* out) {
  for (uint32_t k = 0; k < n; ++k) out[k] = static_cast<int16_t>(code[k] - zero);
}

// Scale groups of 32: t = fma(d_a, idot, +0); s = fma(scale, t, s); s = fma(min, d_a * sum q, s).
void add_scaled_segment(const TensorView& file, const std::byte* row, uint32_t segment,
                        const Activations& x, uint32_t first, uint32_t count, float* out) {
  const quant::Traits& traits = quant::traits(file.dtype);
  float s[kTileColumns] = {};
  const uint32_t end = std::min(file.cols / kActBlock, (segment + 1) * kSegmentBlocks);
  for (uint32_t b = segment * kSegmentBlocks; b < end; ++b) {
    quant::Codes codes;
    int16_t w[kActBlock];
    quant::decode_codes(file.dtype, row + size_t{b} * info(file.dtype).bytes, codes);
    centre(codes.code, kActBlock, traits.zero, w);
    for (uint32_t c = 0; c < count; ++c) {
      const Block a = activation_block(x, b, first + c);
      const float t = std::fma(a.d, static_cast<float>(dot(w, a.q, kActBlock)), 0.0f);
      s[c] = std::fma(codes.scale, t, s[c]);
      if (traits.has_min) s[c] = std::fma(codes.min, a.d * static_cast<float>(a.sum()), s[c]);
    }
  }
  for (uint32_t c = 0; c < count; ++c) out[c] = out[c] + s[c];
}

// Super-blocks of 256, one to a segment: u = sum of sub_scale * idot, s = fma(d_a, u, s); minima
// t = fma(sub_min, d_a * sum q, t) per group; out = fma(d, s, out); out = fma(-dmin, t, out).
void add_super_segment(const TensorView& file, const std::byte* row, uint32_t segment,
                       const Activations& x, uint32_t first, uint32_t count, float* out) {
  const quant::Traits& traits = quant::traits(file.dtype);
  const uint32_t group = traits.group, groups = kActBlock / group;  // in one activation block
  quant::Codes codes;
  int16_t w[kSegment];
  quant::decode_codes(file.dtype, row + size_t{segment} * info(file.dtype).bytes, codes);
  centre(codes.code, kSegment, traits.zero, w);
  float s[kTileColumns] = {}, t[kTileColumns] = {};
  for (uint32_t b = 0; b < kSegmentBlocks; ++b) {
    for (uint32_t c = 0; c < count; ++c) {
      const Block a = activation_block(x, segment * kSegmentBlocks + b, first + c);
      int32_t u = 0;
      for (uint32_t g = 0; g < groups; ++g) {
        const int32_t idot = dot(w + b * kActBlock + g * group, a.q + g * group, group);
        u += codes.sub_scale[b * groups + g] * idot;
      }
      s[c] = std::fma(a.d, static_cast<float>(u), s[c]);
      for (uint32_t g = 0; g < groups && traits.has_min; ++g) {
        const int32_t sum = groups == 2 ? a.sum16[g] : a.sum();
        const float sub_min = codes.sub_min[b * groups + g];
        t[c] = std::fma(sub_min, a.d * static_cast<float>(sum), t[c]);
      }
    }
  }
  for (uint32_t c = 0; c < count; ++c) {
    out[c] = std::fma(codes.d, s[c], out[c]);
    if (traits.has_min) out[c] = std::fma(-codes.dmin, t[c], out[c]);
  }
}

uint16_t load_u16(const std::byte* p) {
  uint16_t x;
  std::memcpy(&x, p, sizeof x);
  return x;
}

// bf16 weights and activations: pairs ascending, the odd element first.
void add_bf16_segment(const TensorView& file, const std::byte* row, uint32_t segment,
                      const Activations& x, uint32_t first, uint32_t count, float* out) {
  const uint32_t begin = segment * kSegment, end = std::min(file.cols, begin + kSegment);
  const size_t x_stride = (size_t{x.k} + 1) / 2 * 2;
  for (uint32_t c = 0; c < count; ++c) {
    const uint16_t* xs = x.bf16 + (first + c) * x_stride;
    float s = 0;
    for (uint32_t k = begin; k < end; k += 2) {
      for (uint32_t e = std::min(k + 2, end); e-- > k;) {
        const uint16_t w = f32_to_bf16_operand(bf16_to_f32(load_u16(row + 2 * size_t{e})));
        s = std::fma(bf16_to_f32(w), bf16_to_f32(xs[e]), s);
      }
    }
    out[c] = out[c] + s;
  }
}

// f32 and f16 weights, k ascending. `w`: the row's values.
void add_f32_segment(const float* w, uint32_t cols, uint32_t segment, const Activations& x,
                     uint32_t first, uint32_t count, float* out) {
  const uint32_t begin = segment * kSegment, end = std::min(cols, begin + kSegment);
  for (uint32_t c = 0; c < count; ++c) {
    const float* xs = x.f32 + (first + c) * x.ld;
    float s = 0;
    for (uint32_t k = begin; k < end; ++k) s = std::fma(w[k], xs[k], s);
    out[c] = out[c] + s;
  }
}

// A segment of a row as floats, for the types whose row is read so.
void add_decoded_segment(const TensorView& file, const std::byte* row, uint32_t segment,
                         const Activations& x, uint32_t first, uint32_t count, float* out) {
  const uint32_t begin = segment * kSegment, n = std::min(file.cols - begin, kSegment);
  float w[kSegment];
  quant::decode_row(file.dtype, row + row_bytes(file.dtype, begin), w, n);
  Activations part = x;
  part.f32 = x.f32 + begin;
  add_f32_segment(w, n, 0, part, first, count, out);
}

using AddSegment = void (*)(const TensorView&, const std::byte*, uint32_t, const Activations&,
                            uint32_t, uint32_t, float*);

AddSegment add_segment(DType dtype) {
  switch (quant::traits(dtype).family) {
    case quant::Family::scaled:
      return add_scaled_segment;
    case quant::Family::super:
      return add_super_segment;
    case quant::Family::plain:
      break;
  }
  return dtype == DType::bf16 ? add_bf16_segment : add_decoded_segment;
}

void multiply_rows(const LinearJob& job, const Activations& x, AddSegment add, uint32_t row_begin,
                   uint32_t row_end, uint32_t first, uint32_t count) {
  const TensorView& file = job.matrix->file;
  const uint32_t segments = (file.cols + kSegment - 1) / kSegment;
  for (uint32_t r = row_begin; r < row_end; ++r) {
    const std::byte* row = file.data + r * row_bytes(file.dtype, file.cols);
    float out[kTileColumns] = {};
    for (uint32_t s = 0; s < segments; ++s) add(file, row, s, x, first, count, out);
    for (uint32_t c = 0; c < count; ++c) {
      float* y = job.y + (first + c) * job.ldy + r;
      float value = out[c];
      if (job.bias != nullptr) value = value + job.bias[r];
      *y = job.add_to_y ? value + *y : value;
    }
  }
}

void multiply_with(const LinearJob& job, const Activations& x, AddSegment add, uint32_t panel_begin,
                   uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  const uint32_t row_end = std::min(job.matrix->rows(), panel_end * kPanelRows);
  for (uint32_t c = column_begin; c < column_end; c += kTileColumns) {
    const uint32_t count = std::min(kTileColumns, column_end - c);
    multiply_rows(job, x, add, panel_begin * kPanelRows, row_end, c, count);
  }
}

void multiply(const LinearJob& job, const Activations& x, uint32_t panel_begin, uint32_t panel_end,
              uint32_t column_begin, uint32_t column_end) {
  multiply_with(job, x, add_segment(job.matrix->dtype()), panel_begin, panel_end, column_begin,
                column_end);
}

void oracle_multiply(const LinearJob& job, const Activations& x, uint32_t panel_begin,
                     uint32_t panel_end, uint32_t column_begin, uint32_t column_end) {
  multiply_with(job, x, add_decoded_segment, panel_begin, panel_end, column_begin, column_end);
}

// The int8 form of n <= 32 values whose largest magnitude is amax < 2^100. amax < 2^-100 gives
// zeros. The scale's two low mantissa bits are cleared: 12582912 * d is exact then
// (docs/decisions/0003).
void quantise_block(const float* x, uint32_t n, float amax, Activations& out, uint32_t block,
                    uint32_t column) {
  const size_t cell = size_t{block} * out.stride + column;
  int8_t* q = out.q + cell * kActBlock;
  float* d = out.d + cell;
  int32_t* sum[2] = {out.sum16 + size_t{block} * 2 * out.stride + column};
  sum[1] = sum[0] + out.stride;
  std::memset(q, 0, kActBlock);
  *d = 0;
  *sum[0] = *sum[1] = 0;
  if (amax < 0x1p-100f) return;
  *d = std::bit_cast<float>(std::bit_cast<uint32_t>(amax / 127.0f) & ~3u);
  const float inverse = 127.0f / amax;
  for (uint32_t k = 0; k < n; ++k) {
    const long rounded = std::lrintf(x[k] * inverse);  // half to even: the environment's rounding
    q[k] = static_cast<int8_t>(std::clamp(rounded, -127l, 127l));
    *sum[k / 16] += q[k];
  }
}

// The unsigned maximum of the sign-cleared bit patterns.
uint32_t magnitude_bits(const float* x, uint32_t n) {
  uint32_t largest = 0;
  for (uint32_t k = 0; k < n; ++k)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[k]) & 0x7fffffffu);
  return largest;
}

void prepare(const float* x, size_t ld, uint32_t begin, uint32_t end, uint32_t forms,
             Activations& out, uint8_t* not_finite) {
  static constexpr float kZeros[kActBlock] = {};
  const size_t bf16_stride = (size_t{out.k} + 1) / 2 * 2;
  for (uint32_t c = begin; c < end; ++c) {
    for (uint32_t k = 0; k < out.k; k += kActBlock) {
      const float* block = x + c * ld + k;
      const uint32_t n = std::min(kActBlock, out.k - k);
      uint32_t amax = magnitude_bits(block, n);
      if (amax >= std::bit_cast<uint32_t>(kActLimit)) {
        not_finite[c] = 1;
        block = kZeros;
        amax = 0;
      }
      if (forms & kFormInt8) {
        quantise_block(block, n, std::bit_cast<float>(amax), out, k / kActBlock, c);
      }
      if (forms & kFormBf16) {
        uint16_t* to = out.bf16 + c * bf16_stride + k;
        for (uint32_t i = 0; i < n; ++i) to[i] = f32_to_bf16_operand(block[i]);
        if (n % 2 != 0) to[n] = 0;
      }
    }
  }
}

}  // namespace

const LinearOps& reference_linear_ops() {
  static constexpr LinearOps ops = {prepare, multiply};
  return ops;
}

const LinearOps& oracle_linear_ops() {
  static constexpr LinearOps ops = {prepare, oracle_multiply};
  return ops;
}

}  // namespace gyre::kernels
