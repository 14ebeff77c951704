// The definition of attention over coded pages (docs/contract.md), one element at a time: the
// encoders of codes/, then a chunk's codes unpacked into plain arrays.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/attention_kernel.h"
#include "kernels/codes/affine.h"
#include "kernels/codes/bit_stream.h"
#include "kernels/codes/turbo.h"
#include "kernels/kv_page.h"
#include "numerics/functions.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kMaxDim = 1024;              // check_layout
constexpr uint32_t kMaxRowBytes = 2 * kMaxDim;  // of any code
constexpr uint32_t kBlock = 32;
constexpr uint16_t kTooLarge = 0x7180;  // 2^100 as bf16

// ---- Storing ----

bool all_below_limit(const float* x, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if ((f32_to_bf16_operand(x[i]) & 0x7fff) >= kTooLarge) return false;
  }
  return true;
}

// bf16 operands, rotated, and rounded to bf16 operands again.
void rotate_row(const Rotation& rotation, const float* x, std::span<float> out) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_f32(f32_to_bf16_operand(x[i]));
  rotation.forward(out);
  for (float& value : out) value = bf16_to_f32(f32_to_bf16_operand(value));
}

void store_rotated(Side side, uint32_t dim, const float* x, std::byte* head, uint32_t position) {
  float row[kMaxDim];
  rotate_row(Rotation::stored(dim), x, {row, dim});
  auto* cells = reinterpret_cast<uint16_t*>(head);
  for (uint32_t d = 0; d < dim; ++d)
    cells[side == Side::k ? k_index(position, d, dim) : v_index(position, d, dim)] =
        f32_to_bf16_operand(row[d]);
}

// anchor: null where nothing is subtracted.
void store_row(Side side, const LayerCode& layer, uint32_t dim, const float* x,
               const std::byte* anchor, std::byte* head, uint32_t position) {
  if (layer.rotated) return store_rotated(side, dim, x, head, position);
  const RowCode& code = side == Side::k ? layer.k : layer.v;
  std::byte row[kMaxRowBytes];
  if (code.kind == CodeKind::affine) {
    affine_encode_row(code, {x, dim}, row);
  } else if (!layer.anchored) {
    turbo_encode_row(Rotation::stored(dim), code.bits, {x, dim}, row);
  } else {
    float turned[kMaxDim];
    rotate_row(Rotation::stored(dim), x, {turned, dim});
    for (uint32_t d = 0; d < dim && anchor != nullptr; ++d)
      turned[d] = turned[d] - bf16_to_f32(get_u16(anchor + 2 * d));
    turbo_encode_groups(code.bits, {turned, dim}, row);
  }
  put_row(side, code, dim, head, position, row);
}

// ---- Queries ----

// The int8 form of n values of the magnitude bits amax < 2^100 (docs/decisions/0003); returns the
// scale.
float quantise(const float* x, uint32_t n, int8_t* q, int32_t* sum) {
  uint32_t largest = 0;
  for (uint32_t i = 0; i < n; ++i)
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  std::fill(q, q + n, int8_t{0});
  *sum = 0;
  const auto amax = std::bit_cast<float>(largest);
  if (!(amax >= 0x1p-100f && amax < 0x1p100f)) return 0.0f;
  const float inverse = 127.0f / amax;
  for (uint32_t i = 0; i < n; ++i) {
    const long rounded = std::lrintf(x[i] * inverse);  // half to even: the environment's rounding
    q[i] = static_cast<int8_t>(std::clamp(rounded, -127l, 127l));
    *sum += q[i];
  }
  return std::bit_cast<float>(std::bit_cast<uint32_t>(amax / 127.0f) & ~3u);
}

bool below(const float* x, uint32_t n, float limit) {
  for (uint32_t i = 0; i < n; ++i) {
    if (!(std::fabs(x[i]) < limit)) return false;
  }
  return true;
}

void begin_affine(float* x, uint32_t row, uint32_t dim, AttentionWork& work) {
  for (uint32_t b = 0; b < dim / kBlock; ++b) {
    int32_t sum;
    const size_t cell = size_t{row} * (work.ld / kBlock) + b;
    const float d =
        quantise(x + b * kBlock, kBlock, work.q_codes + size_t{row} * work.ld + b * kBlock, &sum);
    work.q_scale[cell] = d;
    work.q_sum[cell] = static_cast<float>(sum);
  }
}

// The bf16 dot of n values, from +0: pairs ascending, the odd element of a pair first.
template <class Value>
float dot(const float* x, uint32_t n, Value value) {
  float s = 0.0f;
  for (uint32_t i = 0; i < n; i += 2) {
    s = std::fma(value(i + 1), x[i + 1], s);
    s = std::fma(value(i), x[i], s);
  }
  return s;
}

// And in segments of 256.
template <class Value>
float segments_dot(const float* x, uint32_t n, Value value) {
  float out = 0.0f;
  for (uint32_t begin = 0; begin < n; begin += kOperands)
    out = out + dot(x + begin, std::min(kOperands, n - begin),
                    [&](uint32_t i) { return value(begin + i); });
  return out;
}

// The rotated operands of q * q_scale, and their dot with the anchor. Rows of work.q are dense.
void begin(const AttentionTile& tile, AttentionWork& work) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.k_dim;
  const bool affine = job.layout.code.k.kind == CodeKind::affine;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const float* from = job.q + tile.query(r) * job.q_ld + size_t{tile.head(r)} * dim;
    float* x = work.q + size_t{r} * dim;
    for (uint32_t d = 0; d < dim; ++d) x[d] = from[d] * job.q_scale;
    if (!affine) {
      Rotation::stored(dim).forward({x, dim});
      for (uint32_t d = 0; d < dim; ++d) x[d] = bf16_to_f32(f32_to_bf16_operand(x[d]));
    }
    if (!below(x, dim, affine ? 0x1p100f : HUGE_VALF)) {
      std::fill(x, x + dim, 0.0f);
      flag_not_finite(job, tile.query(r));
    }
    if (affine) begin_affine(x, r, dim, work);
    work.anchor_dot[r] = 0.0f;
    if (const std::byte* anchor = tile.anchor(); anchor != nullptr)
      work.anchor_dot[r] = segments_dot(
          x, dim, [&](uint32_t d) { return bf16_to_f32(get_u16(anchor + size_t{2} * d)); });
  }
}

// ---- One chunk ----

// K or V of one head over a chunk: codes [position][dim]; factors [group][position], of affine
// codes the scales and, half of the factors on, the biases.
struct Unpacked {
  RowCode code;
  uint32_t dim;
  uint8_t* codes;
  float* factors;
  float* biases;

  uint32_t values(uint32_t group) const {
    return code.group == 0 ? dim : std::min(code.group, dim - group * code.group);
  }
  float& factor(uint32_t group, uint32_t position) const {
    return factors[size_t{group} * kChunkPositions + position];
  }
  float& bias(uint32_t group, uint32_t position) const {
    return biases[size_t{group} * kChunkPositions + position];
  }
  uint32_t at(uint32_t position, uint32_t d) const { return codes[size_t{position} * dim + d]; }
  uint32_t groups() const { return code.group == 0 ? 1 : code.groups(dim); }
  // The codebook value of a code of group g.
  std::span<const uint16_t> book(uint32_t group) const {
    return turbo_codebook(values(group), code.bits);
  }
};

void unpack_position(Side side, const std::byte* head, uint32_t position, const Unpacked& out) {
  std::byte row[kMaxRowBytes];
  get_row(side, out.code, out.dim, head, position % kPagePositions, row);
  for (uint32_t d = 0; d < out.dim; ++d)
    out.codes[size_t{position} * out.dim + d] =
        static_cast<uint8_t>(get_code(row, d, out.code.bits));
  const std::byte* at = row + size_t{out.dim} * out.code.bits / 8;
  for (uint32_t g = 0; g < out.groups(); ++g) {
    if (out.code.kind == CodeKind::affine) {
      out.factor(g, position) = bf16_to_f32(get_u16(at + 2 * g));
      out.bias(g, position) = bf16_to_f32(get_u16(at + 2 * (out.groups() + g)));
    } else if (out.code.group != 0) {
      out.factor(g, position) = bf16_to_f32(get_u16(at + 2 * g));
    } else {
      out.factor(0, position) =
          std::bit_cast<float>(get_u16(at) | static_cast<uint32_t>(get_u16(at + 2)) << 16);
    }
  }
}

// The chunk's positions that a row sees and whose page isn't wide.
Unpacked unpack(const AttentionTile& tile, uint32_t chunk, Side side, AttentionWork& work) {
  const KvLayout& layout = tile.job->layout;
  const bool k = side == Side::k;
  const Unpacked out{k ? layout.code.k : layout.code.v, k ? layout.k_dim : layout.v_dim,
                     reinterpret_cast<uint8_t*>(work.codes), work.factors,
                     work.factors + size_t{work.ld / kBlock} * kChunkPositions};
  Visible hull{kChunkPositions, 0};
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const Visible seen = tile.in_chunk(r, chunk);
    if (seen.begin >= seen.end) continue;
    hull = {std::min(hull.begin, seen.begin), std::max(hull.end, seen.end)};
  }
  for (uint32_t j = hull.begin; j < hull.end; ++j) {
    const uint32_t page = j / kPagePositions;
    if (tile.job->pages[size_t{chunk} * kChunkPages + page] == nullptr ||
        tile.layout(chunk, page).code.rotated)
      continue;
    unpack_position(side, k ? tile.keys(chunk, page) : tile.values(chunk, page), j, out);
  }
  return out;
}

float affine_score(const Unpacked& keys, uint32_t j, const AttentionWork& work, uint32_t row) {
  const int8_t* q = work.q_codes + size_t{row} * work.ld;
  const size_t cell = size_t{row} * (work.ld / kBlock);
  float out = 0.0f, s = 0.0f;
  for (uint32_t g = 0; g < keys.groups(); ++g) {
    float t = 0.0f, u = 0.0f;
    for (uint32_t b = g * keys.code.group / kBlock; b < (g + 1) * keys.code.group / kBlock; ++b) {
      int32_t idot = 0;
      for (uint32_t d = b * kBlock; d < (b + 1) * kBlock; ++d)
        idot += static_cast<int32_t>(keys.at(j, d)) * q[d];
      t = std::fma(work.q_scale[cell + b], static_cast<float>(idot), t);
      u = std::fma(work.q_scale[cell + b], work.q_sum[cell + b], u);
    }
    s = std::fma(keys.factor(g, j), t, s);
    s = std::fma(keys.bias(g, j), u, s);
    if ((g + 1) * keys.code.group % kOperands == 0 || g + 1 == keys.groups()) {
      out = out + s;
      s = 0.0f;
    }
  }
  return out;
}

float turbo_score(const Unpacked& keys, uint32_t j, const AttentionWork& work, uint32_t row) {
  const float* q = work.q + size_t{row} * keys.dim;
  if (keys.code.group == 0) {
    const auto book = keys.book(0);
    return keys.factor(0, j) *
           segments_dot(q, keys.dim, [&](uint32_t d) { return turbo_value(book, keys.at(j, d)); });
  }
  float s = 0.0f;
  for (uint32_t g = 0; g < keys.groups(); ++g) {
    const uint32_t first = g * keys.code.group;
    const auto book = keys.book(g);
    s = std::fma(keys.factor(g, j),
                 dot(q + first, keys.values(g),
                     [&](uint32_t d) { return turbo_value(book, keys.at(j, first + d)); }),
                 s);
  }
  return s + work.anchor_dot[row];
}

float wide_score(const AttentionTile& tile, uint32_t j, const AttentionWork& work, uint32_t row) {
  const uint32_t dim = tile.job->layout.k_dim;
  const auto* keys = reinterpret_cast<const uint16_t*>(tile.keys(0, 0));
  return segments_dot(work.q + size_t{row} * dim, dim,
                      [&](uint32_t d) { return bf16_to_f32(keys[k_index(j, d, dim)]); });
}

// The contract's vector sum over the chunk's positions: 64 lanes, then the tree.
template <class Add>
float lane_sum(Add add) {
  float lanes[64] = {};
  for (uint32_t j = 0; j < kChunkPositions; ++j) lanes[j % 64] = add(j, lanes[j % 64]);
  for (uint32_t step = 32; step > 0; step /= 2) {
    for (uint32_t l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
  }
  return lanes[0];
}

bool is_wide(const AttentionTile& tile, uint32_t chunk, uint32_t j) {
  return tile.layout(chunk, j / kPagePositions).code.rotated;
}

void row_weights(const AttentionTile& tile, uint32_t chunk, uint32_t row, Visible seen,
                 const Unpacked& keys, AttentionWork& work, const AttentionPartial& out) {
  const AttentionJob& job = *tile.job;
  float* p = work.scores + size_t{row} * kOperandStride;
  std::fill(p, p + kChunkPositions, 0.0f);
  float most = -HUGE_VALF;
  for (uint32_t j = seen.begin; j < seen.end; ++j) {
    p[j] = keys.code.kind == CodeKind::affine ? affine_score(keys, j, work, row)
           : is_wide(tile, chunk, j)          ? wide_score(tile, j, work, row)
                                              : turbo_score(keys, j, work, row);
    if (job.softcap != 0.0f) p[j] = job.softcap * numerics::tanh(p[j] / job.softcap);
    if (p[j] > most) most = p[j];
  }
  for (uint32_t j = seen.begin; j < seen.end; ++j) p[j] = numerics::exp(p[j] - most);
  out.max[row] = most;
  out.sum[row] = lane_sum([&](uint32_t j, float s) { return s + p[j]; });
}

// Groups of dimensions, each page's weights as int8; then the weighted sum of the biases.
void affine_values(const float* p, Visible seen, const Unpacked& values, float* o) {
  const uint32_t half = 1u << (values.code.bits - 1), group = values.code.group;
  const auto visible = [&](uint32_t j) { return j >= seen.begin && j < seen.end; };
  for (uint32_t g = 0; g < values.groups(); ++g) {
    float* out = o + size_t{g} * group;
    std::fill(out, out + group, 0.0f);
    for (uint32_t page = 0; page < kChunkPages; ++page) {
      const uint32_t first = page * kPagePositions;
      float w[kPagePositions];
      int8_t q[kPagePositions];
      int32_t sum;
      for (uint32_t i = 0; i < kPagePositions; ++i)
        w[i] = visible(first + i) ? p[first + i] * values.factor(g, first + i) : 0.0f;
      const float d = quantise(w, kPagePositions, q, &sum);
      for (uint32_t c = 0; c < group; ++c) {
        int32_t idot = 0;
        for (uint32_t i = 0; i < kPagePositions; ++i) {
          if (visible(first + i))
            idot += q[i] * (static_cast<int32_t>(values.at(first + i, g * group + c)) -
                            static_cast<int32_t>(half));
        }
        out[c] = std::fma(d, static_cast<float>(idot), out[c]);
      }
    }
    const float bias = lane_sum([&](uint32_t j, float s) {
      if (!visible(j)) return s;
      return std::fma(
          p[j], std::fma(values.factor(g, j), static_cast<float>(half), values.bias(g, j)), s);
    });
    for (uint32_t c = 0; c < group; ++c) out[c] = out[c] + bias;
  }
}

void turbo_values(const AttentionTile& tile, uint32_t chunk, const float* p, Visible seen,
                  const Unpacked& values, float* o) {
  const auto operand = [](float x) { return bf16_to_f32(f32_to_bf16_operand(x)); };
  for (uint32_t d = 0; d < values.dim; ++d) {
    const uint32_t g = values.code.group == 0 ? 0 : d / values.code.group;
    const auto book = values.book(g);
    const auto add = [&](uint32_t j, float s) {
      if (j < seen.begin || j >= seen.end) return s;  // its weight would be +0
      if (is_wide(tile, chunk, j)) {
        const auto* cells = reinterpret_cast<const uint16_t*>(tile.values(0, 0));
        return std::fma(bf16_to_f32(cells[v_index(j, d, values.dim)]), operand(p[j]), s);
      }
      return std::fma(turbo_value(book, values.at(j, d)), operand(p[j] * values.factor(g, j)), s);
    };
    float s = 0.0f;
    for (uint32_t j = seen.begin & ~1u; j < seen.end; j += 2) s = add(j, add(j + 1, s));
    o[d] = s;
  }
}

void chunk(const AttentionTile& tile, uint32_t chunk, AttentionWork& work,
           const AttentionPartial& out) {
  const Unpacked keys = unpack(tile, chunk, Side::k, work);
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const Visible seen = tile.in_chunk(r, chunk);
    out.sum[r] = 0.0f;
    if (seen.begin < seen.end) row_weights(tile, chunk, r, seen, keys, work, out);
  }
  const Unpacked values = unpack(tile, chunk, Side::v, work);
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const Visible seen = tile.in_chunk(r, chunk);
    if (seen.begin >= seen.end) continue;
    const float* p = work.scores + size_t{r} * kOperandStride;
    float* o = out.out + size_t{r} * out.ld;
    if (values.code.kind == CodeKind::affine) {
      affine_values(p, seen, values, o);
    } else {
      turbo_values(tile, chunk, p, seen, values, o);
    }
  }
}

void finish(const AttentionTile& tile, AttentionPartial& total) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.v_dim;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    float* acc = total.out + size_t{r} * total.ld;
    float sum = total.sum[r];
    if (job.sinks != nullptr) sum = reference_sink(tile, r, total.max[r], sum, acc);
    float* out = job.out + tile.query(r) * job.out_ld + size_t{tile.head(r)} * dim;
    for (uint32_t d = 0; d < dim; ++d) out[d] = acc[d] / sum;
    if (job.layout.code.k.kind == CodeKind::turbo) Rotation::stored(dim).backward({out, dim});
    if (!below(out, dim, HUGE_VALF)) {
      std::fill(out, out + dim, 0.0f);
      flag_not_finite(job, tile.query(r));
    }
  }
}

}  // namespace

bool reference_store_codes(const KvLayout& layout, std::byte* page, uint32_t position_in_page,
                           const float* k, const float* v, const std::byte* anchor) {
  static constexpr float kZeros[kMaxDim] = {};
  const uint32_t k_dim = layout.k_dim, v_dim = layout.v_dim;
  const bool good =
      all_below_limit(k, layout.kv_heads * k_dim) && all_below_limit(v, layout.kv_heads * v_dim);
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    const std::byte* mean =
        anchor == nullptr || !layout.code.anchored ? nullptr : anchor + size_t{2} * h * k_dim;
    store_row(Side::k, layout.code, k_dim, good ? k + size_t{h} * k_dim : kZeros, mean,
              page + h * layout.k_head_bytes(), position_in_page);
    store_row(Side::v, layout.code, v_dim, good ? v + size_t{h} * v_dim : kZeros, nullptr,
              page + layout.v_offset() + h * layout.v_head_bytes(), position_in_page);
  }
  return good;
}

const AttentionKernel reference_code_attention_kernel = {begin, chunk, reference_merge, finish};

}  // namespace gyre::kernels
