#include "os/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "base/memory.h"
#include "os/fault.h"

namespace gyre::os {
namespace {

Error system_error(const std::string& path, const char* operation, int number) {
  const ErrorCode code = number == ENOENT || number == ENOTDIR ? ErrorCode::not_found
                         : number == ENOMEM                    ? ErrorCode::out_of_memory
                                                               : ErrorCode::io;
  return fail(code, path + ": " + operation, std::generic_category().message(number));
}

// Runs one system call that returns a negative number on failure, again after a signal; counted by
// the fault rehearsal.
template <class Call>
auto system_call(Call call) -> decltype(call()) {
  if (operation_must_fail()) {
    errno = EIO;
    return -1;
  }
  while (true) {
    auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }

 private:
  int number_;
};

// A zero byte would silently cut the path.
Status check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos)
    return fail(ErrorCode::usage, "path " + path, "holds a zero byte", "a path without one");
  return {};
}

Result<Descriptor> open_descriptor(const std::string& path, int flags) {
  GYRE_TRY(check_path(path));
  const int number = system_call([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
  if (number < 0) return system_error(path, "open", errno);
  return Descriptor(number);
}

Status write_all(const Descriptor& file, const std::string& path,
                 std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t step = std::min(bytes.size(), size_t{1} << 30);
    const ssize_t n = system_call([&] { return ::write(file.number(), bytes.data(), step); });
    if (n < 0) return system_error(path, "write", errno);
    if (n == 0) return system_error(path, "write", EIO);
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Status sync(const Descriptor& file, const std::string& path) {
  if (system_call([&] { return ::fsync(file.number()); }) < 0)
    return system_error(path, "sync", errno);
  return {};
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status fill_and_rename(const std::string& temporary, const std::string& path, FileParts parts) {
  {
    GYRE_ASSIGN(const Descriptor file, open_descriptor(temporary, O_WRONLY | O_CREAT | O_EXCL));
    for (const auto& part : parts) GYRE_TRY(write_all(file, path, part));
    GYRE_TRY(sync(file, path));
  }
  if (system_call([&] { return ::rename(temporary.c_str(), path.c_str()); }) < 0)
    return system_error(path, "rename", errno);
  return {};
}

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// Whole pages inside [offset, offset + length), cut to the mapping.
std::span<const std::byte> whole_pages(std::span<const std::byte> bytes, size_t offset,
                                       size_t length) {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= bytes.size()) return {};
  length = std::min(length, bytes.size() - offset);
  const size_t begin = (offset + page - 1) / page * page;
  // The file's last page is whole when the range reaches the file's end.
  size_t end = offset + length;
  if (end != bytes.size()) end = end / page * page;
  if (begin >= end) return {};
  return bytes.subspan(begin, end - begin);
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  GYRE_ASSIGN(const Descriptor file, open_descriptor(path, O_RDONLY));
  struct stat status {};
  if (system_call([&] { return ::fstat(file.number(), &status); }) < 0)
    return system_error(path, "stat", errno);
  if (S_ISDIR(status.st_mode)) return system_error(path, "map", EISDIR);
  if (!S_ISREG(status.st_mode))
    return fail(ErrorCode::io, path + ": map", "a special file", "a regular file");
  MappedFile mapped;
  const size_t size = static_cast<size_t>(status.st_size);
  if (size == 0) return mapped;
  if (operation_must_fail()) return system_error(path, "map", EIO);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number(), 0);
  if (data == MAP_FAILED) return system_error(path, "map", errno);
  mapped.data_ = static_cast<const std::byte*>(data);
  mapped.size_ = size;
  return mapped;
}

void MappedFile::release(size_t offset, size_t length) const {
  const auto pages = whole_pages(bytes(), offset, length);
  if (!pages.empty()) ::madvise(const_cast<std::byte*>(pages.data()), pages.size(), MADV_DONTNEED);
}

void MappedFile::will_need(size_t offset, size_t length) const {
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  if (offset >= size_) return;
  const size_t begin = offset / page * page;
  const size_t end = offset + std::min(length, size_ - offset);
  ::madvise(const_cast<std::byte*>(data_ + begin), end - begin, MADV_WILLNEED);
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  GYRE_ASSIGN(const Descriptor file, open_descriptor(path, O_RDONLY));
  std::string text;
  Array<char> buffer;
  GYRE_ASSIGN(buffer, Array<char>::make(size_t{1} << 16, "read buffer"));
  while (true) {
    const ssize_t n =
        system_call([&] { return ::read(file.number(), buffer.data(), buffer.size()); });
    if (n < 0) return system_error(path, "read", errno);
    if (n == 0) return text;
    if (static_cast<size_t>(n) > max_bytes - text.size())
      return fail(ErrorCode::bad_file, path, "more than " + std::to_string(max_bytes) + " bytes",
                  "a smaller file");
    try {
      text.append(buffer.data(), static_cast<size_t>(n));
    } catch (const std::bad_alloc&) {
      return system_error(path, "read", ENOMEM);
    }
  }
}

Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  return write_parts_atomically(path, FileParts(&bytes, 1));
}

Status write_parts_atomically(const std::string& path, FileParts parts) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary =
      path + ".tmp" + std::to_string(::getpid()) + "." + std::to_string(serial++);
  if (auto done = fill_and_rename(temporary, path, parts); !done) {
    ::unlink(temporary.c_str());
    return done;
  }
  // The new name itself must survive a power cut.
  const std::string parent = parent_of(path);
  auto directory = open_descriptor(parent, O_RDONLY | O_DIRECTORY);
  const Status synced = directory ? sync(*directory, parent) : Status(directory.error());
  if (!synced)
    return fail(synced.error().code, synced.error().text,
                "the new file is in place but a power cut may undo it");
  return {};
}

Result<bool> exists(const std::string& path) {
  GYRE_TRY(check_path(path));
  struct stat status {};
  if (system_call([&] { return ::stat(path.c_str(), &status); }) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return system_error(path, "stat", errno);
}

Result<uint64_t> file_size(const std::string& path) {
  GYRE_TRY(check_path(path));
  struct stat status {};
  if (system_call([&] { return ::stat(path.c_str(), &status); }) < 0)
    return system_error(path, "stat", errno);
  return static_cast<uint64_t>(status.st_size);
}

Status make_dirs(const std::string& path) {
  GYRE_TRY(check_path(path));
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (part.empty() || is_directory(part)) continue;
    if (system_call([&] { return ::mkdir(part.c_str(), 0777); }) < 0) {
      const int number = errno;
      if (number != EEXIST || !is_directory(part))  // another process may have made it meanwhile
        return system_error(part, "make directory", number);
    }
  }
  return {};
}

}  // namespace gyre::os
