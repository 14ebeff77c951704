#include "loaders/gguf.h"

#include <gtest/gtest.h>
#include <chrono>
#include <ctime>

namespace gyre::loaders {
namespace {
TEST(Gguf, Quick) {
  for (const char* f : {"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma-3-270m-q4_k_m.gguf"}) {
    auto now = [] {
      timespec t;
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
      return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
    };
    double a = now();
    auto s = open_weights(std::string(GYRE_SOURCE_DIR "/models/") + f);
    double b = now();
    ASSERT_TRUE(s) << s.error().text;
    auto id = (*s)->identity();
    double c = now();
    std::printf("%s %zu %s open %.2f id %.2f\n", f, (*s)->tensors().size(), id.c_str(), b - a,
                c - b);
  }
}
}  // namespace
}  // namespace gyre::loaders
