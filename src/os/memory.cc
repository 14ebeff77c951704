#include "os/memory.h"

#include <sys/mman.h>

#include <limits>
#include <string>
#include <utility>

#include "base/memory.h"

namespace gyre::os {

Pages::Pages(Pages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Pages& Pages::operator=(Pages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Result<Pages> Pages::make(size_t bytes, Huge huge, const char* what) {
  if (bytes > std::numeric_limits<size_t>::max() - 2 * kStep || allocation_must_fail())
    return fail(ErrorCode::out_of_memory, what, std::to_string(bytes) + " bytes");
  Pages pages;
  if (bytes == 0) return pages;
  const size_t size = (bytes + kStep - 1) / kStep * kStep;
  // One step more than needed, so that a 2 MiB border lies inside; the ends go back.
  const size_t spare = size + kStep;
  void* raw = ::mmap(nullptr, spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED)
    return fail(ErrorCode::out_of_memory, what, std::to_string(size) + " bytes");
  auto* begin = static_cast<std::byte*>(raw);
  const size_t head = (kStep - reinterpret_cast<uintptr_t>(begin) % kStep) % kStep;
  if (head != 0) ::munmap(begin, head);
  if (head != kStep) ::munmap(begin + head + size, kStep - head);
  pages.data_ = begin + head;
  pages.size_ = size;
#ifdef MADV_HUGEPAGE
  ::madvise(pages.data_, size, huge == Huge::yes ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#endif
  return pages;
}

}  // namespace gyre::os
