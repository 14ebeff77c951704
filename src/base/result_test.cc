#include "base/result.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/fp_env.h"
#include "base/memory.h"

namespace gyre {
namespace {

Result<int> half(int x) {
  if (x % 2 != 0) return fail(ErrorCode::usage, "half", std::to_string(x), "an even number");
  return x / 2;
}
Result<int> quarter(int x) {
  GYRE_ASSIGN(int h, half(x));
  return half(h);
}

TEST(Result, CarriesValueOrError) {
  EXPECT_EQ(*quarter(8), 2);
  auto bad = quarter(6);
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::usage);
  EXPECT_EQ(bad.error().text, "half: 3, expected an even number");
  EXPECT_EQ(fail(ErrorCode::io, "a\nb", "c\x01").text, "a b: c ");
}

TEST(Memory, AlignedZeroedAndFailable) {
  auto a = Array<float>::make(17, "a");
  ASSERT_TRUE(a);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a->data()) % 64, 0u);
  for (float x : a->span()) EXPECT_EQ(x, 0.0f);
  fail_allocation_after(1);
  EXPECT_TRUE(Array<float>::make(4, "b"));
  auto c = Array<float>::make(4, "c");
  ASSERT_FALSE(c);
  EXPECT_EQ(c.error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(Array<float>::make(4, "d"));
  EXPECT_FALSE(Array<double>::make(~size_t{0} / 4, "huge"));
}

TEST(FloatEnvironment, IsSoundAndRestored) {
  EXPECT_TRUE(float_environment_is_sound());
#if defined(__x86_64__)
  const unsigned fast = 0x9fc0;  // flush to zero, denormals are zero: what fast-math start-up sets
  _mm_setcsr(fast);
  {
    FloatEnvironment environment;
    volatile float tiny = 0x1p-126f;
    EXPECT_GT(tiny * 0.5f, 0.0f);
  }
  EXPECT_EQ(_mm_getcsr() & 0xffc0u, fast);
  _mm_setcsr(0x1f80);
#endif
}

}  // namespace
}  // namespace gyre
