#include "kernels/attention.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/fp_env.h"
#include "kernels/attention_kernel.h"
#include "kernels/cpu/tuning.h"

namespace gyre::kernels {
namespace {

constexpr size_t kLine = 64;
constexpr size_t kMaxJobs = 256;       // of one parallel loop; more are taken in turns
constexpr size_t kTasksPerThread = 4;  // what a split aims at
constexpr size_t kSplitJobs = 4;       // room for the partial results of so many decoding jobs

size_t lines(size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}
uint32_t line_of(uint32_t dim) {
  return (dim + 31) / 32 * 32;
}
uint32_t blocks(uint32_t n, uint32_t block) {
  return n / block + (n % block != 0);
}

// Lays the parts of a work area out from `at`; returns its end. at = null: only measures.
size_t lay_out(AttentionWork& work, uint32_t ld, std::byte* at) {
  size_t used = 0;
  const auto take = [&](auto*& pointer, size_t count) {
    using T = std::remove_reference_t<decltype(*pointer)>;
    if (at != nullptr) pointer = reinterpret_cast<T*>(at + used);
    used += lines(count * sizeof(T));
  };
  const size_t operands = size_t{blocks(ld, kOperands)} * kTileRows * kOperandStride;
  take(work.q, operands);
  take(work.q_bf16, operands);
  take(work.scores, size_t{kTileRows} * kOperandStride);
  take(work.p_bf16, size_t{kTileRows} * kOperandStride);
  work.ld = ld;
  const size_t cells = blocks(ld, 32);
  take(work.q_codes, size_t{blocks(ld, kOperands)} * kTileRows * kCodeStride);
  take(work.q_scale, kTileRows * cells);
  take(work.q_sum, kTileRows * cells);
  take(work.q_start, kTileRows * cells);
  take(work.anchor_dot, kTileRows);
  take(work.codes, size_t{kChunkPositions} * ld);
  take(work.factors, 2 * cells * kChunkPositions);
  take(work.w_codes, cells * kWeightRows * kPagePositions);
  take(work.weights, size_t{kScoreRows} * kOperandStride);
  for (AttentionPartial* partial : {&work.chunk, &work.total}) {
    partial->ld = ld;
    take(partial->out, size_t{kTileRows} * ld);
    take(partial->max, kTileRows);
    take(partial->sum, kTileRows);
  }
  return used;
}

// Positions that some row of the rows [begin, end) of a kv head sees.
Visible hull(const AttentionJob& job, uint32_t query_begin, uint32_t query_end) {
  Visible out = job.visible[query_begin];
  for (uint32_t q = query_begin + 1; q < query_end; ++q) {
    out.begin = std::min(out.begin, job.visible[q].begin);
    out.end = std::max(out.end, job.visible[q].end);
  }
  return out;
}

}  // namespace

// Two of each (cpu/generic/attention.cc).
#if defined(__x86_64__)
namespace avx2 {
extern const AttentionOps attention_ops[2];
}
namespace avxvnni {
extern const AttentionOps attention_ops[2];
}
namespace avx512vnni {
extern const AttentionOps attention_ops[2];
}
namespace avx512 {
extern const AttentionOps attention_ops[2];
}
#elif defined(__aarch64__)
namespace neon {
extern const AttentionOps attention_ops[2];
}
#endif

const AttentionOps& attention_ops(Isa isa) {
  return attention_ops(isa, tuning().bf16_dot);
}

const AttentionOps& attention_ops(Isa isa, [[maybe_unused]] bool bf16_instruction) {
  static constexpr AttentionOps kReference = {reference_store, &reference_attention_kernel,
                                              &reference_code_attention_kernel,
                                              &reference_code_attention_kernel};
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::attention_ops[0];
    case Isa::avxvnni:
      return avxvnni::attention_ops[0];
    case Isa::avx512vnni:
      return avx512vnni::attention_ops[0];
    case Isa::avx512:
      return avx512::attention_ops[bf16_instruction];
#elif defined(__aarch64__)
    case Isa::neon:
      return neon::attention_ops[0];
#endif
    default:
      return kReference;
  }
}

void flag_not_finite(const AttentionJob& job, uint32_t query) {
  if (job.not_finite == nullptr) return;
  std::atomic_ref<uint8_t>(job.not_finite[query]).store(1, std::memory_order_relaxed);
}

Status AttentionScratch::reserve(int threads, uint32_t max_q_heads, uint32_t max_dim,
                                 uint32_t max_positions) {
  constexpr uint32_t kMost = 1u << 20;
  if (threads < 1 || threads > ThreadPool::kMaxThreads || max_q_heads == 0 || max_dim == 0 ||
      max_q_heads > kMost || max_dim > kMost)
    return fail(ErrorCode::internal, "attention scratch",
                std::to_string(threads) + " threads, " + std::to_string(max_q_heads) +
                    " heads of " + std::to_string(max_dim),
                "positive sizes in range");
  AttentionWork measured;
  const size_t ld = line_of(max_dim);
  const size_t work_bytes = lay_out(measured, static_cast<uint32_t>(ld), nullptr);
  const size_t chunks = blocks(max_positions, kChunkPositions);
  // At most 2^24 chunks, 2^20 heads, lines of 2^20: the product fits 64 bits with the test below.
  const size_t rows = threads == 1 ? 0 : kSplitJobs * chunks * max_q_heads;
  if (rows > std::numeric_limits<size_t>::max() / 2 / sizeof(float) / (ld + 2 * kLine))
    return fail(ErrorCode::out_of_memory, "attention scratch", std::to_string(rows) + " rows");
  const size_t partial_floats = rows * (ld + 2);
  GYRE_ASSIGN(memory_, Array<std::byte>::make(threads * work_bytes + partial_floats * sizeof(float),
                                              "attention scratch"));
  threads_ = threads;
  max_dim_ = max_dim;
  work_bytes_ = work_bytes;
  partial_floats_ = partial_floats;
  return {};
}

// One parallel loop over at most kMaxJobs jobs.
class AttentionRun {
 public:
  AttentionRun(const AttentionOps& ops, ThreadPool& pool, std::span<const AttentionJob> jobs,
               AttentionScratch& scratch)
      : ops_(ops), pool_(pool), jobs_(jobs), scratch_(scratch) {}

  void run() {
    check();
    plan();
    pool_.run(first_task_[jobs_.size()],
              [this](size_t task, int worker) { compute(task, worker); });
    if (first_merge_[jobs_.size()] == 0) return;
    pool_.run(first_merge_[jobs_.size()], [this](size_t task, int worker) { merge(task, worker); });
  }

 private:
  // How one job is cut: tiles of every kv head, and for a split job pieces of a tile's chunks.
  struct Plan {
    uint32_t rows = 0;    // of one kv head
    uint32_t tiles = 0;   // of one kv head
    uint32_t pieces = 0;  // of one tile; 0 = not split
    uint32_t chunk_begin = 0, chunk_end = 0;
    float* partials = nullptr;  // [kv head][tile][chunk] of partial_floats each
    size_t partial_floats = 0;
  };

  void check() const {
    for (const AttentionJob& job : jobs_) {
      const KvLayout& layout = job.layout;
      if (pool_.size() <= scratch_.threads_ && layout.kv_heads != 0 &&
          job.q_heads % layout.kv_heads == 0 && job.q_heads != 0 && layout.v_dim != 0 &&
          layout.k_dim % 2 == 0 && layout.k_dim <= scratch_.max_dim_ &&
          layout.v_dim <= scratch_.max_dim_ && !layout.code.rotated)
        continue;
      std::fprintf(stderr,
                   "gyre: internal: attention of %u heads over %u, dims %u and %u, %d threads: "
                   "not what the scratch was reserved for\n",
                   job.q_heads, layout.kv_heads, layout.k_dim, layout.v_dim, pool_.size());
      std::abort();
    }
  }

  const AttentionKernel& kernel(const AttentionJob& job) const {
    switch (job.layout.code.k.kind) {
      case CodeKind::bf16:
        return *ops_.kernel;
      case CodeKind::f32:
        break;
      case CodeKind::affine:
        return *ops_.affine_kernel;
      case CodeKind::turbo:
        return *ops_.turbo_kernel;
    }
    return reference_attention_kernel;
  }

  static double cost(const AttentionJob& job) {
    double keys = 0;
    for (uint32_t q = 0; q < job.queries; ++q) keys += job.visible[q].end - job.visible[q].begin;
    return keys * job.q_heads * (job.layout.k_dim + job.layout.v_dim);
  }

  void plan() {
    double total = 0;
    for (const AttentionJob& job : jobs_) total += cost(job);
    const double target = total / static_cast<double>(pool_.size() * kTasksPerThread);
    size_t tasks = 0, merges = 0, floats = 0;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      const AttentionJob& job = jobs_[j];
      Plan& plan = plans_[j];
      first_task_[j] = tasks;
      first_merge_[j] = merges;
      if (job.queries == 0) {
        plan = {};
        continue;
      }
      plan.rows = job.queries * (job.q_heads / job.layout.kv_heads);
      plan.tiles = blocks(plan.rows, kTileRows);
      plan.pieces = 0;
      const size_t units = size_t{job.layout.kv_heads} * plan.tiles;
      if (pool_.size() > 1)
        split(job, plan, cost(job) / static_cast<double>(units), target, floats);
      tasks += units * std::max(plan.pieces, 1u);
      if (plan.pieces != 0) merges += units;
    }
    first_task_[jobs_.size()] = tasks;
    first_merge_[jobs_.size()] = merges;
  }

  // Splits a job whose tiles are dear compared with a fair share, when there is room for its
  // partial results.
  void split(const AttentionJob& job, Plan& plan, double tile_cost, double target, size_t& floats) {
    if (tile_cost <= target) return;
    const Visible seen = hull(job, 0, job.queries);
    plan.chunk_begin = seen.begin / kChunkPositions;
    plan.chunk_end = blocks(seen.end, kChunkPositions);
    const uint32_t chunks = plan.chunk_end - plan.chunk_begin;
    plan.partial_floats = size_t{std::min(plan.rows, kTileRows)} * (line_of(job.layout.v_dim) + 2);
    const size_t needed = size_t{job.layout.kv_heads} * plan.tiles * chunks * plan.partial_floats;
    if (chunks < 2 || needed > scratch_.partial_floats_ - floats) return;
    const double wanted = tile_cost / target + 1;
    plan.pieces = wanted < chunks ? static_cast<uint32_t>(wanted) : chunks;
    plan.partials = reinterpret_cast<float*>(scratch_.memory_.data() +
                                             size_t(scratch_.threads_) * scratch_.work_bytes_) +
                    floats;
    floats += needed;
  }

  AttentionWork work_of(int worker) const {
    AttentionWork work;
    lay_out(work, line_of(scratch_.max_dim_),
            scratch_.memory_.data() + worker * scratch_.work_bytes_);
    return work;
  }

  AttentionTile tile_of(size_t job, size_t unit) const {
    const Plan& plan = plans_[job];
    AttentionTile tile;
    tile.job = &jobs_[job];
    tile.kv_head = static_cast<uint32_t>(unit / plan.tiles);
    tile.row_begin = static_cast<uint32_t>(unit % plan.tiles) * kTileRows;
    tile.row_end = std::min(plan.rows, tile.row_begin + kTileRows);
    return tile;
  }

  AttentionPartial partial_of(const Plan& plan, size_t unit, uint32_t chunk) const {
    const uint32_t rows = std::min(plan.rows, kTileRows);
    float* at =
        plan.partials + (unit * (plan.chunk_end - plan.chunk_begin) + chunk - plan.chunk_begin) *
                            plan.partial_floats;
    const size_t ld = plan.partial_floats / rows - 2;
    return {at, at + rows * ld, at + rows * (ld + 1), ld};
  }

  static size_t job_of(const size_t* first, size_t count, size_t task) {
    return std::upper_bound(first, first + count, task) - first - 1;
  }

  void compute(size_t task, int worker) const {
    const size_t j = job_of(first_task_, jobs_.size(), task);
    const Plan& plan = plans_[j];
    const size_t pieces = std::max(plan.pieces, 1u);
    const size_t unit = (task - first_task_[j]) / pieces, piece = (task - first_task_[j]) % pieces;
    const AttentionTile tile = tile_of(j, unit);
    const AttentionKernel& kernel = this->kernel(jobs_[j]);
    AttentionWork work = work_of(worker);
    kernel.begin(tile, work);
    if (plan.pieces == 0) return whole_tile(tile, kernel, work);
    const uint32_t chunks = plan.chunk_end - plan.chunk_begin;
    for (size_t c = chunks * piece / pieces; c < chunks * (piece + 1) / pieces; ++c) {
      const uint32_t chunk = plan.chunk_begin + static_cast<uint32_t>(c);
      kernel.chunk(tile, chunk, work, partial_of(plan, unit, chunk));
    }
  }

  static void whole_tile(const AttentionTile& tile, const AttentionKernel& kernel,
                         AttentionWork& work) {
    const Visible seen = hull(*tile.job, tile.query(0), tile.query(tile.rows() - 1) + 1);
    std::fill(work.total.sum, work.total.sum + tile.rows(), 0.0f);
    for (uint32_t c = seen.begin / kChunkPositions; c < blocks(seen.end, kChunkPositions); ++c) {
      kernel.chunk(tile, c, work, work.chunk);
      kernel.merge(tile.rows(), tile.job->layout.v_dim, work.chunk, work.total);
    }
    kernel.finish(tile, work.total);
  }

  void merge(size_t task, int worker) const {
    const size_t j = job_of(first_merge_, jobs_.size(), task);
    const Plan& plan = plans_[j];
    const size_t unit = task - first_merge_[j];
    const AttentionTile tile = tile_of(j, unit);
    const AttentionKernel& kernel = this->kernel(jobs_[j]);
    AttentionWork work = work_of(worker);
    std::fill(work.total.sum, work.total.sum + tile.rows(), 0.0f);
    for (uint32_t chunk = plan.chunk_begin; chunk < plan.chunk_end; ++chunk) {
      kernel.merge(tile.rows(), jobs_[j].layout.v_dim, partial_of(plan, unit, chunk), work.total);
    }
    kernel.finish(tile, work.total);
  }

  const AttentionOps& ops_;
  ThreadPool& pool_;
  std::span<const AttentionJob> jobs_;
  AttentionScratch& scratch_;
  Plan plans_[kMaxJobs];
  size_t first_task_[kMaxJobs + 1], first_merge_[kMaxJobs + 1];
};

void run_attention(const AttentionOps& ops, ThreadPool& pool, std::span<const AttentionJob> jobs,
                   AttentionScratch& scratch) {
  for (size_t begin = 0; begin < jobs.size(); begin += kMaxJobs)
    AttentionRun(ops, pool, jobs.subspan(begin, std::min(kMaxJobs, jobs.size() - begin)), scratch)
        .run();
}

}  // namespace gyre::kernels
