// What computes a step: one instruction set's operators and one thread pool.
#pragma once

#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/rows.h"

namespace gyre::nn {

struct Backend {
  kernels::Isa isa;
  const kernels::LinearOps* linear;
  const kernels::RowOps* rows;
  const kernels::AttentionOps* attention;
  ThreadPool* pool;  // borrowed
  kernels::LayerCode kv_code = kernels::kBf16Code;
  // The fast kernels read panels; the reference reads the file's rows.
  bool packs() const { return isa != kernels::Isa::scalar; }
};

Backend make_backend(kernels::Isa isa, ThreadPool* pool);
// f32 activations, weights and K/V on the reference: compares Gyre with other engines; tests only.
Backend make_oracle_backend(ThreadPool* pool);

}  // namespace gyre::nn
