// Best-first merging of neighbours, shared by both families.
//
// The pair with the lowest order is merged first, the leftmost among equals. Short inputs are
// scanned, long ones use a heap: n log n for any input.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <vector>

#include "text/tokenizer.h"

namespace gyre::text {

struct Symbol {
  uint32_t begin = 0, size = 0;  // bytes of the text
  TokenId id = -1;               // -1: not a token
};

struct Merge {
  uint32_t order = std::numeric_limits<uint32_t>::max();
  TokenId id = -1;  // -1: the two do not merge
};

// Working memory, kept between words.
class Merger {
 public:
  // Merges in place; `find(left, right)` gives what two neighbouring symbols become. Fewer than
  // 2^31 symbols.
  template <class Find>
  void run(std::vector<Symbol>& symbols, Find find) {
    const size_t n = symbols.size();
    if (n < 2) return;
    merges_.resize(n);
    for (size_t i = 0; i + 1 < n; ++i) merges_[i] = find(symbols[i], symbols[i + 1]);
    merges_[n - 1] = {};
    if (n <= kShort) {
      scan(symbols, find);
    } else {
      heap(symbols, find);
    }
  }

 private:
  static constexpr size_t kShort = 32;

  template <class Find>
  void scan(std::vector<Symbol>& s, Find find) {
    for (;;) {
      size_t best = 0;
      for (size_t i = 1; i < s.size(); ++i) {
        if (merges_[i].id >= 0 && (merges_[best].id < 0 || merges_[i].order < merges_[best].order))
          best = i;
      }
      if (merges_[best].id < 0) return;
      s[best].id = merges_[best].id;
      s[best].size += s[best + 1].size;
      s.erase(s.begin() + static_cast<ptrdiff_t>(best) + 1);
      merges_.erase(merges_.begin() + static_cast<ptrdiff_t>(best) + 1);
      merges_[best] = best + 1 < s.size() ? find(s[best], s[best + 1]) : Merge{};
      if (best > 0) merges_[best - 1] = find(s[best - 1], s[best]);
    }
  }

  // Heap entries are order << 32 | left. An entry counts while the pair that begins at `left`
  // still has that order; so stale ones need no removal.
  template <class Find>
  void heap(std::vector<Symbol>& s, Find find) {
    const size_t n = s.size();
    std::vector<uint64_t> entries;
    for (size_t i = 0; i < n; ++i) {
      if (merges_[i].id >= 0) entries.push_back(uint64_t{merges_[i].order} << 32 | i);
    }
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue({},
                                                                               std::move(entries));
    constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> next(n), before(n);
    for (size_t i = 0; i < n; ++i) {
      next[i] = i + 1 < n ? static_cast<uint32_t>(i + 1) : kNone;
      before[i] = i > 0 ? static_cast<uint32_t>(i - 1) : kNone;
    }
    const auto renew = [&](uint32_t left) {
      merges_[left] = next[left] == kNone ? Merge{} : find(s[left], s[next[left]]);
      if (merges_[left].id >= 0) queue.push(uint64_t{merges_[left].order} << 32 | left);
    };
    while (!queue.empty()) {
      const uint64_t top = queue.top();
      queue.pop();
      const uint32_t left = static_cast<uint32_t>(top);
      if (s[left].size == 0 || merges_[left].id < 0 || merges_[left].order != top >> 32) continue;
      const uint32_t right = next[left];
      s[left].id = merges_[left].id;
      s[left].size += s[right].size;
      s[right].size = 0;
      next[left] = next[right];
      if (next[left] != kNone) before[next[left]] = left;
      renew(left);
      if (before[left] != kNone) renew(before[left]);
    }
    size_t kept = 0;
    for (size_t i = 0; i != kNone; i = next[i]) s[kept++] = s[i];
    s.resize(kept);
  }

  std::vector<Merge> merges_;
};

}  // namespace gyre::text
