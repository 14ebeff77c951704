// Attention beside the machine's limits: prefill as a share of the measured f32 fma peak of the
// same instruction set, decode as a share of the measured read rate.
//
//   attention_bench [isa] [threads]
//
// Prefill: 512 queries that end at `positions`. Decode: one query over as many layers as make the
// KV larger than the caches. One thread is timed by its own processor time, several by the clock.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/fp_env.h"
#include "kernels/attention.h"
#include "os/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace gyre;
using namespace gyre::kernels;

double now(bool own_time) {
  timespec t;
  clock_gettime(own_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// The least time of one call, of at least `rounds` and 0.3 seconds.
template <class F>
double seconds(bool own_time, int rounds, F&& work) {
  double best = 1e30, total = 0;
  work();
  for (int i = 0; i < rounds || (total < 0.3 && i < 1000); ++i) {
    const double start = now(own_time);
    work();
    const double took = now(own_time) - start;
    best = std::min(best, took), total += took;
  }
  return best;
}

// Multiply-adds a second of one core: 12 independent chains in registers.
#if defined(__x86_64__)
#define GYRE_CHAIN(i) "vfmadd213ps %1, %1, %%" GYRE_WIDE #i "\n"
// clang-format off
#define GYRE_CHAINS \
  GYRE_CHAIN(4) GYRE_CHAIN(5) GYRE_CHAIN(6) GYRE_CHAIN(7) GYRE_CHAIN(8) GYRE_CHAIN(9) \
  GYRE_CHAIN(10) GYRE_CHAIN(11) GYRE_CHAIN(12) GYRE_CHAIN(13) GYRE_CHAIN(14) GYRE_CHAIN(15)
// clang-format on
#define GYRE_CHAINS_LOOP "1:\n" GYRE_CHAINS "dec %0\n jnz 1b\n"
#define GYRE_CLOBBERS                                                                          \
  "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", \
      "xmm15"
#define GYRE_WIDE "zmm"
__attribute__((target("avx512f"))) void chains512(long n) {
  asm volatile(GYRE_CHAINS_LOOP : "+r"(n) : "v"(_mm512_set1_ps(0.5f)) : GYRE_CLOBBERS);
}
#undef GYRE_WIDE
#define GYRE_WIDE "ymm"
__attribute__((target("avx2,fma"))) void chains256(long n) {
  asm volatile(GYRE_CHAINS_LOOP : "+r"(n) : "x"(_mm256_set1_ps(0.5f)) : GYRE_CLOBBERS);
}
#endif

volatile float g_sink;

double fma_peak(Isa isa) {
  constexpr long kRounds = 2'000'000;
#if defined(__x86_64__)
  const bool wide = isa == Isa::avx512 || isa == Isa::avx512vnni;
  const double t = seconds(true, 5, [&] { wide ? chains512(kRounds) : chains256(kRounds); });
  return (wide ? 16.0 : 8.0) * 12 * kRounds / t;
#else
  (void)isa, (void)kRounds;
  return 0;
#endif
}

double read_rate(ThreadPool& pool, bool own_time, const os::Pages& memory) {
  const size_t parts = 64, words = memory.size() / 8 / parts;
  const auto* p = reinterpret_cast<const uint64_t*>(memory.data());
  std::vector<uint64_t> sums(parts);
  const double t = seconds(own_time, 3, [&] {
    pool.run(parts, [&](size_t part, int) {
      uint64_t s[8] = {};
      const uint64_t* from = p + part * words;
      for (size_t i = 0; i + 8 <= words; i += 8) {
        for (int j = 0; j < 8; ++j) s[j] ^= from[i + j];
      }
      sums[part] = s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];
    });
  });
  g_sink = static_cast<float>(sums[0]);
  return static_cast<double>(memory.size()) / t;
}

struct Model {
  uint32_t kv_heads, group, dim;
};

// `layers` layers of `positions` positions in one range of memory, with small random operands.
struct Setting {
  Setting(const Model& m, uint32_t positions, os::Pages& memory, uint32_t queries)
      : layout{m.kv_heads, m.dim, m.dim, kBf16Code}, queries(queries) {
    const size_t per_layer = (positions + kPagePositions - 1) / kPagePositions;
    layers = std::max<size_t>(1, memory.size() / (per_layer * layout.page_bytes()));
    for (size_t i = 0; i < layers * per_layer; ++i)
      pages.push_back(memory.data() + i * layout.page_bytes());
    stride = per_layer;
    heads = m.kv_heads * m.group;
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    q.resize(size_t{queries} * heads * m.dim);
    out.resize(q.size());
    for (float& x : q) x = normal(random);
    for (uint32_t i = 0; i < queries; ++i) visible.push_back({0, positions - queries + i + 1});
  }
  AttentionJob job(size_t layer) {
    AttentionJob j;
    j.layout = layout;
    j.pages = pages.data() + layer * stride;
    j.queries = queries, j.q_heads = heads;
    j.q = q.data(), j.q_ld = size_t{heads} * layout.k_dim, j.q_scale = 0.1f;
    j.visible = visible.data();
    j.out = out.data(), j.out_ld = j.q_ld;
    return j;
  }
  KvLayout layout;
  uint32_t queries, heads;
  size_t layers, stride;
  std::vector<std::byte*> pages;
  std::vector<float> q, out;
  std::vector<Visible> visible;
};

void bench(const AttentionOps& ops, const char* name, Isa isa, int threads, os::Pages& memory) {
  ThreadPool pool(threads);
  const bool own = threads == 1;
  AttentionScratch scratch;
  if (!scratch.reserve(threads, 64, 256, 32768).ok()) return;
  const double peak = fma_peak(isa) * threads, rate = read_rate(pool, own, memory);
  std::printf("%s, %d threads: fma peak %.1f GMAC/s, read %.1f GB/s\n", name, threads, peak / 1e9,
              rate / 1e9);
  for (const Model& m : {Model{3, 3, 64}, Model{2, 4, 128}, Model{1, 4, 256}}) {
    for (uint32_t positions : {512u, 4096u, 16384u}) {
      Setting s(m, positions, memory, 512);
      AttentionJob job = s.job(0);
      double macs = 0;
      for (const Visible& v : s.visible) macs += 2.0 * (v.end - v.begin) * s.heads * m.dim;
      const double t = seconds(own, 2, [&] { run_attention(ops, pool, {&job, 1}, scratch); });
      std::printf("  prefill dim %3u, 512 queries to %5u: %6.1f GMAC/s, %4.1f %% of peak\n", m.dim,
                  positions, macs / t / 1e9, 100 * macs / t / peak);
    }
    for (uint32_t positions : {4096u, 16384u}) {
      Setting s(m, positions, memory, 1);
      std::vector<AttentionJob> jobs;
      for (size_t i = 0; i < s.layers; ++i) jobs.push_back(s.job(i));
      const double t = seconds(own, 2, [&] {
        for (AttentionJob& job : jobs) run_attention(ops, pool, {&job, 1}, scratch);
      });
      const double bytes = static_cast<double>(s.layers * s.stride * s.layout.page_bytes());
      std::printf("  decode  dim %3u, %5u positions x %3zu layers: %5.1f GB/s, %4.1f %% of reads\n",
                  m.dim, positions, s.layers, bytes / t / 1e9, 100 * bytes / t / rate);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  FloatEnvironment environment;
  auto isa = choose_isa(argc > 1 ? argv[1] : "");
  if (!isa.ok()) return std::fprintf(stderr, "%s\n", isa.error().text.c_str()), 2;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  auto memory = os::Pages::make(size_t{768} << 20, os::Pages::Huge::yes, "bench");
  if (!memory.ok()) return std::fprintf(stderr, "%s\n", memory.error().text.c_str()), 1;
  std::mt19937 random(2);
  auto* words = reinterpret_cast<uint32_t*>(memory->data());
  // bf16 pairs of magnitudes 2^-3 to 2^1.
  for (size_t i = 0; i < memory->size() / 4; ++i) {
    const uint32_t r = random();
    words[i] = (r & 0x81ff81ffu) | 0x3e003e00u;
  }
  const AttentionOps* plain = &attention_ops(*isa, false);
  bench(*plain, isa_name(*isa).data(), *isa, threads, *memory);
  if (const AttentionOps* native = &attention_ops(*isa, true); native != plain)
    bench(*native, "with the bf16 instruction", *isa, threads, *memory);
  return 0;
}
