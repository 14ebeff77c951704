// What a render may use. A template comes with a downloaded model: it is not trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace gyre::text::jinja {

struct Limits {
  uint64_t steps = 20'000'000;       // evaluated nodes, and items or 64 bytes looked at
  size_t output = size_t{64} << 20;  // bytes of the result, and of any one text
  size_t memory = size_t{1} << 30;   // bytes of all texts and lists made during the render
  int depth = 1000;                  // nested evaluations, macro calls included
};

// Errors: unsupported, naming the limit.
class Budget {
 public:
  explicit Budget(const Limits& limits) : limits_(limits) {}

  Status step(uint64_t count = 1) {
    if (count > limits_.steps - steps_) return over("steps", limits_.steps);
    steps_ += count;
    return {};
  }
  // A look over this many bytes.
  Status scan(size_t bytes) { return step(1 + bytes / 64); }
  // A text of this size, or growth of one to `total`.
  Status text(size_t bytes) { return grow(bytes, bytes); }
  Status grow(size_t bytes, size_t total) {
    if (total > limits_.output) return over("bytes of one text", limits_.output);
    if (bytes > limits_.memory - memory_) return over("memory", limits_.memory);
    memory_ += bytes;
    return {};
  }
  // A list or dict of this many items.
  Status items(size_t count) {
    if (count > (limits_.memory - memory_) / kItemBytes) return over("memory", limits_.memory);
    memory_ += count * kItemBytes;
    return step(1 + count);
  }
  // One level deeper; leave() undoes it, also after an error.
  Status enter() {
    if (++depth_ > limits_.depth) return over("depth", static_cast<uint64_t>(limits_.depth));
    return {};
  }
  void leave() { --depth_; }

 private:
  static constexpr size_t kItemBytes = 64;
  static Error over(const char* what, uint64_t limit) {
    return fail(ErrorCode::unsupported, std::string("chat template ") + what, "too many",
                "at most " + std::to_string(limit));
  }
  Limits limits_;
  uint64_t steps_ = 0;
  size_t memory_ = 0;
  int depth_ = 0;
};

class Level {
 public:
  explicit Level(Budget& budget) : budget_(budget), status_(budget.enter()) {}
  ~Level() { budget_.leave(); }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  const Status& status() const { return status_; }

 private:
  Budget& budget_;
  Status status_;
};

}  // namespace gyre::text::jinja
