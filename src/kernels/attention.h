// Attention over pages of 64 absolute positions, in the contract's canonical order.
//
// A page holds one layer's K and V of 64 positions for all its kv heads. A chunk is 4 pages (256
// positions): the unit of arithmetic and of parallelism. What a query sees is an interval of
// positions, never a comparison with its own position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/codes/row_code.h"
#include "kernels/isa.h"

namespace gyre::kernels {

inline constexpr uint32_t kPagePositions = 64;
inline constexpr uint32_t kChunkPages = 4;
inline constexpr uint32_t kChunkPositions = kPagePositions * kChunkPages;

// The byte picture of one layer's page: K of each kv head, then V of each. A head's K or V are the
// bytes of its 64 rows, exactly, arranged for the kernels. bf16 and f32:
// K [16-position tile][k_dim / 2][16][2], V [position / 2][v_dim][2]; dimensions are even. Codes:
// docs/formats/kv.md, kernels/kv_page.h.
struct KvLayout {
  uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;
  LayerCode code = kBf16Code;
  size_t k_head_bytes() const { return kPagePositions * code.k.row_bytes(k_dim); }
  size_t v_head_bytes() const { return kPagePositions * code.v.row_bytes(v_dim); }
  size_t v_offset() const { return kv_heads * k_head_bytes(); }
  size_t page_bytes() const { return kv_heads * (k_head_bytes() + v_head_bytes()); }
  // How page 0 of an anchored layout is stored: bf16 rows, rotated before they are rounded.
  KvLayout wide() const;
  // Bytes of an anchor: a bf16 for each channel of each kv head; 0 unless anchored.
  size_t anchor_bytes() const;
};

// Can pages be coded so? Both sides are bf16, f32, affine, turbo, or anchored (turbo with
// kTurboGroup); check_row() of both; coded heads of at most 1024 values. Errors: unsupported,
// beginning with `what`.
Status check_layout(const KvLayout& layout, const std::string& what);

// K [kv_heads * k_dim] and V [kv_heads * v_dim] of one position of a plain (bf16 or f32) page, as
// stored. Storing them under another layout gives the bytes of a direct store.
void load_position(const KvLayout& layout, const std::byte* page, uint32_t position_in_page,
                   float* k, float* v);
// Zeroes all bytes of positions [first, end), as a fresh page has them. Any layout.
void erase_positions(const KvLayout& layout, std::byte* page, uint32_t first, uint32_t end);
// The anchor of an anchored layout from its page 0 (of layout.wide(), all 64 positions stored): the
// mean of each channel's 64 rotated keys, a 64-lane tree sum times 1/64, then a bf16 operand.
// anchor: [kv head][k_dim], anchor_bytes() in all.
void make_anchor(const KvLayout& anchored, const std::byte* wide_page0, std::byte* anchor);

// Positions [begin, end) that a query sees.
struct Visible {
  uint32_t begin = 0, end = 0;
};

// Some queries of one row (one sequence) in one layer. Query i belongs to one token and has
// q_heads heads; head h reads kv head h / (q_heads / kv_heads).
struct AttentionJob {
  KvLayout layout;
  std::byte* const* pages = nullptr;  // page table: pages[p] holds positions 64p .. 64p+63; null
                                      // where no query of this job sees any. pages[0] of an
                                      // anchored layout is one of layout.wide()
  const std::byte* anchor = nullptr;  // of an anchored layout; null: zeros, which does while no
                                      // query sees a position from 64 on
  uint32_t queries = 0, q_heads = 0;
  const float* q = nullptr;  // [query][q_ld]: after norm and rope, not yet scaled
  size_t q_ld = 0;
  float q_scale = 1.0f;              // the operand is q * q_scale, rounded as the code says
  float softcap = 0.0f;              // 0: none
  const float* sinks = nullptr;      // [q_heads] or null
  const Visible* visible = nullptr;  // [query]; never empty
  float* out = nullptr;              // [query][out_ld]: q_heads * v_dim values
  size_t out_ld = 0;
  uint8_t* not_finite = nullptr;  // [query]: set to 1 where an operand or a result is NaN or
                                  // Inf (never cleared); those heads' results are zeros
};

struct AttentionKernel;  // kernels/attention_kernel.h: what run_attention calls

struct AttentionOps {
  // Writes K and V of one token at `position`, as the code says; a pure function of k, v and the
  // anchor. k: [kv_heads * k_dim], v: [kv_heads * v_dim]. anchor: of an anchored layout, null for
  // zeros; others don't read it. A NaN or Inf (after rounding), or for a code a magnitude of 2^100
  // or more: all the position's K and V become zeros, returns false. Threads may store different
  // positions of one page at the same time.
  bool (*store)(const KvLayout& layout, std::byte* page, uint32_t position_in_page, const float* k,
                const float* v, const std::byte* anchor);
  const AttentionKernel *kernel, *affine_kernel, *turbo_kernel;  // of bf16, affine, turbo pages
};

const AttentionOps& attention_ops(Isa isa);
// The same bits; whether the products use the instruction for bf16 pairs, where the set has one.
const AttentionOps& attention_ops(Isa isa, bool bf16_instruction);

// Scratch for one pool; sized once so that steps do not allocate.
class AttentionScratch {
 public:
  // The largest head count and head dimension that will be used, and the longest context.
  Status reserve(int threads, uint32_t max_q_heads, uint32_t max_dim, uint32_t max_positions);
  size_t bytes() const { return memory_.size(); }

 private:
  friend class AttentionRun;  // run_attention
  Array<std::byte> memory_;   // one work area per thread, then floats for partial results
  int threads_ = 0;
  uint32_t max_dim_ = 0;
  size_t work_bytes_ = 0, partial_floats_ = 0;
};

// All jobs (rows of a batch) in one parallel loop over (job, kv head, query tile), and over chunks
// where there are few queries. Bits never depend on the split. The scratch must have been reserved
// for the pool's threads and the jobs' sizes; breaking that is a bug and ends the process.
void run_attention(const AttentionOps& ops, ThreadPool& pool, std::span<const AttentionJob> jobs,
                   AttentionScratch& scratch);

}  // namespace gyre::kernels
