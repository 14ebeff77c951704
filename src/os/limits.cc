// Threads and memory: what the system and the cgroups leave to this process (os/cpu.h).
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "os/cpu.h"
#include "os/file.h"

namespace gyre::os {
namespace {

std::string text_of(const std::string& path) {
  auto text = read_file(path, size_t{1} << 20);
  return text ? *std::move(text) : std::string();
}

// The first number in the text; nothing when it starts otherwise ("max", "-1", a missing file).
std::optional<uint64_t> number_in(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number behind `name` at the start of a line.
std::optional<uint64_t> field_in(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    const std::string_view line = text.substr(at, text.find('\n', at) - at);
    if (line.size() > name.size() && line.substr(0, name.size()) == name)
      return number_in(line.substr(name.size()));
    at += line.size() + 1;
  }
  return std::nullopt;
}

std::optional<uint64_t> kib_field(const std::string& path, std::string_view name) {
  const auto kib = field_in(text_of(path), name);
  if (!kib || *kib > kNoLimit / 1024) return std::nullopt;
  return *kib * 1024;
}

bool lists(std::string_view names, std::string_view wanted) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    if (name == wanted) return true;
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  return false;
}

// This process's directory and its parents under a mount, the deepest first. A path that starts
// outside a container's view does not exist there; the mount itself is then what counts.
void add_with_parents(const std::string& mount, std::string path, std::vector<std::string>* out) {
  while (path.size() > 1) {
    out->push_back(mount + path);
    path.resize(path.find_last_of('/'));
  }
  out->push_back(mount);
}

struct Groups {
  std::vector<std::string> unified;     // version 2
  std::vector<std::string> controller;  // version 1, of one controller
};

// /proc/self/cgroup has lines "0::/path" (version 2) and "4:cpu,cpuacct:/path" (version 1).
Groups find_groups(const std::string& root, std::string_view controller) {
  Groups groups;
  const std::string mounts = root + "/sys/fs/cgroup";
  const std::string text = text_of(root + "/proc/self/cgroup");
  for (size_t at = 0; at < text.size();) {
    const std::string line = text.substr(at, text.find('\n', at) - at);
    at += line.size() + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (path.empty() || path[0] != '/') continue;
    if (names.empty()) {
      add_with_parents(mounts, path, &groups.unified);
      add_with_parents(mounts + "/unified", path, &groups.unified);
    } else if (lists(names, controller)) {
      add_with_parents(mounts + "/" + names, path, &groups.controller);
      if (names != controller)
        add_with_parents(mounts + "/" + std::string(controller), path, &groups.controller);
    }
  }
  return groups;
}

int cores(uint64_t quota, uint64_t period) {
  constexpr uint64_t kMost = 1 << 20;
  if (period == 0) return 0;
  const uint64_t whole = quota / period + (quota % period != 0);
  return static_cast<int>(std::clamp<uint64_t>(whole, 1, kMost));
}

int affinity_cores() {
  // Systems with more than 1024 cores need a larger set.
  for (int count = 1024; count <= 1 << 20; count *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(count),
                                                               [](cpu_set_t* p) { CPU_FREE(p); });
    if (set == nullptr) return 0;
    const size_t size = CPU_ALLOC_SIZE(count);
    if (::sched_getaffinity(0, size, set.get()) == 0) return CPU_COUNT_S(size, set.get());
  }
  return 0;
}

}  // namespace

int cgroup_cpu_limit(const std::string& root) {
  int least = 0;
  const auto take = [&](int limit) {
    if (limit > 0 && (least == 0 || limit < least)) least = limit;
  };
  const Groups groups = find_groups(root, "cpu");
  for (const std::string& directory : groups.unified) {
    const std::string text = text_of(directory + "/cpu.max");  // "150000 100000" or "max 100000"
    const auto quota = number_in(text);
    const auto period =
        number_in(std::string_view(text).substr(std::min(text.find(' '), text.size())));
    if (quota && period) take(cores(*quota, *period));
  }
  for (const std::string& directory : groups.controller) {
    const auto quota = number_in(text_of(directory + "/cpu.cfs_quota_us"));  // -1: none
    const auto period = number_in(text_of(directory + "/cpu.cfs_period_us"));
    if (quota && period) take(cores(*quota, *period));
  }
  return least;
}

int usable_threads(const std::string& root) {
  long least = std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN));
  if (const int allowed = affinity_cores(); allowed > 0) least = std::min<long>(least, allowed);
  if (const int quota = cgroup_cpu_limit(root); quota > 0) least = std::min<long>(least, quota);
  return static_cast<int>(least);
}

uint64_t cgroup_memory_left(const std::string& root) {
  uint64_t least = kNoLimit;
  const auto take = [&](const std::string& directory, const char* limit_file, const char* use_file,
                        const char* droppable_field) {
    const auto limit = number_in(text_of(directory + limit_file));
    const auto use = number_in(text_of(directory + use_file));
    // Version 1 writes "none" as the largest multiple of a page.
    if (!limit || !use || *limit >= uint64_t{1} << 60) return;
    const uint64_t droppable =
        field_in(text_of(directory + "/memory.stat"), droppable_field).value_or(0);
    const uint64_t held = *use - std::min(*use, droppable);
    least = std::min(least, *limit - std::min(*limit, held));
  };
  const Groups groups = find_groups(root, "memory");
  for (const std::string& directory : groups.unified)
    take(directory, "/memory.max", "/memory.current", "inactive_file ");
  for (const std::string& directory : groups.controller)
    take(directory, "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file ");
  return least;
}

uint64_t available_memory_bytes(const std::string& root) {
  const auto system = kib_field(root + "/proc/meminfo", "MemAvailable:");
  const uint64_t left = cgroup_memory_left(root);
  if (!system) return left == kNoLimit ? 0 : left;
  return std::min(*system, left);
}

uint64_t resident_bytes(const std::string& root) {
  return kib_field(root + "/proc/self/status", "VmRSS:").value_or(0);
}

uint64_t peak_resident_bytes(const std::string& root) {
  return kib_field(root + "/proc/self/status", "VmHWM:").value_or(0);
}

}  // namespace gyre::os
