#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace gyre {
namespace {

TEST(ThreadPool, RunsEachIndexOnce) {
  for (int threads : {1, 2, 3, 7}) {
    ThreadPool pool(threads);
    ASSERT_EQ(pool.size(), threads);
    for (size_t count : {0u, 1u, 2u, 3u, 64u, 1001u}) {
      std::vector<std::atomic<int>> hits(count);
      pool.run(count, [&](size_t i, int worker) {
        ASSERT_LT(worker, threads);
        ++hits[i];
      });
      for (auto& h : hits) ASSERT_EQ(h.load(), 1);
    }
  }
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(3);
  std::atomic<uint64_t> sum{0};
  for (int loop = 0; loop < 20000; ++loop) pool.run(5, [&](size_t i, int) { sum += i; });
  EXPECT_EQ(sum.load(), 20000u * 10);
}

TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(2);
  std::atomic<int> seen{0};
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    pool.run(2, [&](size_t, int worker) {
      seen |= 1 << worker;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    });
  }
  EXPECT_EQ(seen.load(), 3);
}

// On a busy machine the caller itself may lose its core at the wrong moment, so it gets some tries.
TEST(ThreadPool, LateWorkerIsBenchedAndReturns) {
  ThreadPool pool(2);
  bool left_out = false;
  for (int attempt = 0; attempt < 100 && !left_out; ++attempt) {
    std::atomic<bool> other_entered{false};
    const uint64_t before = pool.benched();
    pool.run(2, [&](size_t, int worker) {
      if (worker == 1) {
        other_entered = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } else {
        for (int i = 0; i < 1000 && !other_entered; ++i)
          std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
    if (pool.benched() == before) continue;
    std::atomic<bool> alone{true};
    pool.run(64, [&](size_t, int worker) {
      if (worker != 0) alone = false;
    });
    left_out = alone;
  }
  EXPECT_TRUE(left_out);
  EXPECT_GE(pool.benched(), 1u);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  std::atomic<int> seen{0};
  for (int i = 0; i < 50; ++i) {
    pool.run(2, [&](size_t, int worker) {
      seen |= 1 << worker;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    });
  }
  EXPECT_EQ(seen.load(), 3);
}

}  // namespace
}  // namespace gyre
