// Matrix times activations for one instruction set: every format, many columns or few.
#include "kernels/linear.h"

#include <algorithm>

#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tuning.h"
#include "kernels/panel_layout.h"

#include "kernels/cpu/isa/begin.h"

// Each needs the ones above it:
// clang-format off
#include "kernels/cpu/generic/linear_families.inl"
#include "kernels/cpu/generic/linear_formats.inl"
#include "kernels/cpu/generic/linear_sweep.inl"
#include "kernels/cpu/generic/linear_call.inl"
#include "kernels/cpu/generic/linear_plain.inl"
#include "kernels/cpu/generic/linear_prepare.inl"
// clang-format on

// From this many columns on, a format's Swept policy is used.
constexpr uint32_t kFoldColumns = 24;

GYRE_WORD View view_of(const Call& call, const Range& r, uint32_t first_block) {
  const Activations& x = call.x;
  const Cells& cells = call.scratch.cells;
  const size_t at = size_t{first_block} * x.stride + r.column_begin;
  return {x.q + at * kActBlock,
          x.d + at,
          {cells.start[0], cells.start[1]},
          cells.x,
          cells.y,
          x.stride,
          r.columns};
}

// Blocks of K in one pass: as many whole segments as the cells hold.
uint32_t pass_blocks(uint32_t columns) {
  return std::max(kSegmentBlocks, kMaxCells / columns / kSegmentBlocks * kSegmentBlocks);
}

// Bytes of a whole segment of a panel.
template <class Format>
constexpr uint32_t segment_bytes() {
  return static_cast<uint32_t>(segment_offset(panel_layout(Format::kType), 2) / 2);
}

// Whether the last segment's sweep may store outputs to y itself.
GYRE_WORD bool plain_outputs_of(const LinearJob& job, uint32_t panel, uint32_t panels) {
  return job.bias == nullptr && !job.add_to_y &&
         (panel + panels) * kPanelRows <= job.matrix->rows();
}

// kTilePanels panels (or the last one alone) of one pass. Outputs gather in scratch.out; the last
// segment's go to y where they are plain.
template <class Format, int P>
void sweep_panels(const Call& call, const Range& r, uint32_t panel, uint32_t begin, uint32_t end) {
  using Swept = SweptFormat<typename Format::Family, Format::kWide, Format::kMax>;
  constexpr uint32_t kBytes = segment_bytes<Format>();
  constexpr size_t kColumnFloats = kTilePanels * kLanes;
  float* gathered = call.scratch.out[0][0];
  for (uint32_t b = begin; b < end; b += kSegmentBlocks) {
    const uint32_t blocks = std::min(kSegmentBlocks, end - b);
    Ahead ahead = {{}, tuning().prefetch_bytes != 0 ? kBytes / 64 : 0, nullptr, call.job.ldy};
    Outputs outputs = {gathered, kColumnFloats, gathered, kColumnFloats};
    if (b == 0) {
      outputs.from = kZeros;
      outputs.from_ld = 0;
    }
    if (b + blocks == call.blocks) {
      float* y = call.job.y + r.column_begin * call.job.ldy + panel * kPanelRows;
      ahead.y = y;
      if (plain_outputs_of(call.job, panel, P)) {
        outputs.to = y;
        outputs.to_ld = call.job.ldy;
      }
    }
    for (int p = 0; p < P; ++p) {
      const Part part = part_of<Format::kType>(call.panel(panel + p), b / kSegmentBlocks, blocks);
      unpack_segment<Format>(part, blocks, p, call.scratch.unpacked);
      ahead.at[p] = part.field[0] + kBytes;
    }
    Sweep tiles = {call.scratch.unpacked, blocks, view_of(call, r, begin).at(b - begin, 0), outputs,
                   ahead};
    sweep_columns<Swept, P>(tiles, r.columns);
  }
}

template <class Format>
void multiply_tile(const Call& call, const Range& r) {
  const uint32_t pass = pass_blocks(r.columns);
  const bool one_pass = call.blocks <= pass;
  Scratch& scratch = call.scratch;
  if (one_pass)
    fill_cells<Format>(call.x, 0, call.blocks, r.column_begin, r.columns, scratch.cells);
  for (uint32_t panel = r.panel_begin; panel < r.panel_end; panel += kTilePanels) {
    const uint32_t panels = std::min<uint32_t>(kTilePanels, r.panel_end - panel);
    for (uint32_t b = 0; b < call.blocks; b += pass) {
      const uint32_t end = std::min(call.blocks, b + pass);
      if (!one_pass)
        fill_cells<Format>(call.x, b, end - b, r.column_begin, r.columns, scratch.cells);
      if (panels == kTilePanels) {
        sweep_panels<Format, kTilePanels>(call, r, panel, b, end);
      } else {
        sweep_panels<Format, 1>(call, r, panel, b, end);
      }
    }
    if (plain_outputs_of(call.job, panel, panels)) continue;
    for (uint32_t c = 0; c < r.columns; ++c) {
      for (uint32_t p = 0; p < panels; ++p)
        write_output(call.job, panel + p, r.column_begin + c, load_f(scratch.out[c][p]));
    }
  }
}

template <class Format, int N>
void stream_panels(const Call& call, const Range& r) {
  constexpr uint32_t kAheadLines = (segment_bytes<Format>() + 511) / 512;
  const uint32_t distance = tuning().prefetch_bytes;
  const uint32_t lines = distance != 0 ? kAheadLines : 0;
  const uint32_t pass = pass_blocks(N);
  const bool one_pass = call.blocks <= pass;
  if (one_pass) fill_cells<Format>(call.x, 0, call.blocks, r.column_begin, N, call.scratch.cells);
  for (uint32_t panel = r.panel_begin; panel < r.panel_end; ++panel) {
    const uint8_t* bytes = call.panel(panel);
    F out[N];
    for (int n = 0; n < N; ++n) out[n] = F::splat(0.0f);
    for (uint32_t begin = 0; begin < call.blocks; begin += pass) {
      const uint32_t end = std::min(call.blocks, begin + pass);
      if (!one_pass)
        fill_cells<Format>(call.x, begin, end - begin, r.column_begin, N, call.scratch.cells);
      View view = view_of(call, r, begin);
      for (uint32_t b = begin; b < end; b += kSegmentBlocks) {
        const uint32_t blocks = std::min(kSegmentBlocks, end - b);
        const Part part = part_of<Format::kType>(bytes, b / kSegmentBlocks, blocks);
        stream_segment<Format, N>(part, blocks, view, part.field[0] + distance, lines, out);
        view = view.at(kSegmentBlocks, 0);
      }
    }
    for (int n = 0; n < N; ++n)
      write_output(call.job, panel, r.column_begin + static_cast<uint32_t>(n), out[n]);
  }
}

template <class Format>
void multiply_quantised(const Call& call, const Range& r) {
  switch (r.columns) {
    case 1:
      return stream_panels<Format, 1>(call, r);
    case 2:
      return stream_panels<Format, 2>(call, r);
    case 3:
      return stream_panels<Format, 3>(call, r);
    case 4:
      return stream_panels<Format, 4>(call, r);
    default:
      break;
  }
  if constexpr (kStreamColumns == 8) {
    switch (r.columns) {
      case 5:
        return stream_panels<Format, 5>(call, r);
      case 6:
        return stream_panels<Format, 6>(call, r);
      case 7:
        return stream_panels<Format, 7>(call, r);
      case 8:
        return stream_panels<Format, 8>(call, r);
      default:
        break;
    }
  }
  // A costlier unpacking pays only if many columns share it.
  if (r.columns < kFoldColumns) return multiply_tile<Format>(call, r);
  multiply_tile<typename Format::Swept>(call, r);
}

void multiply_range(const Call& call, const Range& r) {
  switch (call.job.matrix->dtype()) {
    case DType::q4_0:
      return multiply_quantised<Q4_0>(call, r);
    case DType::q4_1:
      return multiply_quantised<Q4_1>(call, r);
    case DType::q5_0:
      return multiply_quantised<Q5_0>(call, r);
    case DType::q5_1:
      return multiply_quantised<Q5_1>(call, r);
    case DType::q8_0:
      return multiply_quantised<Q8_0>(call, r);
    case DType::iq4_nl:
      return multiply_quantised<Iq4Nl>(call, r);
    case DType::mxfp4:
      return multiply_quantised<Mxfp4>(call, r);
    case DType::q2_k:
      return multiply_quantised<Q2_K>(call, r);
    case DType::q3_k:
      return multiply_quantised<Q3_K>(call, r);
    case DType::q4_k:
      return multiply_quantised<Q4_K>(call, r);
    case DType::q5_k:
      return multiply_quantised<Q5_K>(call, r);
    case DType::q6_k:
      return multiply_quantised<Q6_K>(call, r);
    case DType::iq4_xs:
      return multiply_quantised<Iq4Xs>(call, r);
    case DType::f32:
      return multiply_plain<F32>(call, r);
    case DType::f16:
      return multiply_plain<F16>(call, r);
    case DType::bf16:
      return kBf16Dot && tuning().bf16_dot ? multiply_plain<Bf16<true>>(call, r)
                                           : multiply_plain<Bf16<false>>(call, r);
  }
}

void multiply(const LinearJob& job, const Activations& x, uint32_t panel_begin, uint32_t panel_end,
              uint32_t column_begin, uint32_t column_end) {
  const Matrix& m = *job.matrix;
  const Call call{job,
                  x,
                  *reinterpret_cast<Scratch*>(linear_scratch()),
                  reinterpret_cast<const uint8_t*>(m.panels),
                  panel_bytes(m.dtype(), m.cols()),
                  (m.cols() + kActBlock - 1) / kActBlock};
  for (uint32_t c = column_begin; c < column_end; c += kMaxTile)
    multiply_range(call, {panel_begin, panel_end, c, std::min(kMaxTile, column_end - c)});
}

const LinearOps& linear_ops() {
  static constexpr LinearOps ops = {prepare, multiply};
  return ops;
}

#include "kernels/cpu/isa/end.h"
