#include "nn/backend.h"

#include "kernels/reference/linear.h"

namespace gyre::nn {

Backend make_backend(kernels::Isa isa, ThreadPool* pool) {
  return {isa, &kernels::linear_ops(isa), &kernels::row_ops(isa), &kernels::attention_ops(isa),
          pool};
}

Backend make_oracle_backend(ThreadPool* pool) {
  Backend backend = make_backend(kernels::Isa::scalar, pool);
  backend.linear = &kernels::oracle_linear_ops();
  backend.kv_code = kernels::kF32Code;
  return backend;
}

}  // namespace gyre::nn
