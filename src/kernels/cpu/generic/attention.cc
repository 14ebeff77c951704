// Attention in one instruction set (kernels/attention_kernel.h); equal to
// kernels/reference/attention.cc.
//
// Scores run 16 keys to a vector over pairs of dimensions, values 16 dimensions to a vector over
// pairs of positions: one text, dots(), serves both. What no row of a block sees is left out. That
// never changes a bit: its weights are +0, its values are finite, and a sum that starts from +0
// never becomes -0, so fma(value, +0, s) = s.
#include <utility>

#include "kernels/attention.h"
#include "kernels/attention_kernel.h"
#include "kernels/cpu/tuning.h"

#include "kernels/cpu/isa/begin.h"

#include "kernels/cpu/generic/attention_shared.inl"

namespace {

template <bool kPart>
GYRE_WORD I load_words(const int32_t* p, uint32_t lanes) {
  if constexpr (kPart) return bits(load_first(reinterpret_cast<const float*>(p), lanes));
  return load_i(p);
}

// acc[row][vector] += the run's products, pairs ascending, the odd element of a pair first.
template <uint32_t kRows, uint32_t kVectors, bool kNative, bool kPart>
GYRE_WORD void dots(F (&acc)[kRows][kVectors], const Pairs& in, uint32_t lanes) {
  const int32_t* words = in.words;
  const float* rows = in.rows;
  const uint16_t* rows_bf16 = in.rows_bf16;
  const ptrdiff_t ahead = in.ahead == nullptr ? 0 : in.ahead - in.words;
  for (uint32_t pair = 0; pair < in.count;
       ++pair, words += in.pair_stride, rows += 2, rows_bf16 += 2) {
    if constexpr (kVectors == kFewRowsVectors) {  // few rows: bound by memory
      if (in.ahead != nullptr) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) prefetch(words + ahead + v * in.vector_stride);
      }
    }
    I w[kVectors];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v)
      w[v] = load_words<kPart>(words + v * in.vector_stride, lanes);
    if constexpr (kNative) {
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const I x = splat4(rows_bf16 + r * kOperandStride);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) acc[r][v] = fma_pair_native(acc[r][v], w[v], x);
      }
    } else {
      F odd[kVectors], even[kVectors];
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v) odd[v] = high_of_pair(w[v]);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const F x = F::splat(rows[r * kOperandStride + 1]);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) acc[r][v] = fma(odd[v], x, acc[r][v]);
      }
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v) even[v] = low_of_pair(w[v]);
#pragma GCC unroll 16
      for (uint32_t r = 0; r < kRows; ++r) {
        const F x = F::splat(rows[r * kOperandStride]);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) acc[r][v] = fma(even[v], x, acc[r][v]);
      }
    }
  }
}

template <uint32_t kRows, uint32_t kVectors, bool kNative, bool kPart>
void dots_block(const DotsJob& job) {
  F acc[kRows][kVectors];
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v)
      acc[r][v] = job.start == Start::resume ? load_f(job.out + r * job.out_ld + v * kTile)
                                             : F::splat(0.0f);
  }
  dots<kRows, kVectors, kNative, kPart>(acc, job.run, job.lanes);
#pragma GCC unroll 16
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v) {
      float* out = job.out + r * job.out_ld + v * kTile;
      store(out, job.start == Start::add ? load_f(out) + acc[r][v] : acc[r][v]);
    }
  }
}

using DotsFunction = void (*)(const DotsJob&);

// [rows - 1] for one shape.
template <uint32_t kVectors, uint32_t kMaxRows, bool kNative, bool kPart>
struct DotsTable {
  DotsFunction of_rows[kMaxRows];
  template <uint32_t... kIndex>
  static constexpr DotsTable make(std::integer_sequence<uint32_t, kIndex...>) {
    return {{dots_block<kIndex + 1, kVectors, kNative, kPart>...}};
  }
};
template <uint32_t kVectors, uint32_t kMaxRows, bool kNative, bool kPart>
constexpr DotsTable<kVectors, kMaxRows, kNative, kPart> kDots =
    DotsTable<kVectors, kMaxRows, kNative, kPart>::make(
        std::make_integer_sequence<uint32_t, kMaxRows>());

// The dots of `vectors` whole vectors, all rows.
template <bool kNative>
GYRE_WORD void whole_dots(uint32_t rows, uint32_t vectors, const DotsJob& job) {
  if (vectors == 1) return kDots<1, kBlockRows, kNative, false>.of_rows[rows - 1](job);
  if (vectors == kBlockVectors)
    return kDots<kBlockVectors, kBlockRows, kNative, false>.of_rows[rows - 1](job);
  kDots<kFewRowsVectors, kFewRows, kNative, false>.of_rows[rows - 1](job);
}

template <bool kNative>
void page_scores(Chunk& c, uint32_t page) {
  const uint32_t pairs = c.tile.job->layout.k_dim / 2;
  const std::byte* keys = c.tile.keys(c.index, page);
  const ptrdiff_t ahead = c.ahead_of_keys(page);
  for (uint32_t first = 0; first < c.tile.rows(); first += kBlockRows) {
    const uint32_t rows = least(kBlockRows, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    const uint32_t end = (seen.end + kTile - 1) / kTile;
    for (uint32_t t = seen.begin / kTile; t < end;) {
      const uint32_t vectors = vectors_at_once(rows, end - t);
      float* scores =
          c.work.scores + size_t{first} * kOperandStride + page * kPagePositions + t * kTile;
      for (uint32_t p = 0; p < pairs; p += kScorePairs) {
        Pairs run;
        run.vector_stride = size_t{pairs} * kTile;
        run.words = as_words(keys) + t * run.vector_stride + p * kTile;
        run.pair_stride = kTile;
        run.rows = c.work.q + operand_row(p * 2, first);
        run.rows_bf16 = c.work.q_bf16 + operand_row(p * 2, first);
        run.count = least(kScorePairs, pairs - p);
        if (ahead != 0) run.ahead = run.words + ahead / 4;
        whole_dots<kNative>(
            rows, vectors,
            {run, scores, kOperandStride, kTile, p != 0 ? Start::add : Start::fresh});
      }
      c.fetch.step();
      t += vectors;
    }
  }
}

template <bool kNative>
void page_values(Chunk& c, uint32_t page) {
  const uint32_t dim = c.tile.job->layout.v_dim;
  const int32_t* values = as_words(c.tile.values(c.index, page));
  const ptrdiff_t ahead = c.ahead_of_values(page);
  for (uint32_t first = 0; first < c.tile.rows(); first += kBlockRows) {
    const uint32_t rows = least(kBlockRows, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    if (seen.begin >= seen.end) continue;
    const uint32_t pair = seen.begin / 2;
    const size_t weights = size_t{first} * kOperandStride + page * kPagePositions + 2 * pair;
    float* out = c.out.out + size_t{first} * c.out.ld;
    for (uint32_t d = 0; d < dim;) {
      Pairs run;
      run.words = values + size_t{pair} * dim + d;
      run.pair_stride = dim;
      run.vector_stride = kTile;
      run.rows = c.work.scores + weights;
      run.rows_bf16 = c.work.p_bf16 + weights;
      run.count = (seen.end + 1) / 2 - pair;
      if (ahead != 0) run.ahead = run.words + ahead / 4;
      if (dim - d < kTile) {
        kDots<1, kBlockRows, kNative, true>.of_rows[rows - 1](
            {run, out + d, c.out.ld, dim - d, Start::resume});
        break;
      }
      const uint32_t vectors = vectors_at_once(rows, (dim - d) / kTile);
      whole_dots<kNative>(rows, vectors, {run, out + d, c.out.ld, kTile, Start::resume});
      c.fetch.step();
      d += vectors * kTile;
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
  c.weights<true, kNative>();
  for (uint32_t page = first; page < end; ++page) {
    if (c.page(page) != nullptr) page_values<kNative>(c, page);
  }
}

template <bool kNative>
void begin(const AttentionTile& tile, AttentionWork& work) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.k_dim;
  const F scale = F::splat(job.q_scale);
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const float* from = job.q + tile.query(r) * job.q_ld + size_t{tile.head(r)} * dim;
    I largest = I::splat(0);
    for (uint32_t d = 0; d < dim; d += kTile) {
      const size_t at = operand_row(d, r) + d % kOperands;
      const F x = round_operand(load_first(from + d, least(kTile, dim - d)) * scale);
      largest = max(largest, bits(magnitude(x)));
      store(work.q + at, x);
      if constexpr (kNative) store_u16(work.q_bf16 + at, shift_right<16>(bits(x)));
    }
    if (!not_finite(largest)) continue;
    flag_not_finite(job, tile.query(r));
    for (uint32_t d = 0; d < dim; ++d) {
      const size_t at = operand_row(d, r) + d % kOperands;
      work.q[at] = 0.0f;
      work.q_bf16[at] = 0;
    }
  }
}

GYRE_WORD void add_scaled(float* acc, float a, const float* o, float b, uint32_t dim) {
  const F mine = F::splat(a), theirs = F::splat(b);
  for (uint32_t d = 0; d < dim; d += kTile)
    store(acc + d, fma(load_f(acc + d), mine, load_f(o + d) * theirs));
}

bool rounds_to_finite(const float* x, uint32_t n) {
  I largest = I::splat(0);
  for (uint32_t i = 0; i < n; i += kTile)
    largest = max(largest, bits(magnitude(load_first(x + i, least(kTile, n - i)))));
  // From here on, round to nearest even gives Inf in bf16.
  return !any(above(largest, I::splat(0x7f7f7fff)));
}

bool store_position(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
                    const float* v, const std::byte* anchor) {
  if (layout.code.k.kind == CodeKind::affine) return store_affine(layout, page, position, k, v);
  if (layout.code.k.kind == CodeKind::f32)
    return reference_store(layout, page, position, k, v, nullptr);
  if (layout.code != kBf16Code) return store_turbo(layout, page, position, k, v, anchor);
  const bool good = rounds_to_finite(k, layout.kv_heads * layout.k_dim) &&
                    rounds_to_finite(v, layout.kv_heads * layout.v_dim);
  std::byte* values = page + layout.v_offset();
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    put_keys(page + h * layout.k_head_bytes(), position, k + size_t{h} * layout.k_dim, layout.k_dim,
             good);
    put_values(values + h * layout.v_head_bytes(), position, v + size_t{h} * layout.v_dim,
               layout.v_dim, good);
  }
  return good;
}

constexpr AttentionKernel kKernel = {begin<false>, chunk<false>, merge_partials, finish_rows};
constexpr AttentionKernel kNativeKernel = {begin<kBf16Dot>, chunk<kBf16Dot>, merge_partials,
                                           finish_rows};

}  // namespace

void merge_partials(uint32_t rows, uint32_t v_dim, const AttentionPartial& next,
                    AttentionPartial& total) {
  for (uint32_t first = 0; first < rows; first += kTile) {
    const uint32_t n = least(kTile, rows - first);
    const F m = load_first(total.max + first, n), sum = load_first(total.sum + first, n);
    const F next_m = load_first(next.max + first, n), next_sum = load_first(next.sum + first, n);
    const M none_yet = equal(sum, F::splat(0.0f)), none_new = equal(next_sum, F::splat(0.0f));
    const Meeting meet(m, next_m);
    const F met_sum = fma(sum, meet.mine, next_sum * meet.theirs);
    // 0: both sides count, 1: copy, 2: leave.
    float mine[kTile], theirs[kTile];
    int32_t what[kTile];
    store(mine, meet.mine);
    store(theirs, meet.theirs);
    store(what, select(none_new, I::splat(2), select(none_yet, I::splat(1), I::splat(0))));
    store_first(total.max + first, select(none_new, m, select(none_yet, next_m, meet.max)), n);
    store_first(total.sum + first, select(none_new, sum, select(none_yet, next_sum, met_sum)), n);
    for (uint32_t r = 0; r < n; ++r) {
      float* acc = total.out + (first + r) * total.ld;
      const float* o = next.out + (first + r) * next.ld;
      if (what[r] == 0) add_scaled(acc, mine[r], o, theirs[r], v_dim);
      if (what[r] == 1) {
        for (uint32_t d = 0; d < v_dim; d += kTile) store(acc + d, load_f(o + d));
      }
    }
  }
}

void finish_rows(const AttentionTile& tile, AttentionPartial& total) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.v_dim;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    float* acc = total.out + size_t{r} * total.ld;
    float sum = total.sum[r];
    if (job.sinks != nullptr) sum = meet_sink(acc, total.max[r], sum, job.sinks[tile.head(r)], dim);
    float* out = job.out + tile.query(r) * job.out_ld + size_t{tile.head(r)} * dim;
    if (!not_finite(divide_row(acc, sum, dim, out))) continue;
    flag_not_finite(job, tile.query(r));
    for (uint32_t d = 0; d < dim; ++d) out[d] = 0.0f;
  }
}

void pair_dots(bool native, uint32_t rows, uint32_t vectors, const DotsJob& job) {
  native ? whole_dots<kBf16Dot>(rows, vectors, job) : whole_dots<false>(rows, vectors, job);
}

void part_dots(bool native, uint32_t rows, const DotsJob& job) {
  native ? kDots<1, kBlockRows, kBf16Dot, true>.of_rows[rows - 1](job)
         : kDots<1, kBlockRows, false, true>.of_rows[rows - 1](job);
}

// [0]: products of expanded operands. [1]: with the instruction for bf16 pairs, where there is one.
extern const AttentionOps attention_ops[2];
const AttentionOps attention_ops[2] = {
    {store_position, &kKernel, &affine_attention_kernel, &turbo_attention_kernel[0]},
    {store_position, &kNativeKernel, &affine_attention_kernel, &turbo_attention_kernel[1]}};

#include "kernels/cpu/isa/end.h"
