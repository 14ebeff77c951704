// kernel_selfcheck: every instruction set of this machine against the reference on random data, as
// a plain program. It is how a cross build is tested (under an emulator, without GoogleTest).
// Prints "N passed, M failed"; exits 1 if any failed.
#include <cstdio>

#include "base/fp_env.h"
#include "kernels/attention_check.h"
#include "kernels/linear_check.h"

namespace gyre::kernels {
namespace {

int failed = 0, passed = 0;

void count(const std::string& different, Isa isa) {
  if (different.empty()) {
    ++passed;
    return;
  }
  ++failed;
  std::printf("%s: %s\n", std::string(isa_name(isa)).c_str(), different.c_str());
}

void check_linear(Isa isa, DType dtype) {
  const uint32_t cols = info(dtype).block == kSegment ? 512 : 608;
  uint64_t seed = 1;
  for (uint32_t columns : {1, 2, 3, 4, 5, 8, 13, 97}) {
    for (check::Values values : {check::Values::usual, check::Values::special}) {
      count(check::compare_multiply(linear_ops(isa), dtype, 37, cols, columns, values, seed % 2,
                                    seed),
            isa);
      ++seed;
    }
  }
}

void check_prepare(Isa isa) {
  for (uint32_t k : {1u, 33u, 100u, 576u}) {
    const uint32_t columns = 3;
    const auto x = check::random_values(columns, k, k, check::Values::special);
    const auto a = check::prepare_with(reference_linear_ops(), x, columns, k);
    const auto b = check::prepare_with(linear_ops(isa), x, columns, k);
    const size_t cells = (k + 31) / 32 * size_t{a.x.stride};
    const bool same = std::memcmp(a.x.q, b.x.q, cells * 32) == 0 &&
                      std::memcmp(a.x.d, b.x.d, cells * 4) == 0 &&
                      std::memcmp(a.x.sum16, b.x.sum16, cells * 8) == 0 &&
                      std::memcmp(a.x.bf16, b.x.bf16, columns * ((k + 1) / 2 * 2) * 2) == 0;
    count(same ? "" : "prepare of " + std::to_string(k), isa);
  }
}

}  // namespace
}  // namespace gyre::kernels

int main() {
  using namespace gyre;
  const FloatEnvironment environment;
  if (!float_environment_is_sound()) {
    std::printf("float environment: unsound\n");
    return 1;
  }
  for (kernels::Isa isa : kernels::available_isas()) {
    if (isa == kernels::Isa::scalar) continue;
    for (DType dtype : kAllDTypes) kernels::check_linear(isa, dtype);
    kernels::check_prepare(isa);
    kernels::count(kernels::check::compare_attention(isa), isa);
    kernels::count(kernels::check::compare_rows(isa), isa);
    std::printf("%s checked\n", std::string(kernels::isa_name(isa)).c_str());
  }
  std::printf("%d passed, %d failed\n", kernels::passed, kernels::failed);
  return kernels::failed == 0 && kernels::passed > 0 ? 0 : 1;
}
