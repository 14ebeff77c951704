// The floating-point environment of the contract: round to nearest even, subnormals kept, no traps.
//
// Loading a library built with fast-math changes MXCSR, and threads inherit it. So every computing
// entry opens a FloatEnvironment: it sets MXCSR (x86) or FPCR (arm64) and restores it at the end.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace gyre {

class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : saved_(_mm_getcsr()) {
    _mm_setcsr(0x1f80);
  }
  ~FloatEnvironment() {
    _mm_setcsr(saved_);
  }
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    asm volatile("msr fpcr, %0" ::"r"(uint64_t{0}));
  }
  ~FloatEnvironment() {
    asm volatile("msr fpcr, %0" ::"r"(saved_));
  }
#endif
  FloatEnvironment(const FloatEnvironment&) = delete;
  FloatEnvironment& operator=(const FloatEnvironment&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#elif defined(__aarch64__)
  uint64_t saved_;
#endif
};

// Proves on this build and machine: products are not contracted into sums, subnormals survive, and
// rounding is to nearest even. Called once at start; false means the build must not compute.
bool float_environment_is_sound();

}  // namespace gyre
