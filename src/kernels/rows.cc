#include "kernels/rows.h"

namespace gyre::kernels {

extern const RowOps reference_row_ops;

const RowOps& row_ops(Isa) { return reference_row_ops; }

}  // namespace gyre::kernels
