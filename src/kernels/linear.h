// Matrix times activations: y[column][row] = sum over k of weight[row][k] * x[column][k].
//
// The order of every sum is the contract's (docs/contract.md); it never depends on how many columns
// there are, on tiles or on threads. A column is one token. All pointers are host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/isa.h"
#include "os/memory.h"
#include "tensor/view.h"

namespace gyre::kernels {

inline constexpr uint32_t kPanelRows = 16;  // output rows of one panel
inline constexpr uint32_t kActBlock = 32;   // activations of one int8 block
inline constexpr uint32_t kSegment = 256;   // K is cut in segments of this length
// Columns that one multiply() sweeps while a panel's weights are in L1. Speed only.
inline constexpr uint32_t kTileColumnsMax = 192;
// An activation block that holds this magnitude or more (Inf and NaN too) ends its row as not
// finite: below it no product of the canonical order can overflow on its way.
inline constexpr float kActLimit = 0x1p100f;

// A weight matrix in two pictures: the file's rows (read by the reference) and panels of 16 rows
// (read by the fast kernels). Either may be null where it isn't needed.
struct Matrix {
  TensorView file;                    // file.rows outputs, file.cols = K
  const std::byte* panels = nullptr;  // ceil(rows / 16) panels of panel_bytes() each
  uint32_t rows() const { return file.rows; }
  uint32_t cols() const { return file.cols; }
  DType dtype() const { return file.dtype; }
};

// Panels (kernels/panels.cc; byte pictures in docs/formats/panels.md). Rows past the matrix's last
// are zero; panels are 64-byte aligned. The layout has a version, which is part of every pack
// cache's name.
inline constexpr uint32_t kPanelLayoutVersion = 1;
size_t panel_bytes(DType dtype, uint32_t cols);
inline uint32_t panel_count(uint32_t rows) {
  return (rows + kPanelRows - 1) / kPanelRows;
}
// Packs panels [begin, end) of the matrix into out (panel `begin` first).
void pack_panels(const TensorView& file, uint32_t begin, uint32_t end, std::byte* out);
// One row's values (embedding lookup), from whichever picture is there; bits are equal. bf16 values
// are the operands of a dot: below 2^-56 they are +0.
void matrix_row(const Matrix& matrix, uint32_t row, float* out);

// What a dot needs of its activations. One set serves all matrices that read the same input.
enum ActForm : uint32_t { kFormInt8 = 1, kFormBf16 = 2, kFormF32 = 4 };
uint32_t act_form(DType weights);  // the form that a matrix of this type reads

struct Activations {
  uint32_t columns = 0, k = 0;
  uint32_t stride = 0;         // columns that the arrays below have room for, >= columns
  int8_t* q = nullptr;         // [block][stride][32]; the tail of a short last block is 0
  float* d = nullptr;          // [block][stride]
  int32_t* sum16 = nullptr;    // [block][2][stride]: sum of q over each half block
  uint16_t* bf16 = nullptr;    // [column][k rounded up to even], bf16 operands (contract rounding)
  const float* f32 = nullptr;  // [column][ld]: the input itself
  size_t ld = 0;
};

// Owns the arrays of one Activations; grows only in reserve(), so steps do not allocate.
class ActivationBuffer {
 public:
  Status reserve(uint32_t max_columns, uint32_t max_k);
  // An empty set of the given size. forms: which arrays will be filled.
  Activations shape(uint32_t columns, uint32_t k);
  size_t bytes() const;

 private:
  uint32_t max_columns_ = 0, max_k_ = 0;
  Array<int8_t> q_;
  Array<float> d_;
  Array<int32_t> sum16_;
  Array<uint16_t> bf16_;
};

// What follows a dot: bias, then the value that is already in y (a residual), each one f32 add.
struct LinearJob {
  const Matrix* matrix = nullptr;
  float* y = nullptr;  // [column][ldy]; written
  size_t ldy = 0;
  const float* bias = nullptr;  // [rows] or null
  bool add_to_y = false;        // y = (dot + bias) + y
};

// The operators of one instruction set, on ranges; no threads inside.
struct LinearOps {
  // Fills the int8 (and/or bf16) form of columns [begin, end) from x[column][ld]. A block with a
  // NaN, an Inf or a magnitude of kActLimit sets not_finite[column] = 1 (never clears) and stores
  // zeros.
  void (*prepare)(const float* x, size_t ld, uint32_t begin, uint32_t end, uint32_t forms,
                  Activations& out, uint8_t* not_finite);
  // y of panels [panel_begin, panel_end) and columns [column_begin, column_end).
  void (*multiply)(const LinearJob& job, const Activations& x, uint32_t panel_begin,
                   uint32_t panel_end, uint32_t column_begin, uint32_t column_end);
};

const LinearOps& linear_ops(Isa isa);

// All jobs read the same activations; one parallel loop.
void run_linear(const LinearOps& ops, ThreadPool& pool, std::span<const LinearJob> jobs,
                const Activations& x);
// prepare() over all columns, parallel when there are many.
void run_prepare(const LinearOps& ops, ThreadPool& pool, const float* x, size_t ld, uint32_t forms,
                 Activations& out, uint8_t* not_finite);

}  // namespace gyre::kernels
