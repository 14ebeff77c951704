#include "base/fp_env.h"

#include <cmath>
#include <limits>

namespace gyre {

bool float_environment_is_sound() {
  FloatEnvironment environment;
  // volatile: computed at run time, by the instructions that this build really uses.
  volatile float a = 1.0f + 0x1p-12f, minus_square = -(1.0f + 0x1p-11f);
  const float a1 = a, c1 = minus_square;
  const bool uncontracted = a1 * a1 + c1 == 0.0f;  // fused: 2^-24
  const bool fused = std::fma(a1, a1, c1) == 0x1p-24f;
  volatile float smallest = std::numeric_limits<float>::min();
  const bool subnormals = smallest * 0.5f > 0.0f;
  volatile float one = 1.0f, half_ulp = 0x1p-24f;
  const bool nearest_even =
      one + half_ulp == 1.0f && (one + 0x1p-23f) + half_ulp == 1.0f + 0x1p-22f;
  return uncontracted && fused && subnormals && nearest_even;
}

}  // namespace gyre
