// Double-precision functions from + - * / fma only, so that rope tables and logprobs have the same
// bits on every machine. Not for inner loops.
#pragma once

namespace gyre::numerics {

// log(x) for finite x > 0 (subnormals too): below 1 ulp. log(0) = -inf; x < 0, NaN: NaN; inf: inf.
double log_own(double x);

// base^exponent for finite base > 0, result between 2^-1000 and 2^1000: below 1 ulp while the
// result is within 2^+-64, below 16 ulp elsewhere. NaN outside this domain.
double pow_own(double base, double exponent);

// sin and cos of x for |x| <= 2^27, below 1 ulp; NaN outside.
void sincos_own(double x, double* sine, double* cosine);

}  // namespace gyre::numerics
