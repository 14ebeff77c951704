// Owning, aligned, move-only arrays. Allocation failure is a value, never an exception.
//
// Aligned to 64 bytes (a cache line and a 512-bit vector), padded to whole lines, zeroed.
#pragma once

#include <cstddef>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace gyre {

// Fault rehearsal: after `countdown` more successful allocations the next one fails, once.
// Negative = never. Tests only; process-wide.
void fail_allocation_after(long countdown);
// Counts down; true when this allocation must fail. Used by every allocator of ours.
bool allocation_must_fail();

template <class T>
class Array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr size_t kAlign = 64;

  Array() = default;
  Array(Array&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Array& operator=(Array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Array() { ::operator delete (static_cast<void*>(data_), std::align_val_t{kAlign}); }

  // `what` names the array in the out_of_memory error.
  static Result<Array> make(size_t size, const char* what) {
    if (size > (std::numeric_limits<size_t>::max() - kAlign) / sizeof(T) || allocation_must_fail())
      return fail(ErrorCode::out_of_memory, what, std::to_string(size) + " elements");
    size_t bytes = (size * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    if (bytes == 0) bytes = kAlign;
    void* p = ::operator new (bytes, std::align_val_t{kAlign}, std::nothrow);
    if (p == nullptr) return fail(ErrorCode::out_of_memory, what, std::to_string(bytes) + " bytes");
    std::memset(p, 0, bytes);
    Array out;
    out.data_ = static_cast<T*>(p);
    out.size_ = size;
    return out;
  }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace gyre
