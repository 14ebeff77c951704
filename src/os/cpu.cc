#include "os/cpu.h"

#include <algorithm>
#include <string_view>

#include "os/file.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace gyre::os {
namespace {

constexpr bool bit(uint64_t word, int index) {
  return (word >> index & 1) != 0;
}

void append_register(std::string* text, uint32_t word) {
  for (int i = 0; i < 4; ++i) text->push_back(static_cast<char>(word >> 8 * i));
}

std::string trimmed(const std::string& text) {
  const std::string_view blank(" \t\n\0", 4);
  const size_t begin = text.find_first_not_of(blank);
  if (begin == std::string::npos) return {};
  const std::string shown = text.substr(begin, text.find('\0', begin) - begin);
  return shown.substr(0, shown.find_last_not_of(blank) + 1);
}

// The value behind "name : value" in /proc/cpuinfo; empty when there is none.
std::string cpuinfo_field(const std::string& text, const std::string& name) {
  const size_t at = text.find("\n" + name);
  const size_t begin = text.compare(0, name.size(), name) == 0 ? 0
                       : at == std::string::npos               ? text.size()
                                                               : at + 1;
  const std::string line = text.substr(begin, text.find('\n', begin) - begin);
  const size_t colon = line.find(':');
  return colon == std::string::npos ? std::string() : trimmed(line.substr(colon + 1));
}

CpuInfo detect() {
#if defined(__x86_64__)
  return decode_x86(
      [](uint32_t leaf, uint32_t subleaf) {
        Registers r{};
        __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
        return r;
      },
      [] {
        uint32_t low, high;
        asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        return uint64_t{high} << 32 | low;
      });
#elif defined(__aarch64__)
  auto text = read_file("/proc/cpuinfo", size_t{4} << 20);
  return decode_arm64(::getauxval(AT_HWCAP), ::getauxval(AT_HWCAP2), text ? *text : std::string());
#else
  return {};
#endif
}

}  // namespace

CpuInfo decode_x86(FunctionRef<Registers(uint32_t, uint32_t)> cpuid, FunctionRef<uint64_t()> xcr0) {
  constexpr uint64_t kYmmState = 0x6, kZmmState = 0xe6;
  CpuInfo info;
  const Registers basic = cpuid(0, 0);
  for (int i : {1, 3, 2}) append_register(&info.vendor, basic[i]);
  if (const uint32_t last = cpuid(0x80000000, 0)[0]; last >= 0x80000004) {
    for (uint32_t leaf = 0x80000002; leaf <= 0x80000004; ++leaf) {
      for (uint32_t word : cpuid(leaf, 0)) append_register(&info.brand, word);
    }
    info.brand = trimmed(info.brand);
  }
  if (basic[0] < 7) return info;
  const Registers one = cpuid(1, 0), seven = cpuid(7, 0);
  const Registers more = seven[0] >= 1 ? cpuid(7, 1) : Registers{};
  const bool state_is_saved = bit(one[2], 27);
  const uint64_t state = state_is_saved ? xcr0() : 0;
  if ((state & kYmmState) != kYmmState || !bit(one[2], 28)) return info;
  info.fma = bit(one[2], 12);
  info.f16c = bit(one[2], 29);
  info.avx2 = bit(seven[1], 5);
  info.avx_vnni = bit(more[0], 4);
  if ((state & kZmmState) != kZmmState) return info;
  info.avx512 = bit(seven[1], 16) && bit(seven[1], 17) && bit(seven[1], 30) && bit(seven[1], 31);
  info.avx512_vnni = info.avx512 && bit(seven[2], 11);
  info.avx512_bf16 = info.avx512 && bit(more[0], 5);
  return info;
}

CpuInfo decode_arm64(uint64_t hwcap, uint64_t hwcap2, const std::string& cpuinfo) {
  CpuInfo info;
  info.neon_dotprod = bit(hwcap, 20);  // HWCAP_ASIMDDP
  info.neon_bf16 = bit(hwcap2, 14);    // HWCAP2_BF16
  info.vendor = "implementer " + cpuinfo_field(cpuinfo, "CPU implementer");
  info.brand = "part " + cpuinfo_field(cpuinfo, "CPU part");
  return info;
}

const CpuInfo& cpu() {
  static const CpuInfo info = detect();
  return info;
}

}  // namespace gyre::os
