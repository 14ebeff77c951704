// Attention over affine pages in one instruction set; equal to
// kernels/reference/attention_codes.cc.
//
// Both dots are integer. Scores run 16 keys to a vector over words of 4 dimensions, values 16
// dimensions to a vector over words of 4 positions. Pages of 8 bits are read as they are; narrower
// codes are unpacked once a page and tile into the form that 8 bits have.
#include <utility>

#include "kernels/attention.h"
#include "kernels/attention_kernel.h"
#include "kernels/codes/affine.h"
#include "kernels/cpu/tuning.h"
#include "kernels/kv_page.h"
#include "numerics/half.h"

#include "kernels/cpu/isa/begin.h"

#include "kernels/cpu/generic/attention_shared.inl"

namespace {

#include "kernels/cpu/generic/attention_affine_dots.inl"
#include "kernels/cpu/generic/attention_affine_pages.inl"

// ---- The int8 form of queries and weights ----

// From magnitude bits: the scale, and what values are multiplied by; zeros where the form has none.
struct Step {
  F scale, inverse;
  GYRE_WORD explicit Step(I largest) {
    const M good = above(largest, I::splat(0x0d7fffff)) & above(I::splat(0x71800000), largest);
    const F amax = from_bits(largest);
    const F whole = amax / F::splat(127.0f);
    scale = from_bits(select(good, bits(whole) & I::splat(-4), I::splat(0)));
    inverse = select(good, F::splat(127.0f) / amax, F::splat(0.0f));
  }
};

struct Query {
  const AttentionTile& tile;
  AttentionWork& work;
  uint32_t row, dim;
  int8_t* codes(uint32_t block) const {
    return work.q_codes + (size_t{block / kSegmentBlocks} * kTileRows + row) * kCodeStride +
           block % kSegmentBlocks * kQBlock;
  }
  size_t cell(uint32_t block) const { return size_t{row} * (work.ld / kQBlock) + block; }
};

// Blocks [first, first + 16) of a row; false where one has a value that is too large.
GYRE_WORD bool quantise_blocks(const Query& query, const float* x, F scale, uint32_t first) {
  const uint32_t count = least(kTile, query.dim / kQBlock - first);
  int32_t largest[kTile] = {};
  for (uint32_t b = 0; b < count; ++b) {
    const float* from = x + (first + b) * kQBlock;
    largest[b] = max_lanes(
        max(bits(magnitude(load_f(from) * scale)), bits(magnitude(load_f(from + kTile) * scale))));
    if (largest[b] >= 0x71800000) return false;
  }
  const Step step(load_i(largest));
  float scales[kTile], inverses[kTile];
  store(scales, step.scale);
  store(inverses, step.inverse);
  for (uint32_t b = 0; b < count; ++b) {
    const float* from = x + (first + b) * kQBlock;
    int8_t* to = query.codes(first + b);
    const F inverse = F::splat(inverses[b]);
    const I low = round_to_int(load_f(from) * scale * inverse);
    const I high = round_to_int(load_f(from + kTile) * scale * inverse);
    store_i8(to, low);
    store_i8(to + kTile, high);
    const int32_t sum = sum_lanes(low + high);
    const size_t cell = query.cell(first + b);
    query.work.q_scale[cell] = scales[b];
    query.work.q_sum[cell] = static_cast<float>(sum);
    query.work.q_start[cell] = kSignedBytes ? 128 * sum : 0;
  }
  return true;
}

void begin(const AttentionTile& tile, AttentionWork& work) {
  const AttentionJob& job = *tile.job;
  const uint32_t dim = job.layout.k_dim, group = job.layout.code.k.group;
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    const Query query{tile, work, r, dim};
    const float* x = job.q + tile.query(r) * job.q_ld + size_t{tile.head(r)} * dim;
    bool good = true;
    for (uint32_t b = 0; b < dim / kQBlock && good; b += kTile)
      good = quantise_blocks(query, x, F::splat(job.q_scale), b);
    if (!good) {
      flag_not_finite(job, tile.query(r));
      for (uint32_t b = 0; b < dim / kQBlock; ++b) {
        std::memset(query.codes(b), 0, kQBlock);
        work.q_scale[query.cell(b)] = work.q_sum[query.cell(b)] = 0.0f;
        work.q_start[query.cell(b)] = 0;
      }
    }
    // u of each group, in the group's place.
    const uint32_t per_group = group / kQBlock;
    for (uint32_t g = 0; g < dim / group; ++g) {
      float u = 0.0f;
      for (uint32_t b = g * per_group; b < (g + 1) * per_group; ++b)
        u = __builtin_fmaf(work.q_scale[query.cell(b)], work.q_sum[query.cell(b)], u);
      work.q_sum[query.cell(g)] = u;
    }
  }
}

// ---- One chunk ----

void page_scores(Chunk& c, uint32_t page) {
  const KvLayout& layout = c.tile.job->layout;
  const RowCode& code = layout.code.k;
  const std::byte* keys = c.tile.keys(c.index, page);
  const Visible hull = c.rows.in_page(0, c.tile.rows(), page);
  const size_t tile_bytes = kTile * code.row_bytes(layout.k_dim);
  ScoreJob job;
  job.blocks = layout.k_dim / kQBlock;
  job.per_group = code.group / kQBlock;
  job.cells = c.work.ld / kQBlock;
  job.params_stride = tile_bytes;
  job.ahead = c.ahead_of_keys(page);
  const std::byte* lines = keys;
  job.tile_stride = tile_bytes;
  if (code.bits != 8) {
    job.tile_stride = job.blocks * kBlockBytes;
    lines = c.work.codes;
    for (uint32_t t = hull.begin / kTile; t * kTile < hull.end; ++t)
      unpack_keys(code.bits, keys + t * tile_bytes, job.blocks, job.ahead,
                  c.work.codes + t * job.tile_stride);
    job.ahead = 0;
  }
  const size_t params = size_t{job.blocks} * code.bits * kLine;
  for (uint32_t first = 0; first < c.tile.rows(); first += kRowsAtOnce) {
    const uint32_t rows = least(kRowsAtOnce, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    job.q = c.work.q_codes + size_t{first} * kCodeStride;
    job.scale = c.work.q_scale + first * job.cells;
    job.sum = c.work.q_sum + first * job.cells;
    job.start = c.work.q_start + first * job.cells;
    const uint32_t end = (seen.end + kTile - 1) / kTile;
    for (uint32_t t = seen.begin / kTile; t < end;) {
      const uint32_t vectors = at_once(rows, end - t);
      job.lines = lines + t * job.tile_stride;
      job.params = keys + t * tile_bytes + params;
      job.scores =
          c.work.scores + size_t{first} * kOperandStride + page * kPagePositions + t * kTile;
      run_block<ScoreJob, ScoreBlock>(code.bits == 8, rows, vectors, job);
      c.fetch.step();
      t += vectors;
    }
  }
}

// Of the chunk's pages: scales, and biases as values at the middle code; [group][position].
void load_params(Chunk& c, uint32_t page) {
  const KvLayout& layout = c.tile.job->layout;
  const RowCode& code = layout.code.v;
  const F half = F::splat(static_cast<float>(1u << (code.bits - 1)));
  float* scales = c.work.factors + page * kPagePositions;
  float* biases = scales + size_t{c.work.ld / kQBlock} * kChunkPositions;
  const bool there = c.page(page) != nullptr;
  const std::byte* params =
      there ? c.tile.values(c.index, page) + size_t{kPagePositions} * layout.v_dim * code.bits / 8
            : nullptr;
  for (uint32_t g = 0; g < code.groups(layout.v_dim); ++g) {
    for (uint32_t j = 0; j < kPagePositions; j += kTile) {
      const I pair =
          there ? load_i(as_words(params + (size_t{g} * kPagePositions + j) * 4)) : I::splat(0);
      const F scale = low_of_pair(pair);
      store(scales + size_t{g} * kChunkPositions + j, scale);
      store(biases + size_t{g} * kChunkPositions + j, fma(scale, half, high_of_pair(pair)));
    }
  }
}

// The int8 weights of some rows for one page, each group's own.
struct Weights {
  static constexpr uint32_t kMost = 32 * kWeightRows;  // groups times rows
  int32_t largest[kMost];
  float scale[kMost], inverse[kMost];
  int32_t start[kMost];
};

void page_weights(Chunk& c, uint32_t page, uint32_t first, uint32_t rows, Weights& w) {
  const RowCode& code = c.tile.job->layout.code.v;
  const uint32_t groups = code.groups(c.tile.job->layout.v_dim);
  const float* scales = c.work.factors + page * kPagePositions;
  const float* p = c.work.scores + size_t{first} * kOperandStride + page * kPagePositions;
  const bool centred = kSignedBytes && code.bits == 8;
  const int32_t half = centred ? 0 : 1 << (code.bits - 1);
  for (uint32_t g = 0; g < groups; ++g) {
    F scale[4];
    for (uint32_t i = 0; i < 4; ++i)
      scale[i] = load_f(scales + size_t{g} * kChunkPositions + i * kTile);
    for (uint32_t r = 0; r < rows; ++r) {
      I largest = I::splat(0);
      for (uint32_t i = 0; i < 4; ++i)
        largest =
            max(largest, bits(magnitude(load_f(p + r * kOperandStride + i * kTile) * scale[i])));
      w.largest[g * kWeightRows + r] = max_lanes(largest);
    }
    for (uint32_t r = rows; r < kWeightRows; ++r) w.largest[g * kWeightRows + r] = 0;
  }
  for (uint32_t i = groups * kWeightRows; i % kTile != 0; ++i) w.largest[i] = 0;
  for (uint32_t i = 0; i < groups * kWeightRows; i += kTile) {
    const Step step(load_i(w.largest + i));
    store(w.scale + i, step.scale);
    store(w.inverse + i, step.inverse);
  }
  const B ones = B::splat(1);
  for (uint32_t g = 0; g < groups; ++g) {
    F scale[4];
    for (uint32_t i = 0; i < 4; ++i)
      scale[i] = load_f(scales + size_t{g} * kChunkPositions + i * kTile);
    for (uint32_t r = 0; r < rows; ++r) {
      int8_t* to = c.work.w_codes + (size_t{g} * kWeightRows + r) * kPagePositions;
      const F inverse = F::splat(w.inverse[g * kWeightRows + r]);
      for (uint32_t i = 0; i < 4; ++i)
        store_i8(to + i * kTile,
                 round_to_int(load_f(p + r * kOperandStride + i * kTile) * scale[i] * inverse));
      const I codes = load_i(reinterpret_cast<const int32_t*>(to));
      w.start[g * kWeightRows + r] = -half * sum_lanes(dot4(I::splat(0), ones, codes));
    }
  }
}

void page_values(Chunk& c, uint32_t page) {
  const KvLayout& layout = c.tile.job->layout;
  const RowCode& code = layout.code.v;
  const std::byte* lines = c.tile.values(c.index, page);
  const Visible hull = c.rows.in_page(0, c.tile.rows(), page);
  ptrdiff_t ahead = c.ahead_of_values(page);
  if (code.bits != 8) {
    unpack_values(code.bits, lines, layout.v_dim, hull.begin / 4, (hull.end + 3) / 4, ahead,
                  c.work.codes);
    lines = c.work.codes;
    ahead = 0;
  }
  Weights w;
  for (uint32_t first = 0; first < c.tile.rows(); first += kRowsAtOnce) {
    const uint32_t rows = least(kRowsAtOnce, c.tile.rows() - first);
    const Visible seen = c.rows.in_page(first, rows, page);
    if (seen.begin >= seen.end) continue;
    page_weights(c, page, first, rows, w);
    const uint32_t word = seen.begin / 4;
    ValueJob job;
    job.word_stride = size_t{4} * layout.v_dim;
    job.words = (seen.end + 3) / 4 - word;
    job.out_ld = c.out.ld;
    job.ahead = ahead;
    for (uint32_t g = 0; g < code.groups(layout.v_dim); ++g) {
      job.weights = c.work.w_codes + size_t{g} * kWeightRows * kPagePositions + word * 4;
      job.scale = w.scale + g * kWeightRows;
      job.start = w.start + g * kWeightRows;
      for (uint32_t d = g * code.group; d < (g + 1) * code.group;) {
        const uint32_t vectors = at_once(rows, ((g + 1) * code.group - d) / kTile);
        job.lines = lines + word * job.word_stride + size_t{d} * 4;
        job.out = c.out.out + size_t{first} * c.out.ld + d;
        run_block<ValueJob, ValueBlock>(code.bits == 8, rows, vectors, job);
        c.fetch.step();
        d += vectors * kTile;
      }
    }
  }
}

// out += for each group the lane sum of p times the bias at the middle code.
void add_biases(Chunk& c, uint32_t row) {
  const RowCode& code = c.tile.job->layout.code.v;
  const float* p = c.work.scores + size_t{row} * kOperandStride;
  float* out = c.out.out + size_t{row} * c.out.ld;
  const float* biases = c.work.factors + size_t{c.work.ld / kQBlock} * kChunkPositions;
  for (uint32_t g = 0; g < code.groups(c.tile.job->layout.v_dim); ++g, biases += kChunkPositions) {
    F lanes[4] = {F::splat(0.0f), F::splat(0.0f), F::splat(0.0f), F::splat(0.0f)};
    for (uint32_t j = c.rows.first_page() * kPagePositions; j < c.rows.end_page() * kPagePositions;
         j += kPagePositions) {
      for (uint32_t i = 0; i < 4; ++i)
        lanes[i] = fma(load_f(p + j + i * kTile), load_f(biases + j + i * kTile), lanes[i]);
    }
    const F sum = F::splat(sum_lanes((lanes[0] + lanes[2]) + (lanes[1] + lanes[3])));
    for (uint32_t d = 0; d < code.group; d += kTile, out += kTile) store(out, load_f(out) + sum);
  }
}

void chunk(const AttentionTile& tile, uint32_t index, AttentionWork& work,
           const AttentionPartial& out) {
  Chunk c(tile, index, work, out, kRowsAtOnce, kRowsAtOnce, kVectorsAtOnce);
  if (c.empty()) return;
  const uint32_t first = c.rows.first_page(), end = c.rows.end_page();
  for (uint32_t page = first; page < end; ++page) {
    if (c.page(page) != nullptr) page_scores(c, page);
  }
  c.weights<false, false>();
  for (uint32_t page = first; page < end; ++page) {
    load_params(c, page);
    if (c.page(page) != nullptr) page_values(c, page);
  }
  for (uint32_t r = 0; r < tile.rows(); ++r) {
    if (c.rows.sees(r)) add_biases(c, r);
  }
}

}  // namespace

extern const AttentionKernel affine_attention_kernel;
const AttentionKernel affine_attention_kernel = {begin, chunk, merge_partials, finish_rows};

#include "kernels/cpu/generic/attention_affine_store.inl"

#include "kernels/cpu/isa/end.h"
