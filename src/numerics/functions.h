// The contract's functions for one float: the definition that every instruction set must equal bit
// for bit. Text: functions.inl. NaN in, NaN out; explicit fma everywhere; libm is never called.
//
// Errors stay below, in units of the last place of the exact result (functions_test.cc asserts it):
//   exp 0.90   sigmoid, silu, gelu, gelu_erf, gelu_quick 0.80   tanh 0.95   log 0.85
//   softplus 1.15   sin, cos 0.90 (|x| <= 2^17)
// Measured: exp over all 2^32 inputs (0.894); the others over 2^22 inputs and the surroundings of
// every power of two, with a margin. GYRE_EXHAUSTIVE=1 runs all inputs of all functions.
// Limits: exp gives +0 where the result is below 2^-126, +inf above the largest float;
// log(0) = -inf, log of a negative = NaN; sin and cos give NaN for |x| > 2^17 and infinities.
// Pure functions; callers must have opened a FloatEnvironment.
#pragma once

namespace gyre::numerics {

float exp(float x);
float log(float x);
float tanh(float x);
float sigmoid(float x);     // 1 / (1 + exp(-x))
float softplus(float x);    // log(1 + exp(x))
float silu(float x);        // x sigmoid(x)
float gelu(float x);        // x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))
float gelu_erf(float x);    // x Phi(x), Phi the normal distribution
float gelu_quick(float x);  // x sigmoid(1.702 x)
float sin(float x);
float cos(float x);

}  // namespace gyre::numerics
