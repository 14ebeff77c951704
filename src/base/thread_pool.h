// A persistent pool for data-parallel loops. The caller works too, as worker 0.
//
// run(count, body) calls body(index, worker) once for each index in [0, count) and returns when all
// are done. Each worker starts with one contiguous share and steals from the far end of others'.
// Workers spin briefly for the next loop, then sleep. A worker that was found preempted while it
// held work (a busy neighbour on its core) is left out for a while, so a neighbour costs its share.
// Results must never depend on which worker ran an index. Loops do not nest; one caller at a time.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace gyre {

class ThreadPool {
 public:
  using Body = FunctionRef<void(size_t index, int worker)>;
  static constexpr int kMaxThreads = 1024;

  explicit ThreadPool(int threads);  // clamped to 1 .. kMaxThreads, the caller included
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }
  void run(size_t count, Body body);

  // How often a worker was left out because it was found preempted (tests, statistics).
  uint64_t benched() const { return benched_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct alignas(128) Worker {
    // What is left of this worker's share: next index (low half), end (high half).
    std::atomic<uint64_t> share{0};
    // idle -> invited (caller) -> running (worker) -> idle (worker), or invited -> idle (caller).
    std::atomic<uint32_t> phase{kIdle};
    std::atomic<bool> asleep{false};
    Clock::time_point benched_until{};  // caller only
    Clock::duration penalty{};          // caller only
    std::thread thread;
  };
  static constexpr uint32_t kIdle = 0, kInvited = 1, kRunning = 2, kStop = 3;

  void worker_main(int self);
  size_t work(int self);  // returns how many indices it ran
  static bool take_front(Worker& worker, size_t* index);
  static bool take_back(Worker& worker, size_t* index);
  void invite(Worker& worker);
  void collect(Worker& worker, Clock::duration patience);

  int size_;
  std::unique_ptr<Worker[]> workers_;
  const Body* body_ = nullptr;
  uint64_t benched_ = 0;
};

}  // namespace gyre
