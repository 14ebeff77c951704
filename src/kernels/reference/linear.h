// The scalar definition of kernels/linear.h's operators, and an oracle for tests.
#pragma once

#include "kernels/linear.h"

namespace gyre::kernels {

const LinearOps& reference_linear_ops();

// Tests only: weights decoded to f32 times f32 activations (Activations::f32 must be set whatever
// the type), k ascending fma in segments: what the quantised dots approximate.
const LinearOps& oracle_linear_ops();

}  // namespace gyre::kernels
