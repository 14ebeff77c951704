// Large anonymous memory straight from the system: zeroed, move-only, in steps of 2 MiB.
//
// For weights, KV pools and the like. With huge pages wanted, the range starts on a 2 MiB border
// and the system is asked to back it with transparent huge pages (it may decline: bytes are the
// same). Sizes are bytes. Any thread may read or write; one owner.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace gyre::os {

class Pages {
 public:
  static constexpr size_t kStep = size_t{2} << 20;
  enum class Huge { no, yes };

  Pages() = default;
  Pages(Pages&& other) noexcept;
  Pages& operator=(Pages&& other) noexcept;
  ~Pages();

  // At least `bytes` bytes, rounded up to kStep; 0 gives an empty owner. `what` names the memory in
  // the out_of_memory error. Counted by base/memory.h's fault rehearsal.
  static Result<Pages> make(size_t bytes, Huge huge, const char* what);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> span() { return {data_, size_}; }
  std::span<const std::byte> span() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gyre::os
