// kernel_bench: how fast the linear kernels are against what this core can do at most.
//
//   kernel_bench [--isa NAME] [--format NAME] [--k N] [--megabytes N] [--json]
//
// For each format: answers are compared with the reference first (memcmp); then many columns in
// GMAC/s and as a share of the int8 peak measured beside it; then one column from memory in GB/s
// and as a share of the read rate measured beside it; then what 2, 4 and 8 columns cost against
// one. One thread, its CPU time, the best of several runs.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/fp_env.h"
#include "kernels/linear_check.h"
#include "os/memory.h"

namespace gyre::kernels {
namespace {

using namespace check;

double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// At least `runs` runs and a fifth of a second: a shared host has slow moments that last longer
// than a run.
template <class Work>
double best_seconds(int runs, Work work) {
  double best = 1e30, total = 0;
  for (int i = 0; i < runs || total < 0.2; ++i) {
    const double start = cpu_seconds();
    work();
    const double took = cpu_seconds() - start;
    best = std::min(best, took);
    total += took;
  }
  return best;
}

struct Options {
  std::string isa, format;
  uint32_t k = 2048;
  size_t megabytes = 256;
  bool json = false;
};

#if defined(__x86_64__)
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PEAK_CLOBBER                                                                              \
  "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11"
#define PEAK_LOOP(X)                                                                        \
  asm volatile("mov %0, %%rcx\n.p2align 6\n1:\n" TWELVE(X) "dec %%rcx\njnz 1b" ::"r"(count) \
               : PEAK_CLOBBER)
#define DOT_ZMM(i) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #i "\n"
#define DOT_YMM(i) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" #i "\n"
#define MUL_YMM(i) "vpmaddubsw %%ymm12, %%ymm13, %%ymm" #i "\n"
#endif

// int8 products and sums a second of this core, from a loop of nothing else; 0 = no such loop.
// AVX2's figure counts its byte multiplication alone, which no kernel can reach.
double int8_peak([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  const long count = 1000000;
  const double dots = 12.0 * static_cast<double>(count);
  if (isa == Isa::avx512 || isa == Isa::avx512vnni)
    return dots * 64 / best_seconds(9, [&] { PEAK_LOOP(DOT_ZMM); });
  if (isa == Isa::avxvnni) return dots * 32 / best_seconds(9, [&] { PEAK_LOOP(DOT_YMM); });
  if (isa == Isa::avx2) return dots * 32 / best_seconds(9, [&] { PEAK_LOOP(MUL_YMM); });
#endif
  return 0;
}

// Bytes a second of a loop that only reads: one word of each line, so that nothing but memory
// holds it up; the best of several distances of prefetching.
double read_rate(const std::byte* p, size_t bytes) {
  volatile uint64_t sink = 0;
  double best = 1e30;
  for (size_t ahead : {0, 2048, 4096, 6144, 8192, 12288}) {
    best = std::min(best, best_seconds(4, [&] {
                      uint64_t sum = 0;
                      for (size_t i = 0; i < bytes; i += 64) {
                        if (ahead != 0) __builtin_prefetch(p + i + ahead);
                        uint64_t word;
                        std::memcpy(&word, p + i, sizeof word);
                        sum ^= word;
                      }
                      sink = sink ^ sum;
                    }));
  }
  return static_cast<double>(bytes) / best;
}

struct Figures {
  bool equal = false;
  double gemm = 0, gemm_share = 0;  // GMAC/s
  double gemv = 0, gemv_share = 0;  // GB/s
  double batch[3] = {};             // cost of 2, 4, 8 columns against 1, from memory
  double gemm8 = 0;                 // GMAC/s of 8 columns, in cache
};

bool equals_reference(const LinearOps& ops, DType dtype) {
  const uint32_t block = info(dtype).block == 256 ? 256 : 32;
  for (uint32_t columns : {1, 2, 4, 8, 96}) {
    const std::string different =
        compare_multiply(ops, dtype, 48, 3 * block, columns, Values::usual, true, columns);
    if (!different.empty()) {
      std::fprintf(stderr, "%s\n", different.c_str());
      return false;
    }
  }
  return true;
}

double gemm_rate(const LinearOps& ops, DType dtype, uint32_t k, uint32_t rows, uint32_t columns) {
  const TestMatrix m = random_matrix(dtype, rows, k, 1);
  const std::vector<float> x = random_values(columns, k, 2);
  const Prepared p = prepare_with(ops, x, columns, k);
  std::vector<float> y(size_t{rows} * columns);
  ThreadPool pool(1);
  const LinearJob job{&m.matrix, y.data(), rows, nullptr, false};
  const double seconds = best_seconds(11, [&] { run_linear(ops, pool, {&job, 1}, p.x); });
  return static_cast<double>(k) * rows * columns / seconds * 1e-9;
}

// A matrix far larger than the caches: the panels of 256 random rows, repeated.
struct LargeMatrix {
  os::Pages pages;
  Matrix matrix;
  size_t bytes = 0;
};

LargeMatrix large_matrix(DType dtype, uint32_t k, size_t bytes) {
  const TestMatrix m = random_matrix(dtype, 256, k, 3);
  const size_t part = m.panels.size();
  const size_t parts = std::max<size_t>(1, bytes / part);
  LargeMatrix out;
  auto pages = os::Pages::make(parts * part, os::Pages::Huge::yes, "bench matrix");
  if (!pages.ok()) {
    std::fprintf(stderr, "%s\n", pages.error().text.c_str());
    std::exit(1);
  }
  out.pages = std::move(pages).value();
  out.bytes = parts * part;
  for (size_t i = 0; i < parts; ++i)
    std::memcpy(out.pages.data() + i * part, m.panels.data(), part);
  out.matrix.file = {dtype, static_cast<uint32_t>(parts * 256), k, nullptr};
  out.matrix.panels = out.pages.data();
  return out;
}

void measure_stream(const LinearOps& ops, DType dtype, const Options& options, Figures& f) {
  const LargeMatrix m = large_matrix(dtype, options.k, options.megabytes << 20);
  const uint32_t rows = m.matrix.rows();
  std::vector<float> y(size_t{rows} * 8);
  ThreadPool pool(1);
  const LinearJob job{&m.matrix, y.data(), rows, nullptr, false};
  double one = 0;
  for (uint32_t columns : {1, 2, 4, 8}) {
    const std::vector<float> x = random_values(columns, options.k, 4);
    const Prepared p = prepare_with(ops, x, columns, options.k);
    const double seconds = best_seconds(5, [&] { run_linear(ops, pool, {&job, 1}, p.x); });
    if (columns == 1) one = seconds;
    if (columns > 1) f.batch[columns == 2 ? 0 : columns == 4 ? 1 : 2] = seconds / one;
  }
  f.gemv = static_cast<double>(m.bytes) / one * 1e-9;
  f.gemv_share = f.gemv / (read_rate(m.pages.data(), m.bytes) * 1e-9);
}

Figures measure(Isa isa, DType dtype, const Options& options) {
  const LinearOps& ops = linear_ops(isa);
  Figures f;
  f.equal = equals_reference(ops, dtype);
  if (!f.equal) return f;
  f.gemm = gemm_rate(ops, dtype, options.k, 1536, 384);
  const double peak = int8_peak(isa) * 1e-9;
  f.gemm_share = peak > 0 ? f.gemm / peak : 0;
  f.gemm8 = gemm_rate(ops, dtype, options.k, 512, 8);
  if (options.megabytes != 0) measure_stream(ops, dtype, options, f);
  return f;
}

void print(Isa isa, DType dtype, const Figures& f, const Options& options) {
  const std::string isa_text(isa_name(isa)), type_text(name(dtype));
  if (options.json) {
    std::printf(
        "{\"isa\": \"%s\", \"format\": \"%s\", \"equal\": %s, \"gemm_gmac_per_s\": %.1f, "
        "\"gemm_share\": %.3f, \"gemm8_gmac_per_s\": %.1f, \"gemv_gb_per_s\": %.2f, "
        "\"gemv_share\": %.3f, \"batch_cost\": {\"2\": %.2f, \"4\": %.2f, \"8\": %.2f}}\n",
        isa_text.c_str(), type_text.c_str(), f.equal ? "true" : "false", f.gemm, f.gemm_share,
        f.gemm8, f.gemv, f.gemv_share, f.batch[0], f.batch[1], f.batch[2]);
    return;
  }
  std::printf(
      "%-10s %-7s %s  384 cols %6.1f GMAC/s %5.1f %%   8 cols %6.1f   1 col %5.2f GB/s "
      "%5.1f %%   2, 4, 8 cols cost %.2f %.2f %.2f\n",
      isa_text.c_str(), type_text.c_str(), f.equal ? "equal" : "WRONG", f.gemm, 100 * f.gemm_share,
      f.gemm8, f.gemv, 100 * f.gemv_share, f.batch[0], f.batch[1], f.batch[2]);
  std::fflush(stdout);
}

int run(const Options& options) {
  const FloatEnvironment environment;
  bool all_equal = true;
  std::vector<Isa> isas = available_isas();
  std::reverse(isas.begin(), isas.end());
  for (Isa isa : isas) {
    if (options.isa.empty() ? isa == Isa::scalar : isa_name(isa) != options.isa) continue;
    std::fprintf(stderr, "%s: int8 peak of one core %.1f GMAC/s\n",
                 std::string(isa_name(isa)).c_str(), int8_peak(isa) * 1e-9);
    for (DType dtype : kAllDTypes) {
      if (!options.format.empty() && name(dtype) != options.format) continue;
      const Figures f = measure(isa, dtype, options);
      all_equal = all_equal && f.equal;
      print(isa, dtype, f, options);
    }
  }
  return all_equal ? 0 : 1;
}

}  // namespace
}  // namespace gyre::kernels

int main(int argc, char** argv) {
  gyre::kernels::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--json") {
      options.json = true;
    } else if (i + 1 < argc && flag == "--isa") {
      options.isa = argv[++i];
    } else if (i + 1 < argc && flag == "--format") {
      options.format = argv[++i];
    } else if (i + 1 < argc && flag == "--k") {
      options.k = static_cast<uint32_t>(std::clamp(std::atol(argv[++i]), 256l, 65536l) / 256 * 256);
    } else if (i + 1 < argc && flag == "--megabytes") {
      options.megabytes = static_cast<size_t>(std::clamp(std::atol(argv[++i]), 0l, 8192l));
    } else {
      std::fprintf(stderr,
                   "kernel_bench: argument: %s, expected --isa NAME, --format NAME, --k N, "
                   "--megabytes N or --json\n",
                   flag.c_str());
      return 2;
    }
  }
  return gyre::kernels::run(options);
}
