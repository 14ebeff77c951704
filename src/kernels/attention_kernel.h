// What run_attention asks of one instruction set: the steps of the contract's attention for one
// tile of query rows. Internal to kernels/; the driver (attention.cc) holds no arithmetic.
//
// A row is one head of one query. The rows of a kv head are numbered query-major:
// row r is query r / group, head kv_head * group + r % group, group = q_heads / kv_heads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

namespace gyre::kernels {

inline constexpr uint32_t kTileRows = 96;   // rows of one tile at most
inline constexpr uint32_t kScoreRows = 16;  // rows whose scores are held at a time, at most
inline constexpr uint32_t kOperands = 256;  // dimensions of a score's segment, positions of a chunk
// From one row's operands to the next row's: fixed, so that a kernel needs one pointer for all
// rows, and a line more than 256 floats, so that rows fall into different cache sets.
inline constexpr uint32_t kOperandStride = kOperands + 16;

// The same for int8 operands, in bytes.
inline constexpr uint32_t kCodeStride = kOperands + 64;
inline constexpr uint32_t kWeightRows = 8;  // rows whose int8 weights are held at a time, at most

struct AttentionTile {
  const AttentionJob* job = nullptr;
  uint32_t kv_head = 0, row_begin = 0, row_end = 0;

  uint32_t rows() const { return row_end - row_begin; }
  uint32_t group() const { return job->q_heads / job->layout.kv_heads; }
  uint32_t query(uint32_t row) const { return (row_begin + row) / group(); }
  uint32_t head(uint32_t row) const { return kv_head * group() + (row_begin + row) % group(); }
  // What a row sees of a chunk, as positions inside it; empty when begin >= end.
  Visible in_chunk(uint32_t row, uint32_t chunk) const {
    const Visible& v = job->visible[query(row)];
    const uint32_t first = chunk * kChunkPositions;
    const auto inside = [first](uint32_t p) {
      return p <= first ? 0u : (p - first < kChunkPositions ? p - first : kChunkPositions);
    };
    return {inside(v.begin), inside(v.end)};
  }
  // How page `page` of a chunk is laid out: an anchored layer's first one is wide.
  KvLayout layout(uint32_t chunk, uint32_t page) const {
    const KvLayout& layout = job->layout;
    return layout.code.anchored && chunk == 0 && page == 0 ? layout.wide() : layout;
  }
  // The page that holds positions [64 page, 64 page + 64) of a chunk; K and V of this kv head.
  const std::byte* keys(uint32_t chunk, uint32_t page) const {
    return job->pages[size_t{chunk} * kChunkPages + page] +
           kv_head * layout(chunk, page).k_head_bytes();
  }
  const std::byte* values(uint32_t chunk, uint32_t page) const {
    const KvLayout of = layout(chunk, page);
    return job->pages[size_t{chunk} * kChunkPages + page] + of.v_offset() +
           kv_head * of.v_head_bytes();
  }
  // The anchor's bf16 channels of this kv head; null: zeros.
  const std::byte* anchor() const {
    return job->anchor == nullptr ? nullptr : job->anchor + size_t{2} * kv_head * job->layout.k_dim;
  }
};

// A weighted sum of values that isn't divided yet: rows of `ld` floats, each row's maximum score
// and the sum of its weights. sum == 0: nothing seen (a visible key gives at least 1, or NaN).
struct AttentionPartial {
  float* out = nullptr;
  float* max = nullptr;
  float* sum = nullptr;
  size_t ld = 0;
};

// One worker's room for a tile.
struct AttentionWork {
  float* q = nullptr;          // [segment][kTileRows][kOperandStride]: the operands as f32
  uint16_t* q_bf16 = nullptr;  // the same in bf16
  float* scores = nullptr;     // [kTileRows][kOperandStride]: scores, then weights
  uint16_t* p_bf16 = nullptr;  // the same: the weights in bf16
  // Of coded pages; ld: the dimensions, rounded up to 32. How the reference packs them is its own.
  int8_t* q_codes = nullptr;    // [segment][kTileRows][kCodeStride]: q as int8 in blocks of 32
  float* q_scale = nullptr;     // [kTileRows][ld / 32], a cell for each block
  float* q_sum = nullptr;       // the same: sums of codes
  int32_t* q_start = nullptr;   // the same: where an integer dot starts from
  float* anchor_dot = nullptr;  // [kTileRows]
  std::byte* codes = nullptr;   // [kChunkPositions][ld]: K or V, unpacked
  float* factors = nullptr;     // [2][ld / 32][kChunkPositions]: scales and biases, or factors
  int8_t* w_codes = nullptr;    // [ld / 32][kWeightRows][kPagePositions]: weights as int8
  float* weights = nullptr;     // [kScoreRows][kOperandStride]: weights times factors
  uint32_t ld = 0;
  AttentionPartial chunk;  // of one chunk
  AttentionPartial total;  // of the chunks so far
};

struct AttentionKernel {
  // Fills work.q (and q_bf16). A row with a NaN or Inf: all zeros, and the query is flagged.
  void (*begin)(const AttentionTile& tile, AttentionWork& work);
  // One chunk of the tile's rows, after begin().
  void (*chunk)(const AttentionTile& tile, uint32_t chunk, AttentionWork& work,
                const AttentionPartial& out);
  // total = total merged with the next chunk's partial, row by row.
  void (*merge)(uint32_t rows, uint32_t v_dim, const AttentionPartial& next,
                AttentionPartial& total);
  // Sinks, the division, and job.out. A result that isn't finite: zeros, and the query is flagged.
  void (*finish)(const AttentionTile& tile, AttentionPartial& total);
};

// Several workers may flag one query.
void flag_not_finite(const AttentionJob& job, uint32_t query);

// kernels/reference. The plain one also serves kF32Code for every instruction set, the other one
// affine, turbo and anchored codes.
extern const AttentionKernel reference_attention_kernel, reference_code_attention_kernel;
bool reference_store(const KvLayout& layout, std::byte* page, uint32_t position_in_page,
                     const float* k, const float* v, const std::byte* anchor);
bool reference_store_codes(const KvLayout& layout, std::byte* page, uint32_t position_in_page,
                           const float* k, const float* v, const std::byte* anchor);
// total = total merged with the next chunk's partial.
void reference_merge(uint32_t rows, uint32_t v_dim, const AttentionPartial& next,
                     AttentionPartial& total);
// acc becomes the row's sum with its head's sink; returns the weights' sum.
float reference_sink(const AttentionTile& tile, uint32_t row, float max, float sum, float* acc);

}  // namespace gyre::kernels
