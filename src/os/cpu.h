// What this machine offers to this process: instruction sets, threads, memory.
//
// Container limits are read from the cgroup files of version 1 and 2. Functions that read files
// take the directory that stands for "/" (tests give another); a file that is missing or unreadable
// sets no limit. Safe from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/function_ref.h"

namespace gyre::os {

struct CpuInfo {
  // x86-64; true only when the system also saves the registers (xgetbv).
  bool avx2 = false, fma = false, f16c = false, avx_vnni = false;
  bool avx512 = false;  // the set f, bw, dq, vl
  bool avx512_vnni = false, avx512_bf16 = false;
  // arm64
  bool neon_dotprod = false, neon_bf16 = false;

  std::string vendor;  // "AuthenticAMD", "GenuineIntel", "implementer 0x41", ...
  std::string brand;   // the processor's own name, or "part 0xd0c"
};

// Read once, at the first call.
const CpuInfo& cpu();

// The x86 decoding on its own: `cpuid(leaf, subleaf)` gives eax, ebx, ecx, edx; `xcr0()` is asked
// only when the processor says that the system has switched it on.
using Registers = std::array<uint32_t, 4>;
CpuInfo decode_x86(FunctionRef<Registers(uint32_t leaf, uint32_t subleaf)> cpuid,
                   FunctionRef<uint64_t()> xcr0);
// The arm64 decoding: the kernel's capability words and the text of /proc/cpuinfo.
CpuInfo decode_arm64(uint64_t hwcap, uint64_t hwcap2, const std::string& cpuinfo);

// How many threads can run at once: the least of the cores this process may run on (affinity), the
// cores online, and the cgroup's processor quota rounded up. At least 1.
int usable_threads(const std::string& root = "");

// The tightest processor quota of this process's cgroup and its parents, in cores rounded up; 0 =
// none.
int cgroup_cpu_limit(const std::string& root = "");

inline constexpr uint64_t kNoLimit = ~uint64_t{0};
// What the memory limits of this process's cgroup and its parents leave, in bytes: limit - use,
// where file pages that the system can drop do not count as use. kNoLimit = no limit.
uint64_t cgroup_memory_left(const std::string& root = "");

// Bytes that can be allocated without swapping: the least of the system's estimate (MemAvailable)
// and cgroup_memory_left. 0 when the system does not say.
uint64_t available_memory_bytes(const std::string& root = "");

// This process's memory now and at its peak, mapped files included, in bytes.
uint64_t resident_bytes(const std::string& root = "");
uint64_t peak_resident_bytes(const std::string& root = "");

}  // namespace gyre::os
