#include "os/fault.h"

#include <atomic>

namespace gyre::os {
namespace {
std::atomic<long> g_countdown{-1};
}

void fail_operation_after(long n) {
  g_countdown.store(n);
}

bool operation_must_fail() {
  long left = g_countdown.load(std::memory_order_relaxed);
  while (left >= 0) {
    if (g_countdown.compare_exchange_weak(left, left - 1)) return left == 0;
  }
  return false;
}

}  // namespace gyre::os
