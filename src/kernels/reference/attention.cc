// The definition of attention (docs/contract.md), one element at a time.
//
// bf16 and f32 codes differ in one place, Cell: how an element is stored and how the weights are
// rounded. The order of every sum is the same.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/attention_kernel.h"
#include "kernels/kv_page.h"
#include "numerics/functions.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

bool finite(float x) {
  return (std::bit_cast<uint32_t>(x) & 0x7f800000) != 0x7f800000;
}

struct Bf16Cell {
  using Type = uint16_t;
  static float round(float x) { return bf16_to_f32(f32_to_bf16_operand(x)); }
  static float load(Type cell) { return bf16_to_f32(cell); }
  static Type store(float x) { return f32_to_bf16_operand(x); }
};

struct F32Cell {
  using Type = float;
  static float round(float x) { return x; }
  static float load(Type cell) { return cell; }
  static Type store(float x) { return x; }
};

template <class Cell>
typename Cell::Type* cells(const std::byte* bytes) {
  return reinterpret_cast<typename Cell::Type*>(const_cast<std::byte*>(bytes));
}

template <class Cell>
bool all_round_to_finite(const float* x, uint32_t n) {
  for (uint32_t i = 0; i < n; ++i) {
    if (!finite(Cell::round(x[i]))) return false;
  }
  return true;
}

template <class Cell>
bool store(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
           const float* v) {
  const bool good = all_round_to_finite<Cell>(k, layout.kv_heads * layout.k_dim) &&
                    all_round_to_finite<Cell>(v, layout.kv_heads * layout.v_dim);
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    auto* keys = cells<Cell>(page + h * layout.k_head_bytes());
    auto* values = cells<Cell>(page + layout.v_offset() + h * layout.v_head_bytes());
    for (uint32_t d = 0; d < layout.k_dim; ++d)
      keys[k_index(position, d, layout.k_dim)] =
          Cell::store(good ? k[size_t{h} * layout.k_dim + d] : 0.0f);
    for (uint32_t d = 0; d < layout.v_dim; ++d)
      values[v_index(position, d, layout.v_dim)] =
          Cell::store(good ? v[size_t{h} * layout.v_dim + d] : 0.0f);
  }
  return good;
}

// The reference packs the rows of work.q densely.
template <class Cell>
void begin_rows(const AttentionTile& tile, AttentionWork& work) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.k_dim;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const float* from = job.q + tile.query(r) * job.q_ld + size_t{tile.head(r)} * dim;
    float* q = work.q + size_t{r} * dim;
    bool good = true;
    for (uint32_t d = 0; d < dim; ++d) {
      q[d] = Cell::round(from[d] * job.q_scale);
      good = good && finite(q[d]);
    }
    if (!good) {
      std::fill(q, q + dim, 0.0f);
      flag_not_finite(job, tile.query(r));
    }
  }
}

void begin(const AttentionTile& tile, AttentionWork& work) {
  return tile.job->layout.code == kBf16Code ? begin_rows<Bf16Cell>(tile, work)
                                            : begin_rows<F32Cell>(tile, work);
}

// q . k in segments of 256 dimensions, pairs ascending, the odd element of a pair first.
template <class Cell>
float score(const float* q, const typename Cell::Type* keys, uint32_t position, uint32_t dim) {
  float out = 0.0f;
  for (uint32_t begin = 0; begin < dim; begin += kOperands) {
    float s = 0.0f;
    for (uint32_t d = begin; d < std::min(dim, begin + kOperands); d += 2) {
      s = std::fma(Cell::load(keys[k_index(position, d + 1, dim)]), q[d + 1], s);
      s = std::fma(Cell::load(keys[k_index(position, d, dim)]), q[d], s);
    }
    out = out + s;
  }
  return out;
}

// The weights' sum: 64 lanes, then the tree.
float lane_sum(const float* p) {
  float lanes[64] = {};
  for (uint32_t j = 0; j < kChunkPositions; ++j) lanes[j % 64] = lanes[j % 64] + p[j];
  for (uint32_t step = 32; step > 0; step /= 2) {
    for (uint32_t l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
  }
  return lanes[0];
}

template <class Cell>
void row_chunk(const AttentionTile& tile, uint32_t chunk, uint32_t row, Visible seen,
               const float* q, const AttentionPartial& out) {
  const AttentionJob& job = *tile.job;
  const uint32_t k_dim = job.layout.k_dim, v_dim = job.layout.v_dim;
  float p[kChunkPositions] = {};
  float most = -HUGE_VALF;
  for (uint32_t j = seen.begin; j < seen.end; ++j) {
    const auto* keys = cells<Cell>(tile.keys(chunk, j / kPagePositions));
    p[j] = score<Cell>(q, keys, j % kPagePositions, k_dim);
    if (job.softcap != 0.0f) p[j] = job.softcap * numerics::tanh(p[j] / job.softcap);
    if (p[j] > most) most = p[j];
  }
  for (uint32_t j = seen.begin; j < seen.end; ++j) p[j] = Cell::round(numerics::exp(p[j] - most));

  out.max[row] = most;
  out.sum[row] = lane_sum(p);
  float* o = out.out + size_t{row} * out.ld;
  for (uint32_t d = 0; d < v_dim; ++d) {
    float s = 0.0f;
    // Pairs that the row doesn't see have weights of +0 and leave s as it is: their page may be
    // missing.
    for (uint32_t j = seen.begin & ~1u; j < seen.end; j += 2) {
      const auto* values = cells<Cell>(tile.values(chunk, j / kPagePositions));
      const uint32_t at = j % kPagePositions;
      s = std::fma(Cell::load(values[v_index(at + 1, d, v_dim)]), p[j + 1], s);
      s = std::fma(Cell::load(values[v_index(at, d, v_dim)]), p[j], s);
    }
    o[d] = s;
  }
}

void chunk(const AttentionTile& tile, uint32_t chunk, AttentionWork& work,
           const AttentionPartial& out) {
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const Visible seen = tile.in_chunk(r, chunk);
    out.sum[r] = 0.0f;
    if (seen.begin >= seen.end) continue;
    const float* q = work.q + size_t{r} * tile.job->layout.k_dim;
    if (tile.job->layout.code == kBf16Code) {
      row_chunk<Bf16Cell>(tile, chunk, r, seen, q, out);
    } else {
      row_chunk<F32Cell>(tile, chunk, r, seen, q, out);
    }
  }
}

// What two partials are multiplied by when they meet.
struct Meeting {
  float max, mine, theirs;
  Meeting(float m, float n)
      : max(n > m ? n : m), mine(numerics::exp(m - max)), theirs(numerics::exp(n - max)) {}
};

}  // namespace

void reference_merge(uint32_t rows, uint32_t v_dim, const AttentionPartial& next,
                     AttentionPartial& total) {
  for (uint32_t r = 0; r < rows; ++r) {
    if (next.sum[r] == 0.0f) continue;
    const float* o = next.out + size_t{r} * next.ld;
    float* acc = total.out + size_t{r} * total.ld;
    if (total.sum[r] == 0.0f) {
      total.max[r] = next.max[r];
      total.sum[r] = next.sum[r];
      std::copy(o, o + v_dim, acc);
      continue;
    }
    const Meeting meet(total.max[r], next.max[r]);
    for (uint32_t d = 0; d < v_dim; ++d) acc[d] = std::fma(acc[d], meet.mine, o[d] * meet.theirs);
    total.sum[r] = std::fma(total.sum[r], meet.mine, next.sum[r] * meet.theirs);
    total.max[r] = meet.max;
  }
}

float reference_sink(const AttentionTile& tile, uint32_t row, float max, float sum, float* acc) {
  const Meeting meet(max, tile.job->sinks[tile.head(row)]);
  for (uint32_t d = 0; d < tile.job->layout.v_dim; ++d)
    acc[d] = std::fma(acc[d], meet.mine, 0.0f * meet.theirs);
  return std::fma(sum, meet.mine, 1.0f * meet.theirs);
}

namespace {

void finish(const AttentionTile& tile, AttentionPartial& total) {
  const AttentionJob& job = *tile.job;
  const uint32_t v_dim = job.layout.v_dim;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    float* acc = total.out + size_t{r} * total.ld;
    float sum = total.sum[r];
    if (job.sinks != nullptr) sum = reference_sink(tile, r, total.max[r], sum, acc);
    float* out = job.out + tile.query(r) * job.out_ld + size_t{tile.head(r)} * v_dim;
    bool good = true;
    for (uint32_t d = 0; d < v_dim; ++d) {
      out[d] = acc[d] / sum;
      good = good && finite(out[d]);
    }
    if (!good) {
      std::fill(out, out + v_dim, 0.0f);
      flag_not_finite(job, tile.query(r));
    }
  }
}

}  // namespace

bool reference_store(const KvLayout& layout, std::byte* page, uint32_t position_in_page,
                     const float* k, const float* v, const std::byte* anchor) {
  if (layout.code == kBf16Code) return store<Bf16Cell>(layout, page, position_in_page, k, v);
  if (layout.code == kF32Code) return store<F32Cell>(layout, page, position_in_page, k, v);
  return reference_store_codes(layout, page, position_in_page, k, v, anchor);
}

const AttentionKernel reference_attention_kernel = {begin, chunk, reference_merge, finish};

}  // namespace gyre::kernels
