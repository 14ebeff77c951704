// The driver of kernels/linear.h: activation buffers, and loops over panels and columns.
#include "kernels/linear.h"

#include <algorithm>

#include "base/fp_env.h"
#include "kernels/reference/linear.h"
#include "quant/codes.h"

namespace gyre::kernels {

#if defined(__x86_64__)
namespace avx2 {
const LinearOps& linear_ops();
}
namespace avxvnni {
const LinearOps& linear_ops();
}
namespace avx512vnni {
const LinearOps& linear_ops();
}
namespace avx512 {
const LinearOps& linear_ops();
}
#elif defined(__aarch64__)
namespace neon {
const LinearOps& linear_ops();
}
#endif

const LinearOps& linear_ops(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::linear_ops();
    case Isa::avxvnni:
      return avxvnni::linear_ops();
    case Isa::avx512vnni:
      return avx512vnni::linear_ops();
    case Isa::avx512:
      return avx512::linear_ops();
#elif defined(__aarch64__)
    case Isa::neon:
      return neon::linear_ops();
#endif
    default:
      return reference_linear_ops();
  }
}

uint32_t act_form(DType weights) {
  if (quant::traits(weights).family != quant::Family::plain) return kFormInt8;
  return weights == DType::bf16 ? kFormBf16 : kFormF32;
}

namespace {

// Panel bytes of one work item: enough to amortise its start, small enough to steal.
constexpr size_t kItemBytesMin = size_t{64} << 10, kItemBytesMax = size_t{256} << 10;
constexpr size_t kItemsPerThread = 4;
// prepare() of fewer columns isn't worth waking a worker.
constexpr uint32_t kPrepareColumns = 8;

uint32_t blocks_of(uint32_t k) {
  return (k + kActBlock - 1) / kActBlock;
}

// A stride of a multiple of 64 columns would put the same column of successive blocks on the same
// cache sets.
uint32_t stride_of(uint32_t columns) {
  return columns % 64 == 0 ? columns + 2 : columns;
}

uint32_t divide_up(size_t a, size_t b) {
  return static_cast<uint32_t>((a + b - 1) / b);
}

// The i-th of `parts` nearly equal shares of n.
uint32_t share(uint32_t n, uint32_t i, uint32_t parts) {
  return static_cast<uint32_t>(uint64_t{n} * i / parts);
}

// How one job is cut: column tiles times ranges of panel pairs.
struct Cut {
  uint32_t pairs = 0, ranges = 1, tiles = 1;
  size_t items() const { return size_t{ranges} * tiles; }
};

Cut cut_of(const LinearJob& job, uint32_t columns, size_t item_bytes) {
  const Matrix& m = *job.matrix;
  const uint32_t panels = panel_count(m.rows());
  Cut cut;
  cut.pairs = divide_up(panels, 2);
  cut.tiles = std::max(1u, divide_up(columns, kTileColumnsMax));
  const size_t bytes = panels * panel_bytes(m.dtype(), m.cols());
  cut.ranges = std::clamp(divide_up(bytes, item_bytes), 1u, std::max(1u, cut.pairs));
  return cut;
}

size_t item_bytes(std::span<const LinearJob> jobs, uint32_t tiles, int threads) {
  size_t total = 0;
  for (const LinearJob& job : jobs)
    total += panel_count(job.matrix->rows()) * panel_bytes(job.matrix->dtype(), job.matrix->cols());
  const size_t items = threads > 1 ? static_cast<size_t>(threads) * kItemsPerThread : 1;
  return std::clamp(total * tiles / items, kItemBytesMin, kItemBytesMax);
}

void run_item(const LinearOps& ops, const LinearJob& job, const Activations& x, const Cut& cut,
              size_t item) {
  const uint32_t tile = static_cast<uint32_t>(item / cut.ranges);
  const uint32_t range = static_cast<uint32_t>(item % cut.ranges);
  const uint32_t panels = panel_count(job.matrix->rows());
  ops.multiply(job, x, 2 * share(cut.pairs, range, cut.ranges),
               std::min(panels, 2 * share(cut.pairs, range + 1, cut.ranges)),
               share(x.columns, tile, cut.tiles), share(x.columns, tile + 1, cut.tiles));
}

}  // namespace

Status ActivationBuffer::reserve(uint32_t max_columns, uint32_t max_k) {
  if (max_columns <= max_columns_ && max_k <= max_k_) return {};
  const size_t columns = size_t{std::max(max_columns, max_columns_)} + 2;
  const size_t blocks = blocks_of(std::max(max_k, max_k_));
  const size_t cells = columns * blocks;
  constexpr size_t kSlack = 16;  // kernels load whole vectors of scales and sums
  GYRE_ASSIGN(auto q, Array<int8_t>::make(cells * kActBlock, "activations"));
  GYRE_ASSIGN(auto d, Array<float>::make(cells + kSlack, "activation scales"));
  GYRE_ASSIGN(auto sum16, Array<int32_t>::make(cells * 2 + kSlack, "activation sums"));
  GYRE_ASSIGN(auto bf16, Array<uint16_t>::make(cells * kActBlock, "bf16 activations"));
  q_ = std::move(q);
  d_ = std::move(d);
  sum16_ = std::move(sum16);
  bf16_ = std::move(bf16);
  max_columns_ = static_cast<uint32_t>(columns - 2);
  max_k_ = std::max(max_k, max_k_);
  return {};
}

Activations ActivationBuffer::shape(uint32_t columns, uint32_t k) {
  Activations out;
  out.columns = columns;
  out.k = k;
  out.stride = stride_of(columns);
  out.q = q_.data();
  out.d = d_.data();
  out.sum16 = sum16_.data();
  out.bf16 = bf16_.data();
  return out;
}

size_t ActivationBuffer::bytes() const {
  return q_.size() + d_.size() * sizeof(float) + sum16_.size() * sizeof(int32_t) +
         bf16_.size() * sizeof(uint16_t);
}

void run_linear(const LinearOps& ops, ThreadPool& pool, std::span<const LinearJob> jobs,
                const Activations& x) {
  if (x.columns == 0) return;
  const size_t bytes = item_bytes(jobs, divide_up(x.columns, kTileColumnsMax), pool.size());
  size_t items = 0;
  for (const LinearJob& job : jobs) items += cut_of(job, x.columns, bytes).items();
  auto body = [&](size_t item, int) {
    const FloatEnvironment environment;
    for (const LinearJob& job : jobs) {
      const Cut cut = cut_of(job, x.columns, bytes);
      if (item < cut.items()) return run_item(ops, job, x, cut, item);
      item -= cut.items();
    }
  };
  pool.run(items, body);
}

void run_prepare(const LinearOps& ops, ThreadPool& pool, const float* x, size_t ld, uint32_t forms,
                 Activations& out, uint8_t* not_finite) {
  out.f32 = x;
  out.ld = ld;
  const uint32_t parts = divide_up(out.columns, kPrepareColumns);
  auto body = [&](size_t part, int) {
    const FloatEnvironment environment;
    const uint32_t i = static_cast<uint32_t>(part);
    ops.prepare(x, ld, share(out.columns, i, parts), share(out.columns, i + 1, parts), forms, out,
                not_finite);
  };
  if (parts > 1) return pool.run(parts, body);
  if (parts == 1) body(0, 0);
}

}  // namespace gyre::kernels
