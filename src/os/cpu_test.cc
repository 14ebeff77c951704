#include "os/cpu.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <vector>

#include "os/file.h"

namespace gyre::os {
namespace {

namespace fs = std::filesystem;

// A processor with everything, whose system saves every register.
struct FakeCpu {
  std::map<std::pair<uint32_t, uint32_t>, Registers> leaves = {
      {{0, 0}, {0x20, 0x68747541, 0x444d4163, 0x69746e65}},
      {{1, 0}, {0, 0, 1u << 12 | 1u << 27 | 1u << 28 | 1u << 29, 0}},
      {{7, 0}, {1, 1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, 1u << 11, 0}},
      {{7, 1}, {1u << 4 | 1u << 5, 0, 0, 0}},
      {{0x80000000, 0}, {0x80000008, 0, 0, 0}},
      {{0x80000002, 0}, {0x49202020, 0x2063206e, 0x20555043, 0x00000058}},
  };
  uint64_t xcr0 = 0xe7;
  bool asked_xcr0 = false;
  CpuInfo decode() {
    return decode_x86(
        [&](uint32_t leaf, uint32_t sub) {
          return leaves[{leaf, sub}];
        },
        [&] { return asked_xcr0 = true, xcr0; });
  }
};

TEST(Cpu, DecodesFeaturesAndNames) {
  const CpuInfo info = FakeCpu().decode();
  EXPECT_TRUE(info.avx2 && info.fma && info.f16c && info.avx_vnni);
  EXPECT_TRUE(info.avx512 && info.avx512_vnni && info.avx512_bf16);
  EXPECT_FALSE(info.neon_dotprod || info.neon_bf16);
  EXPECT_EQ(info.vendor, "AuthenticAMD");
  EXPECT_EQ(info.brand, "In c CPU X");
}

TEST(Cpu, AFeatureNeedsItsBitAndTheSystem) {
  FakeCpu no_zmm;
  no_zmm.xcr0 = 0x7;
  EXPECT_TRUE(no_zmm.decode().avx2);
  EXPECT_TRUE(no_zmm.decode().avx_vnni);
  EXPECT_FALSE(no_zmm.decode().avx512 || no_zmm.decode().avx512_vnni ||
               no_zmm.decode().avx512_bf16);

  FakeCpu no_ymm;
  no_ymm.xcr0 = 0x3;
  EXPECT_FALSE(no_ymm.decode().avx2 || no_ymm.decode().fma || no_ymm.decode().avx512);

  FakeCpu no_osxsave;
  no_osxsave.leaves[{1, 0}][2] &= ~(1u << 27);
  EXPECT_FALSE(no_osxsave.decode().avx2);
  EXPECT_FALSE(no_osxsave.asked_xcr0);  // the instruction would fault

  for (const int bit : {16, 17, 30, 31}) {
    FakeCpu part;
    part.leaves[{7, 0}][1] &= ~(1u << bit);
    EXPECT_FALSE(part.decode().avx512 || part.decode().avx512_vnni || part.decode().avx512_bf16);
    EXPECT_TRUE(part.decode().avx2);
  }
  FakeCpu old;
  old.leaves[{0, 0}][0] = 6;
  EXPECT_FALSE(old.decode().avx2);
  FakeCpu no_subleaf;  // leaf 7's subleaf 1 holds nonsense when the maximum is 0
  no_subleaf.leaves[{7, 0}][0] = 0;
  EXPECT_FALSE(no_subleaf.decode().avx_vnni || no_subleaf.decode().avx512_bf16);
}

TEST(Cpu, DecodesArm) {
  const std::string text = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
  const CpuInfo info = decode_arm64(uint64_t{1} << 20, uint64_t{1} << 14, text);
  EXPECT_TRUE(info.neon_dotprod && info.neon_bf16);
  EXPECT_EQ(info.vendor, "implementer 0x41");
  EXPECT_EQ(info.brand, "part 0xd40");
  EXPECT_FALSE(decode_arm64(~(uint64_t{1} << 20), 0, "").neon_dotprod);
}

TEST(Cpu, AgreesWithTheKernel) {
  auto text = read_file("/proc/cpuinfo", size_t{16} << 20);
  ASSERT_TRUE(text);
  const size_t at = text->find("\nflags");
  if (at == std::string::npos) GTEST_SKIP() << "no flags line on this processor";
  const std::string flags = text->substr(at, text->find('\n', at + 1) - at) + " ";
  const auto has = [&](const char* flag) {
    return flags.find(std::string(" ") + flag + " ") != std::string::npos;
  };
  EXPECT_EQ(cpu().avx2, has("avx2"));
  EXPECT_EQ(cpu().fma, has("fma"));
  EXPECT_EQ(cpu().f16c, has("f16c"));
  EXPECT_EQ(cpu().avx512, has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl"));
  EXPECT_EQ(cpu().avx512_vnni, has("avx512_vnni"));
  EXPECT_EQ(cpu().avx512_bf16, has("avx512_bf16"));
  EXPECT_NE(text->find(cpu().vendor), std::string::npos);
  EXPECT_NE(text->find(cpu().brand), std::string::npos);
}

class Limits : public testing::Test {
 protected:
  Limits() {
    std::string name = testing::TempDir() + "gyre_limits_XXXXXX";
    root_ = ::mkdtemp(name.data());
  }
  ~Limits() override { fs::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_;
};

TEST_F(Limits, NoFilesNoLimit) {
  EXPECT_EQ(cgroup_cpu_limit(root_), 0);
  EXPECT_EQ(cgroup_memory_left(root_), kNoLimit);
  EXPECT_EQ(available_memory_bytes(root_), 0u);
  EXPECT_GE(usable_threads(root_), 1);
}

TEST_F(Limits, QuotaOfVersion2RoundsUpAndParentsCount) {
  put("/proc/self/cgroup", "0::/a/b\n");
  put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 0);
  put("/sys/fs/cgroup/a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 3);
  put("/sys/fs/cgroup/a/cpu.max", "100001 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 2);
  put("/sys/fs/cgroup/cpu.max", "5000 100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 1);
  EXPECT_EQ(usable_threads(root_), 1);
  put("/sys/fs/cgroup/cpu.max", "5000 0\n");  // nonsense sets no limit
  put("/sys/fs/cgroup/a/cpu.max", "18446744073709551616 7");
  EXPECT_EQ(cgroup_cpu_limit(root_), 3);
}

TEST_F(Limits, QuotaOfVersion1) {
  put("/proc/self/cgroup", "4:memory:/m\n3:cpu,cpuacct:/job\n2:cpuset:/\n0::/\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 0);
  put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 4);
  // A container sees its own group at the mount, under the controller's short name.
  put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n");
  put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_limit(root_), 2);
}

TEST_F(Limits, Memory) {
  put("/proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   90 kB\n");
  EXPECT_EQ(available_memory_bytes(root_), 90u * 1024);
  put("/proc/self/cgroup", "0::/a\n");
  put("/sys/fs/cgroup/a/memory.max", "50000\n");
  put("/sys/fs/cgroup/a/memory.current", "20000\n");
  EXPECT_EQ(available_memory_bytes(root_), 30000u);
  put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 5000\n");
  EXPECT_EQ(available_memory_bytes(root_), 35000u);
  put("/sys/fs/cgroup/memory.max", "max\n");
  put("/sys/fs/cgroup/memory.current", "1\n");
  EXPECT_EQ(cgroup_memory_left(root_), 35000u);
  put("/sys/fs/cgroup/a/memory.current", "70000\n");
  EXPECT_EQ(cgroup_memory_left(root_), 0u);

  put("/proc/self/cgroup", "7:memory:/m\n");
  put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "9223372036854771712\n");
  put("/sys/fs/cgroup/memory/m/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(cgroup_memory_left(root_), kNoLimit);
  put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "4000\n");
  EXPECT_EQ(cgroup_memory_left(root_), 3000u);
}

TEST(Machine, ThreadsFollowAffinity) {
  EXPECT_LE(usable_threads(), static_cast<int>(std::thread::hardware_concurrency()));
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_threads(), 1);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(Machine, ResidentMemoryGrowsWithUse) {
  const uint64_t before = resident_bytes();
  EXPECT_GT(before, uint64_t{1} << 20);
  constexpr size_t kBytes = size_t{64} << 20;
  {
    std::vector<char> used(kBytes, 1);
    EXPECT_GE(resident_bytes(), before + kBytes / 2) << used[5];
  }
  EXPECT_GE(peak_resident_bytes(), before + kBytes / 2);
  EXPECT_GE(peak_resident_bytes(), resident_bytes());
  EXPECT_GT(available_memory_bytes(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace gyre::os
