// Attention over turbo and anchored pages in one instruction set; equal to
// kernels/reference/attention_codes.cc.
//
// Codes become their codebook's bf16 values, in the form of a bf16 page, once a page and tile; then
// the dots of attention.cc do the work, and factors meet the scores and the weights.
#include <utility>

#include "kernels/attention.h"
#include "kernels/attention_kernel.h"
#include "kernels/codes/bit_stream.h"
#include "kernels/codes/turbo.h"
#include "kernels/cpu/tuning.h"
#include "kernels/kv_page.h"
#include "numerics/half.h"

#include "kernels/cpu/isa/begin.h"

#include "kernels/cpu/generic/attention_shared.inl"

namespace {

alignas(64) constexpr int32_t kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

#include "kernels/cpu/generic/attention_rotate.inl"
#include "kernels/cpu/generic/attention_turbo_pages.inl"

// ---- Queries ----

// The dot of each row's operands with the anchor: a tile of keys whose first key is the anchor.
template <bool kNative>
void anchor_dots(const AttentionTile& tile, AttentionWork& work) {
  const uint32_t dim = tile.job->layout.k_dim;
  auto* words = reinterpret_cast<int32_t*>(work.codes);
  std::memset(words, 0, size_t{dim} / 2 * kTile * 4);
  for (uint32_t i = 0; i < dim / 2; ++i)
    std::memcpy(words + size_t{i} * kTile, tile.anchor() + size_t{4} * i, 4);
  for (uint32_t first = 0; first < tile.rows(); first += kBlockRows) {
    const uint32_t rows = least(kBlockRows, tile.rows() - first);
    float out[kBlockRows * kTile];
    for (uint32_t p = 0; p < dim / 2; p += kScorePairs) {
      Pairs run;
      run.words = words + size_t{p} * kTile;
      run.pair_stride = kTile;
      run.rows = work.q + operand_row(p * 2, first);
      run.rows_bf16 = work.q_bf16 + operand_row(p * 2, first);
      run.count = least(kScorePairs, dim / 2 - p);
      pair_dots(kNative, rows, 1, {run, out, kTile, kTile, p != 0 ? Start::add : Start::fresh});
    }
    for (uint32_t r = 0; r < rows; ++r) work.anchor_dot[first + r] = out[r * kTile];
  }
}

template <bool kNative>
void begin(const AttentionTile& tile, AttentionWork& work) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.k_dim;
  const Rotation rotation = Rotation::stored(dim);
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const float* from = job.q + tile.query(r) * job.q_ld + size_t{tile.head(r)} * dim;
    alignas(64) float x[kMaxDim + kTile];
    for (uint32_t d = 0; d < dim; d += kTile)
      store(x + d, load_first(from + d, least(kTile, dim - d)) * F::splat(job.q_scale));
    rotate(rotation, x);
    I largest = I::splat(0);
    for (uint32_t d = 0; d < dim; d += kTile) {
      const size_t at = operand_row(d, r) + d % kOperands;
      const F y = round_operand(load_first(x + d, least(kTile, dim - d)));
      largest = max(largest, bits(magnitude(y)));
      store(work.q + at, y);
      if constexpr (kNative) store_u16(work.q_bf16 + at, shift_right<16>(bits(y)));
    }
    if (!not_finite(largest)) continue;
    flag_not_finite(job, tile.query(r));
    for (uint32_t d = 0; d < dim; ++d) {
      const size_t at = operand_row(d, r) + d % kOperands;
      work.q[at] = 0.0f;
      work.q_bf16[at] = 0;
    }
  }
  for (uint32_t r = 0; r < tile.rows(); ++r) work.anchor_dot[r] = 0.0f;
  if (tile.anchor() != nullptr) anchor_dots<kNative>(tile, work);
}

// ---- One chunk ----

GYRE_WORD bool is_wide(const Chunk& c, uint32_t page) {
  return c.tile.layout(c.index, page).code.rotated;
}

// The words of a page: [tile][pair of dimensions][16] for keys.
struct Keys {
  const int32_t* words;
  uint32_t pairs;            // of dimensions
  const std::byte* factors;  // of the page's first tile; null: none (wide)
  size_t tile_bytes;         // from one tile's factors to the next's
};

template <bool kNative>
GYRE_WORD void score_dots(const Chunk& c, const Keys& keys, uint32_t first, uint32_t rows,
                          uint32_t tile, uint32_t vectors, uint32_t pair, uint32_t count,
                          float* out, size_t out_ld, Start start) {
  Pairs run;
  run.vector_stride = size_t{keys.pairs} * kTile;
  run.words = keys.words + tile * run.vector_stride + size_t{pair} * kTile;
  run.pair_stride = kTile;
  run.rows = c.work.q + operand_row(pair * 2, first) + pair * 2 % kOperands;
  run.rows_bf16 = c.work.q_bf16 + operand_row(pair * 2, first) + pair * 2 % kOperands;
  run.count = count;
  pair_dots(kNative, rows, vectors, {run, out, out_ld, kTile, start});
}

// factor * dot over all dimensions.
template <bool kNative>
void whole_scores(const Chunk& c, const Keys& keys, uint32_t first, uint32_t rows, uint32_t tile,
                  uint32_t vectors, float* out) {
  for (uint32_t p = 0; p < keys.pairs; p += kScorePairs)
    score_dots<kNative>(c, keys, first, rows, tile, vectors, p, least(kScorePairs, keys.pairs - p),
                        out, kOperandStride, p != 0 ? Start::add : Start::fresh);
  if (keys.factors == nullptr) return;
  for (uint32_t v = 0; v < vectors; ++v) {
    const F factor =
        load_f(reinterpret_cast<const float*>(keys.factors + (tile + v) * keys.tile_bytes));
    for (uint32_t r = 0; r < rows; ++r) {
      float* s = out + r * kOperandStride + v * kTile;
      store(s, factor * load_f(s));
    }
  }
}

// The groups' factor * dot in one chain of fmas, then the anchor's dot.
template <bool kNative>
void group_scores(const Chunk& c, const Keys& keys, uint32_t first, uint32_t rows, uint32_t tile,
                  uint32_t vectors, float* out) {
  constexpr uint32_t kGroupPairs = kTurboGroup / 2, kLd = kFewRowsVectors * kTile;
  float dot[kBlockRows * kLd];
  const uint32_t groups = (keys.pairs + kGroupPairs - 1) / kGroupPairs;
  for (uint32_t g = 0; g < groups; ++g) {
    const uint32_t pair = g * kGroupPairs;
    score_dots<kNative>(c, keys, first, rows, tile, vectors, pair,
                        least(kGroupPairs, keys.pairs - pair), dot, kLd, Start::fresh);
    for (uint32_t v = 0; v < vectors; ++v) {
      const F factor =
          load_bf16(keys.factors + (tile + v) * keys.tile_bytes + size_t{g} * 2 * kTile);
      for (uint32_t r = 0; r < rows; ++r) {
        float* s = out + r * kOperandStride + v * kTile;
        F sum = fma(factor, load_f(dot + r * kLd + v * kTile), g == 0 ? F::splat(0.0f) : load_f(s));
        if (g + 1 == groups) sum = sum + F::splat(c.work.anchor_dot[first + r]);
        store(s, sum);
      }
    }
  }
}

template <bool kNative>
void page_scores(Chunk& c, uint32_t page) {
  const KvLayout& layout = c.tile.job->layout;
  const RowCode& code = layout.code.k;
  const std::byte* from = c.tile.keys(c.index, page);
  const Visible hull = c.rows.in_page(0, c.tile.rows(), page);
  Keys keys{as_words(from), layout.k_dim / 2, nullptr, 0};
  if (!is_wide(c, page)) {
    auto* words = reinterpret_cast<int32_t*>(c.work.codes);
    keys.words = words;
    keys.tile_bytes = kTile * code.row_bytes(layout.k_dim);
    keys.factors = from + kTile * (size_t{layout.k_dim} * code.bits / 8);
    const ptrdiff_t ahead = c.ahead_of_keys(page);
    const Books books(code, layout.k_dim);
    for (uint32_t t = hull.begin / kTile; t * kTile < hull.end; ++t)
      unpack_keys(books, code.bits, from + t * keys.tile_bytes, layout.k_dim, ahead,
                  words + t * size_t{keys.pairs} * kTile);
  }
  for (uint32_t first = 0; first < c.tile.rows(); first += kBlockRows) {
    const uint32_t rows = least(kBlockRows, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    const uint32_t end = (seen.end + kTile - 1) / kTile;
    float* scores = c.work.scores + size_t{first} * kOperandStride + page * kPagePositions;
    for (uint32_t t = seen.begin / kTile; t < end;) {
      const uint32_t vectors = vectors_at_once(rows, end - t);
      if (keys.factors != nullptr && code.group != 0) {
        group_scores<kNative>(c, keys, first, rows, t, vectors, scores + t * kTile);
      } else {
        whole_scores<kNative>(c, keys, first, rows, t, vectors, scores + t * kTile);
      }
      c.fetch.step();
      t += vectors;
    }
  }
}

// Weights times a group's factors, as operands, of positions [begin, end) of a page.
template <bool kNative>
GYRE_WORD void factor_weights(const Chunk& c, uint32_t page, uint32_t first, uint32_t rows,
                              Visible seen, const std::byte* factors, bool narrow_factors) {
  for (uint32_t j = seen.begin / kTile * kTile; j < seen.end; j += kTile) {
    F factor = F::splat(1.0f);
    if (factors != nullptr)
      factor = narrow_factors ? load_bf16(factors + j * 2)
                              : load_f(reinterpret_cast<const float*>(factors) + j);
    for (uint32_t r = 0; r < rows; ++r) {
      const F p =
          load_f(c.work.scores + size_t{first + r} * kOperandStride + page * kPagePositions + j);
      const F w = round_operand(factors == nullptr ? p : p * factor);
      store(c.work.weights + r * kOperandStride + j, w);
      if constexpr (kNative)
        store_u16(c.work.p_bf16 + r * kOperandStride + j, shift_right<16>(bits(w)));
    }
  }
}

// out[d], d in [begin, end): goes on with the positions that the rows see of a page.
template <bool kNative>
void value_dots(Chunk& c, const int32_t* words, uint32_t first, uint32_t rows, Visible seen,
                uint32_t begin, uint32_t end) {
  const uint32_t dim = c.tile.job->layout.v_dim;
  const uint32_t pair = seen.begin / 2;
  float* out = c.out.out + size_t{first} * c.out.ld;
  for (uint32_t d = begin; d < end;) {
    Pairs run;
    run.words = words + size_t{pair} * dim + d;
    run.pair_stride = dim;
    run.vector_stride = kTile;
    run.rows = c.work.weights + 2 * pair;
    run.rows_bf16 = c.work.p_bf16 + 2 * pair;
    run.count = (seen.end + 1) / 2 - pair;
    if (end - d < kTile) {
      part_dots(kNative, rows, {run, out + d, c.out.ld, end - d, Start::resume});
      break;
    }
    const uint32_t vectors = vectors_at_once(rows, (end - d) / kTile);
    pair_dots(kNative, rows, vectors, {run, out + d, c.out.ld, kTile, Start::resume});
    c.fetch.step();
    d += vectors * kTile;
  }
}

template <bool kNative>
void page_values(Chunk& c, uint32_t page) {
  const KvLayout& layout = c.tile.job->layout;
  const RowCode& code = layout.code.v;
  const uint32_t dim = layout.v_dim;
  const std::byte* from = c.tile.values(c.index, page);
  const Visible hull = c.rows.in_page(0, c.tile.rows(), page);
  const bool wide = is_wide(c, page);
  const int32_t* words = as_words(from);
  if (!wide) {
    auto* to = reinterpret_cast<int32_t*>(c.work.codes);
    unpack_values(Books(code, dim), code.bits, from, dim, hull.begin / 2, (hull.end + 1) / 2,
                  c.ahead_of_values(page), to);
    words = to;
  }
  const std::byte* factors = wide ? nullptr : from + size_t{kPagePositions} * dim * code.bits / 8;
  const uint32_t group = wide || code.group == 0 ? dim : code.group;
  for (uint32_t first = 0; first < c.tile.rows(); first += kBlockRows) {
    const uint32_t rows = least(kBlockRows, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    if (seen.begin >= seen.end) continue;
    for (uint32_t d = 0, g = 0; d < dim; d += group, ++g) {
      factor_weights<kNative>(c, page, first, rows, seen,
                              wide ? nullptr : factors + size_t{g} * 2 * kPagePositions,
                              code.group != 0);
      value_dots<kNative>(c, words, first, rows, seen, d, least(dim, d + group));
    }
  }
}

template <bool kNative>
void chunk(const AttentionTile& tile, uint32_t index, AttentionWork& work,
           const AttentionPartial& out) {
  Chunk c(tile, index, work, out, kFewRows, kBlockRows, kBlockVectors);
  if (c.empty()) return;
  const uint32_t first = c.rows.first_page(), end = c.rows.end_page();
  for (uint32_t page = first; page < end; ++page) {
    if (c.page(page) != nullptr) page_scores<kNative>(c, page);
  }
  c.weights<false, false>();
  for (uint32_t page = first; page < end; ++page) {
    if (c.page(page) != nullptr) page_values<kNative>(c, page);
  }
}

// The result is turned back, once.
void finish(const AttentionTile& tile, AttentionPartial& total) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.v_dim;
  const Rotation rotation = Rotation::stored(dim);
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    float* acc = total.out + size_t{r} * total.ld;
    float sum = total.sum[r];
    if (job.sinks != nullptr) sum = meet_sink(acc, total.max[r], sum, job.sinks[tile.head(r)], dim);
    float* out = job.out + tile.query(r) * job.out_ld + size_t{tile.head(r)} * dim;
    divide_row(acc, sum, dim, acc);
    rotate_back(rotation, acc);
    I largest = I::splat(0);
    for (uint32_t d = 0; d < dim; d += kTile) {
      const uint32_t n = least(kTile, dim - d);
      const F x = load_first(acc + d, n);
      largest = max(largest, bits(magnitude(x)));
      store_first(out + d, x, n);
    }
    if (!not_finite(largest)) continue;
    flag_not_finite(job, tile.query(r));
    for (uint32_t d = 0; d < dim; ++d) out[d] = 0.0f;
  }
}

}  // namespace

const AttentionKernel turbo_attention_kernel[2] = {
    {begin<false>, chunk<false>, merge_partials, finish},
    {begin<kBf16Dot>, chunk<kBf16Dot>, merge_partials, finish}};

#include "kernels/cpu/generic/attention_turbo_store.inl"

#include "kernels/cpu/isa/end.h"
