#include "base/memory.h"

#include <atomic>

namespace gyre {
namespace {
std::atomic<long> g_countdown{-1};
}

void fail_allocation_after(long countdown) {
  g_countdown.store(countdown);
}

bool allocation_must_fail() {
  long left = g_countdown.load(std::memory_order_relaxed);
  while (left >= 0) {
    if (g_countdown.compare_exchange_weak(left, left - 1)) return left == 0;
  }
  return false;
}

}  // namespace gyre
