// attention_bench: attention over pages of each code, beside the machine's limits and beside bf16.
//
//   attention_bench [--isa NAME] [--threads N] [--code NAME] [--what NAME] [--dim N]
//                   [--megabytes N] [--json]
//
// For each code the answers are compared with the reference first (memcmp). Then, in one run whose
// turns go round the codes, so that a slow moment of the machine hits all of them:
//   decode   one query over as many layers as fill the memory: GB/s, share of the read rate, and
//            the speed against bf16 at the same length
//   prefill  512 queries that end at a position, and the storing of their keys and values: GMAC/s,
//            share of the f32 fma peak, and the time against bf16
//   store    writing one token's K and V: tokens a second, and the speed against bf16
//   scores   what 128 more dimensions of K cost at 4096 positions, as a share of the int8 peak
// The best of several turns. One thread is timed by its own processor time, several by the clock.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/fp_env.h"
#include "kernels/attention_check.h"
#include "os/memory.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gyre::kernels {
namespace {

struct Options {
  std::string isa, code, what;
  int threads = 1;
  uint32_t dim = 0;  // 0: all
  size_t megabytes = 768;
  bool json = false;
};

struct Named {
  const char* name;
  LayerCode code;
};
// The first one is what the others are measured against.
const Named kCodes[] = {
    {"bf16", kBf16Code},
    {"kv8", check::affine_code(8, 8, 64, 64)},
    {"kv6", check::affine_code(6, 6, 64, 64)},
    {"kv4", check::affine_code(4, 4, 64, 64)},
    {"kv4-g32", check::affine_code(4, 4, 32, 32)},
    {"kv3", check::affine_code(3, 3, 64, 64)},
    {"turbo-k8v4", check::turbo_code(8, 4)},
    {"turbo-k4v4", check::turbo_code(4, 4)},
    {"anchor-k4v4", check::anchored_code(4, 4)},
    {"anchor-k5v4", check::anchored_code(5, 4)},
};

struct Heads {
  uint32_t kv_heads, group, dim;
};
const Heads kHeads[] = {{3, 3, 64}, {2, 4, 128}, {1, 4, 256}, {1, 1, 128}};

class Clock {
 public:
  explicit Clock(int threads) : own_(threads == 1) {}
  double now() const {
    timespec t;
    clock_gettime(own_ ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  }
  template <class Work>
  double seconds(Work&& work) const {
    const double start = now();
    work();
    return now() - start;
  }
  template <class Work>
  double best(int rounds, Work&& work) const {
    double best = 1e30, total = 0;
    for (int i = 0; i < rounds || (total < 0.2 && i < 1000); ++i) {
      const double took = seconds(work);
      best = std::min(best, took), total += took;
    }
    return best;
  }

 private:
  bool own_;
};

// Loops of nothing but one instruction on 12 registers.
#if defined(__x86_64__)
#define TWELVE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define PEAK_CLOBBER                                                                              \
  "rcx", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13"
#define PEAK_LOOP(zero, X)                                                                   \
  asm volatile(zero "mov %0, %%rcx\n.p2align 6\n1:\n" TWELVE(X) "dec %%rcx\njnz 1b" ::"r"(n) \
               : PEAK_CLOBBER)
#define ZERO "vxorps %%xmm12, %%xmm12, %%xmm12\nvxorps %%xmm13, %%xmm13, %%xmm13\n"
#define DOT_ZMM(i) "vpdpbusd %%zmm12, %%zmm13, %%zmm" #i "\n"
#define DOT_YMM(i) "%{vex%} vpdpbusd %%ymm12, %%ymm13, %%ymm" #i "\n"
#define MUL_YMM(i) "vpmaddubsw %%ymm12, %%ymm13, %%ymm" #i "\n"
#define FMA_ZMM(i) "vfmadd231ps %%zmm12, %%zmm13, %%zmm" #i "\n"
#define FMA_YMM(i) "vfmadd231ps %%ymm12, %%ymm13, %%ymm" #i "\n"
#endif

// Multiply-adds a second of one core; 0 = no such loop here.
struct Peaks {
  double fma = 0, int8 = 0;
};
Peaks measure_peaks([[maybe_unused]] Isa isa) {
  Peaks out;
#if defined(__x86_64__)
  const long n = 1'000'000;
  const Clock own(1);
  const double count = 12.0 * static_cast<double>(n);
  if (isa == Isa::avx512 || isa == Isa::avx512vnni) {
    out.fma = count * 16 / own.best(9, [&] { PEAK_LOOP(ZERO, FMA_ZMM); });
    out.int8 = count * 64 / own.best(9, [&] { PEAK_LOOP(ZERO, DOT_ZMM); });
  } else if (isa == Isa::avxvnni || isa == Isa::avx2) {
    out.fma = count * 8 / own.best(9, [&] { PEAK_LOOP(ZERO, FMA_YMM); });
    out.int8 = count * 32 /
               (isa == Isa::avx2 ? own.best(9, [&] { PEAK_LOOP(ZERO, MUL_YMM); })
                                 : own.best(9, [&] { PEAK_LOOP(ZERO, DOT_YMM); }));
  }
#endif
  return out;
}

volatile uint64_t g_sink;

// Bytes a second of a loop that reads one word of each line; the best of some distances ahead.
double read_rate(ThreadPool& pool, const Clock& clock, const os::Pages& memory) {
  const size_t parts = 64, part = memory.size() / parts / 64 * 64;
  std::vector<uint64_t> sums(parts);
  double best = 1e30;
  for (size_t ahead : {0, 2048, 4096, 6144, 8192}) {
    best = std::min(best, clock.best(2, [&] {
      pool.run(parts, [&](size_t index, int) {
        const std::byte* p = memory.data() + index * part;
        uint64_t sum = 0;
        for (size_t i = 0; i < part; i += 64) {
          if (ahead != 0) __builtin_prefetch(p + i + ahead);
          uint64_t word;
          std::memcpy(&word, p + i, sizeof word);
          sum ^= word;
        }
        sums[index] = sum;
      });
    }));
  }
  g_sink = sums[0];
  return static_cast<double>(parts * part) / best;
}

// Layers of `positions` positions in one range of memory, and queries over them.
struct Setting {
  Setting(const Heads& h, const KvLayout& kv, uint32_t positions, os::Pages& memory,
          uint32_t queries)
      : layout(kv), queries(queries), heads(h.kv_heads * h.group), positions(positions) {
    const size_t page =
        std::max(layout.page_bytes(), layout.code.anchored ? layout.wide().page_bytes() : 0);
    stride = (positions + kPagePositions - 1) / kPagePositions;
    layer_bytes = (stride - 1) * layout.page_bytes() + page;
    layers = std::max<size_t>(1, memory.size() / layer_bytes);
    for (size_t layer = 0; layer < layers; ++layer) {
      std::byte* at = memory.data() + layer * layer_bytes;
      for (size_t p = 0; p < stride; ++p) {
        pages.push_back(at);
        at += p == 0 ? page : layout.page_bytes();
      }
    }
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& x, size_t n) {
      x.resize(n);
      for (float& value : x) value = normal(random);
    };
    fill(q, size_t{queries} * heads * layout.k_dim);
    fill(k, size_t{kPagePositions} * layout.kv_heads * layout.k_dim);
    fill(v, size_t{kPagePositions} * layout.kv_heads * layout.v_dim);
    out.resize(size_t{queries} * heads * layout.v_dim);
    anchor.resize(layout.anchor_bytes());
    for (uint32_t i = 0; i < queries; ++i) visible.push_back({0, positions - queries + i + 1});
  }

  AttentionJob job(size_t layer) {
    AttentionJob j;
    j.layout = layout;
    j.pages = pages.data() + layer * stride;
    j.anchor = anchor.empty() ? nullptr : anchor.data();
    j.queries = queries, j.q_heads = heads;
    j.q = q.data(), j.q_ld = size_t{heads} * layout.k_dim, j.q_scale = 0.1f;
    j.visible = visible.data();
    j.out = out.data(), j.out_ld = size_t{heads} * layout.v_dim;
    return j;
  }
  void store(const AttentionOps& ops, ThreadPool& pool) {
    pool.run(queries, [&](size_t i, int) {
      const FloatEnvironment environment;
      const uint32_t at = positions - queries + static_cast<uint32_t>(i), in = at % kPagePositions;
      const bool wide = layout.code.anchored && at < kPagePositions;
      ops.store(wide ? layout.wide() : layout, pages[at / kPagePositions], in,
                &k[size_t{in} * layout.kv_heads * layout.k_dim],
                &v[size_t{in} * layout.kv_heads * layout.v_dim],
                anchor.empty() ? nullptr : anchor.data());
    });
  }
  double macs() const {
    double sum = 0;
    for (const Visible& see : visible) sum += see.end - see.begin;
    return sum * heads * (layout.k_dim + layout.v_dim);
  }

  KvLayout layout;
  uint32_t queries, heads, positions;
  size_t layers, stride, layer_bytes;
  std::vector<std::byte*> pages;
  std::vector<float> q, k, v, out;
  std::vector<std::byte> anchor;
  std::vector<Visible> visible;
};

class Bench {
 public:
  Bench(const Options& options, Isa isa, os::Pages& memory)
      : options_(options),
        isa_(isa),
        ops_(attention_ops(isa)),
        memory_(memory),
        pool_(options.threads),
        clock_(options.threads) {
    for (const Named& code : kCodes) {
      if (&code == kCodes || options.code.empty() || options.code == code.name)
        codes_.push_back(code);
    }
  }

  int run() {
    if (!scratch_.reserve(options_.threads, 64, 512, 32768).ok()) return 1;
    if (!equal()) return 1;
    peaks_ = measure_peaks(isa_);
    peaks_.fma *= options_.threads, peaks_.int8 *= options_.threads;
    rate_ = read_rate(pool_, clock_, memory_);
    std::fprintf(stderr, "%s, %d threads: fma %.1f, int8 %.1f GMAC/s, read %.2f GB/s\n",
                 isa_name(isa_).data(), options_.threads, peaks_.fma * 1e-9, peaks_.int8 * 1e-9,
                 rate_ * 1e-9);
    for (const Heads& heads : kHeads) {
      if (options_.dim != 0 && options_.dim != heads.dim) continue;
      if (wanted("decode")) {
        for (uint32_t positions : {4096u, 16384u, 32768u}) decode(heads, positions);
      }
      if (wanted("prefill")) {
        for (uint32_t positions : {1024u, 4096u, 8192u}) prefill(heads, positions);
      }
    }
    for (const Heads& heads : kHeads) {
      if (wanted("store") && (options_.dim == 0 || options_.dim == heads.dim)) store(heads);
    }
    if (wanted("scores") && peaks_.int8 != 0) scores();
    return 0;
  }

 private:
  bool wanted(const char* what) const { return options_.what.empty() || options_.what == what; }

  // Answers first, of every code.
  bool equal() {
    uint32_t seed = 1;
    for (const Named& code : codes_) {
      for (uint32_t dim : {64u, 128u, 256u}) {
        const check::Shape shape{1, 3, dim, dim, 300, 0, 0, false, code.code, ++seed};
        const std::string different = check::Answers(shape).differ(isa_, ops_);
        if (different.empty()) continue;
        std::fprintf(stderr, "%s\n", different.c_str());
        return false;
      }
    }
    return true;
  }

  // The best time of each setting, in turns.
  template <class Work>
  std::vector<double> turns(std::vector<Setting>& settings, int rounds, Work work) {
    std::vector<double> best(settings.size(), 1e30);
    for (int round = 0; round < rounds; ++round) {
      for (size_t i = 0; i < settings.size(); ++i)
        best[i] = std::min(best[i], clock_.seconds([&] { work(settings[i]); }));
    }
    return best;
  }

  std::vector<Setting> settings(const Heads& heads, uint32_t k_dim, uint32_t v_dim,
                                uint32_t positions, uint32_t queries) {
    std::vector<Setting> out;
    for (const Named& code : codes_)
      out.emplace_back(heads, KvLayout{heads.kv_heads, k_dim, v_dim, code.code}, positions, memory_,
                       queries);
    return out;
  }

  void attend(Setting& s, size_t layer) {
    AttentionJob job = s.job(layer);
    run_attention(ops_, pool_, {&job, 1}, scratch_);
  }

  void decode(const Heads& heads, uint32_t positions) {
    auto all = settings(heads, heads.dim, heads.dim, positions, 1);
    const auto best = turns(all, 5, [&](Setting& s) {
      for (size_t layer = 0; layer < s.layers; ++layer) attend(s, layer);
    });
    for (size_t i = 0; i < all.size(); ++i) {
      const double layers = static_cast<double>(all[i].layers);
      const double bytes = layers * static_cast<double>(all[i].stride * all[i].layout.page_bytes());
      const double ratio = best[0] / static_cast<double>(all[0].layers) / (best[i] / layers);
      print("decode", heads, positions, i, bytes / best[i] * 1e-9, "gb_per_s",
            bytes / best[i] / rate_, ratio);
    }
  }

  void prefill(const Heads& heads, uint32_t positions) {
    auto all = settings(heads, heads.dim, heads.dim, positions, 512);
    const auto best = turns(all, 3, [&](Setting& s) {
      s.store(ops_, pool_);
      attend(s, 0);
    });
    for (size_t i = 0; i < all.size(); ++i) {
      const double macs = all[i].macs() / best[i];
      print("prefill", heads, positions, i, macs * 1e-9, "gmac_per_s",
            peaks_.fma != 0 ? macs / peaks_.fma : 0, best[0] / best[i]);
    }
  }

  void store(const Heads& heads) {
    auto all = settings(heads, heads.dim, heads.dim, 1024, 512);
    const auto best = turns(all, 5, [&](Setting& s) { s.store(ops_, pool_); });
    for (size_t i = 0; i < all.size(); ++i)
      print("store", heads, 1024, i, 512 / best[i], "tokens_per_s", 0, best[0] / best[i]);
  }

  // Dimensions of K have a cost of their own: the difference between two head sizes.
  void scores() {
    const Heads heads{1, 4, 256};
    auto narrow = settings(heads, 128, 64, 4096, 512), wide = settings(heads, 256, 64, 4096, 512);
    const auto a = turns(narrow, 7, [&](Setting& s) { attend(s, 0); });
    const auto b = turns(wide, 7, [&](Setting& s) { attend(s, 0); });
    for (size_t i = 0; i < narrow.size(); ++i) {
      const double macs = (wide[i].macs() - narrow[i].macs()) / (b[i] - a[i]);
      print("scores", heads, 4096, i, macs * 1e-9, "gmac_per_s", macs / peaks_.int8,
            (b[0] - a[0]) / (b[i] - a[i]));
    }
  }

  void print(const char* what, const Heads& heads, uint32_t positions, size_t code, double figure,
             const char* unit, double share, double ratio) const {
    if (options_.json) {
      std::printf(
          "{\"isa\": \"%s\", \"threads\": %d, \"what\": \"%s\", \"code\": \"%s\", \"kv_heads\": "
          "%u, \"group\": %u, \"dim\": %u, \"positions\": %u, \"%s\": %.2f, \"share\": %.3f, "
          "\"speed_of_bf16\": %.3f}\n",
          isa_name(isa_).data(), options_.threads, what, codes_[code].name, heads.kv_heads,
          heads.group, heads.dim, positions, unit, figure, share, ratio);
    } else {
      std::printf("%-7s dim %3u x %u, group %u, %5u positions  %-11s %7.1f %s %5.1f %%  %.2f x\n",
                  what, heads.dim, heads.kv_heads, heads.group, positions, codes_[code].name,
                  figure, unit, 100 * share, ratio);
    }
    std::fflush(stdout);
  }

  const Options& options_;
  Isa isa_;
  const AttentionOps& ops_;
  os::Pages& memory_;
  ThreadPool pool_;
  Clock clock_;
  AttentionScratch scratch_;
  std::vector<Named> codes_;
  Peaks peaks_;
  double rate_ = 0;
};

int run(const Options& options) {
  const FloatEnvironment environment;
  auto isa = choose_isa(options.isa);
  if (!isa.ok()) return std::fprintf(stderr, "%s\n", isa.error().text.c_str()), 2;
  auto memory = os::Pages::make(options.megabytes << 20, os::Pages::Huge::yes, "bench");
  if (!memory.ok()) return std::fprintf(stderr, "%s\n", memory.error().text.c_str()), 1;
  // Halves of magnitudes 2^-3 to 2^1: finite as bf16, scales, biases and factors of any code.
  std::mt19937 random(2);
  auto* words = reinterpret_cast<uint32_t*>(memory->data());
  for (size_t i = 0; i < memory->size() / 4; ++i) words[i] = (random() & 0x81ff81ffu) | 0x3e003e00u;
  return Bench(options, *isa, *memory).run();
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
    } else if (i + 1 < argc && flag == "--code") {
      options.code = argv[++i];
    } else if (i + 1 < argc && flag == "--what") {
      options.what = argv[++i];
    } else if (i + 1 < argc && flag == "--dim") {
      options.dim = static_cast<uint32_t>(std::max(std::atoi(argv[++i]), 0));
    } else if (i + 1 < argc && flag == "--threads") {
      options.threads = std::clamp(std::atoi(argv[++i]), 1, 64);
    } else if (i + 1 < argc && flag == "--megabytes") {
      options.megabytes = static_cast<size_t>(std::clamp(std::atol(argv[++i]), 64l, 8192l));
    } else {
      std::fprintf(stderr,
                   "attention_bench: argument: %s, expected --isa NAME, --threads N, --code NAME, "
                   "--what NAME, --dim N, --megabytes N or --json\n",
                   flag.c_str());
      return 2;
    }
  }
  return gyre::kernels::run(options);
}
