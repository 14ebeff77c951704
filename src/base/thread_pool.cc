#include "base/thread_pool.h"

#include <algorithm>

#include "base/fp_env.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace gyre {
namespace {

using namespace std::chrono_literals;

// How long a worker spins for the next loop before it sleeps: several loops of one token apart.
constexpr auto kSpin = 50us;
// A worker this late is taken for preempted: far above a wake-up (12 us), far below a time slice.
constexpr auto kPatience = 250us;
constexpr auto kPenaltyMin = 20ms, kPenaltyMax = 500ms;

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

uint64_t pack(size_t next, size_t end) {
  return static_cast<uint64_t>(end) << 32 | next;
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : size_(std::clamp(threads, 1, kMaxThreads)), workers_(new Worker[size_]) {
  for (int w = 1; w < size_; ++w) workers_[w].thread = std::thread([this, w] { worker_main(w); });
}

ThreadPool::~ThreadPool() {
  for (int w = 1; w < size_; ++w) {
    workers_[w].phase.store(kStop);
    workers_[w].phase.notify_one();
  }
  for (int w = 1; w < size_; ++w) workers_[w].thread.join();
}

bool ThreadPool::take_front(Worker& worker, size_t* index) {
  uint64_t share = worker.share.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t next = static_cast<uint32_t>(share), end = static_cast<uint32_t>(share >> 32);
    if (next >= end) return false;
    if (worker.share.compare_exchange_weak(share, pack(next + 1, end), std::memory_order_acq_rel)) {
      *index = next;
      return true;
    }
  }
}

bool ThreadPool::take_back(Worker& worker, size_t* index) {
  uint64_t share = worker.share.load(std::memory_order_relaxed);
  while (true) {
    const uint32_t next = static_cast<uint32_t>(share), end = static_cast<uint32_t>(share >> 32);
    if (next >= end) return false;
    if (worker.share.compare_exchange_weak(share, pack(next, end - 1), std::memory_order_acq_rel)) {
      *index = end - 1;
      return true;
    }
  }
}

size_t ThreadPool::work(int self) {
  size_t index = 0, ran = 0;
  for (; take_front(workers_[self], &index); ++ran) (*body_)(index, self);
  for (int step = 1; step < size_; ++step) {
    Worker& victim = workers_[(self + step) % size_];
    for (; take_back(victim, &index); ++ran) (*body_)(index, self);
  }
  return ran;
}

void ThreadPool::worker_main(int self) {
  FloatEnvironment environment;
  Worker& me = workers_[self];
  while (true) {
    uint32_t phase = me.phase.load(std::memory_order_acquire);
    const auto give_up = Clock::now() + kSpin;
    for (int spins = 0; phase == kIdle; phase = me.phase.load(std::memory_order_acquire)) {
      relax();
      if (++spins % 64 == 0 && Clock::now() > give_up) {
        me.asleep.store(true);
        me.phase.wait(kIdle);
        me.asleep.store(false);
      }
    }
    if (phase == kStop) return;
    if (phase == kInvited && me.phase.compare_exchange_strong(phase, kRunning)) {
      work(self);
      uint32_t running = kRunning;  // the destructor may have asked to stop; then leave that
      me.phase.compare_exchange_strong(running, kIdle, std::memory_order_release);
    }
  }
}

void ThreadPool::invite(Worker& worker) {
  worker.phase.store(kInvited);  // sequentially consistent, as is `asleep`: no lost wake-up
  if (worker.asleep.load()) worker.phase.notify_one();
}

void ThreadPool::collect(Worker& worker, Clock::duration patience) {
  uint32_t invited = kInvited;
  // Not even started: the work is done without it, so take the invitation back.
  if (worker.phase.compare_exchange_strong(invited, kIdle)) return;
  if (worker.phase.load(std::memory_order_acquire) == kIdle) return;
  const auto start = Clock::now();
  auto now = start;
  for (int spins = 0; worker.phase.load(std::memory_order_acquire) != kIdle;) {
    relax();
    if (++spins % 64 != 0) continue;
    now = Clock::now();
    if (now - start > patience) std::this_thread::yield();
  }
  if (now - start > patience) {
    worker.penalty = std::clamp<Clock::duration>(worker.penalty * 2, kPenaltyMin, kPenaltyMax);
    worker.benched_until = now + worker.penalty;
    ++benched_;
  } else if (worker.penalty.count() != 0 && start > worker.benched_until + worker.penalty) {
    worker.penalty = {};
  }
}

void ThreadPool::run(size_t count, Body body) {
  FloatEnvironment environment;
  if (size_ == 1 || count <= 1) {
    for (size_t i = 0; i < count; ++i) body(i, 0);
    return;
  }
  const auto start = Clock::now();
  body_ = &body;
  int members[kMaxThreads], members_count = 0;
  for (int w = 0; w < size_; ++w) {
    if (w == 0 || start >= workers_[w].benched_until) members[members_count++] = w;
  }
  for (int m = 0; m < members_count; ++m) {
    workers_[members[m]].share.store(
        pack(count * m / members_count, count * (m + 1) / members_count),
        std::memory_order_relaxed);
  }
  for (int m = 1; m < members_count; ++m) invite(workers_[members[m]]);
  const size_t ran = work(0);
  const auto per_index = (Clock::now() - start) / std::max<size_t>(ran, 1);
  const auto patience = std::max<Clock::duration>(kPatience, 3 * per_index);
  for (int m = 1; m < members_count; ++m) collect(workers_[members[m]], patience);
}

}  // namespace gyre
