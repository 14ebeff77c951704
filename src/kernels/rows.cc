#include "kernels/rows.h"

namespace gyre::kernels {

extern const RowOps reference_row_ops;
#if defined(__x86_64__)
namespace avx2 {
extern const RowOps row_ops;
}
namespace avxvnni {
extern const RowOps row_ops;
}
namespace avx512vnni {
extern const RowOps row_ops;
}
namespace avx512 {
extern const RowOps row_ops;
}
#elif defined(__aarch64__)
namespace neon {
extern const RowOps row_ops;
}
#endif

const RowOps& row_ops(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return avx2::row_ops;
    case Isa::avxvnni:
      return avxvnni::row_ops;
    case Isa::avx512vnni:
      return avx512vnni::row_ops;
    case Isa::avx512:
      return avx512::row_ops;
#elif defined(__aarch64__)
    case Isa::neon:
      return neon::row_ops;
#endif
    default:
      return reference_row_ops;
  }
}

}  // namespace gyre::kernels
