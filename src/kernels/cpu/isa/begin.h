// Opens the region of one instruction set: the compiler's target, the namespace
// gyre::kernels::<target> and its vocabulary. isa/end.h closes it.
//
// A text in cpu/generic/ is compiled once per target with GYRE_TARGET set. It includes all its
// other headers first (what std and shared headers define stays baseline code), then this one,
// once. No lambdas inside: clang gives them no target. The contract's functions
// (numerics/functions.inl) are part of the region.
//
// The vocabulary is the same in every set. Everything is 16 lanes wide:
//   F  16 floats      I  16 int32      M  16 truth values      B  64 bytes, 4 for each lane
// A lane is an output row, a key or an element; no word mixes lanes unless it says so. Pointers
// need no alignment, except those of load_line and store_line (64 bytes).
//
//   F::splat I::splat B::splat; a + b, a - b, a * b on F and I; a / b, -a on F; a & b, a | b, a ^ b
//   on I; a & b, a | b, a ^ b, a + b, a - b (bytes, wrapping) on B
//   load_f load_i, store(p, F), store(p, I)     load_first(p, n) store_first(p, v, n): n <= 16
//   load_u8 load_i8 load_u16: 16 integers, widened       load_f16 load_bf16: 16 halves as F
//   store_i8 store_u16: the low bits of each lane
//   fma(a, b, c) = a * b + c   sqrt   min max (either, where a lane is NaN)
//   less equal -> M (IEEE)   above(I, I) signed greater -> M   m & m, m | m   any(m) first_lanes(n)
//   select(m, a, b): a where m, else b
//   bits(F) from_bits(I)   to_float(I)   round_to_int(F): nearest even
//   shift_left<n> shift_right<n> (logical) shift_right_signed<n>: I   shift_left shift_right(I, I)
//   sum_lanes(F): the contract's tree 8, 4, 2, 1   sum_lanes(I)  max_lanes(I): signed
//   splat4(p): 4 bytes in every lane
//   dot4(acc, w, x): acc + the 4 products of w's unsigned and x's signed bytes of a lane, exact
//   Dots<wide, max code>: dot4 over the lines of a block
//   low_of_pair high_of_pair: the bf16 in the low / high half of a lane of I, as F
//   fma_pair(s, w, x): s = fma(high, high, s), then fma(low, low, s): the contract's bf16 step
//   keep(I): stays in a register, so that its load isn't repeated by each user
//   load_line store_line: B     nibble_low nibble_high: 4 bits of each byte
//   byte_shift_right<n>(B) byte_shift_left<n>(B): within bytes      look_up(table16, B): by nibble
//   bit_spread(p): 64 bits at p -> bytes 0 or 0xff     splat_lane_bytes(p): 16 bytes, each in its
//   lane's 4 bytes     scale_bytes(B, I n): each byte times n, which is in both halves of its lane;
//   products fit a byte     as_bytes(I) as_int(B): the same bits     prefetch(p) prefetch_l2(p)
//   even_lanes odd_lanes(F): lanes 2i and 2i + 1 both become lane 2i (2i + 1)
//   swap_lanes<n>(F): lane i becomes lane i ^ n     repeat<bytes>(p): 8, 16 or 32 bytes, repeated
//   look_up_pairs<bits>(table, I): both halves of each lane, below 2^bits, become table values;
//   fast where kLooksUpWords. The table has 32 entries at least, and 2 readable bytes after it
// dot4 takes codes up to 127; dot4_wide takes codes up to 255, as code - 128 where kSignedBytes.
#pragma once

#if !defined(GYRE_TARGET)
#error "isa/begin.h: GYRE_TARGET is not set"
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define GYRE_WORD inline __attribute__((always_inline))
// Before a loop of at most 8 rounds whose arrays are registers.
#define GYRE_UNROLL _Pragma("GCC unroll 8")

#if defined(GYRE_TARGET_avx2)
#define GYRE_TARGET_NAME "avx2,fma,f16c"
#elif defined(GYRE_TARGET_avxvnni)
#define GYRE_TARGET_NAME "avx2,fma,f16c,avxvnni"
#elif defined(GYRE_TARGET_avx512vnni)
#define GYRE_TARGET_NAME "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni"
#elif defined(GYRE_TARGET_avx512)
#define GYRE_TARGET_NAME "avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx512bf16"
#elif defined(GYRE_TARGET_neon)
#define GYRE_TARGET_NAME "arch=armv8.2-a+dotprod+fp16"
#else
#error "isa/begin.h: unknown GYRE_TARGET"
#endif

#define GYRE_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define GYRE_PUSH(name) \
  GYRE_PRAGMA(clang attribute push(__attribute__((target(name))), apply_to = function))
GYRE_PUSH(GYRE_TARGET_NAME)
#else
#define GYRE_PUSH(name) GYRE_PRAGMA(GCC target(name))
#pragma GCC push_options
GYRE_PUSH(GYRE_TARGET_NAME)
#endif

namespace gyre::kernels::GYRE_TARGET {

#if defined(GYRE_TARGET_avx2) || defined(GYRE_TARGET_avxvnni)
#include "kernels/cpu/isa/avx2.inl"
#elif defined(GYRE_TARGET_neon)
#include "kernels/cpu/isa/neon.inl"
#else
#include "kernels/cpu/isa/avx512.inl"
#endif
#include "numerics/functions.inl"

}  // namespace gyre::kernels::GYRE_TARGET

namespace gyre::kernels::GYRE_TARGET {
