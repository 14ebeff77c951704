// Files: read-only mappings, whole reads, atomic writes. Paths are bytes, sizes are bytes.
//
// Every failure is an Error whose text names the path, the operation and the system's reason:
// `models/a.gguf: open: No such file or directory`. A missing file has the code not_found, all
// other refusals io. Functions are safe from any thread; a MappedFile may be read from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace gyre::os {

// A whole regular file mapped read-only; move-only owner of the mapping. An empty file gives an
// empty span. Whoever shortens the file while it is mapped takes the process down (SIGBUS): model
// files must be replaced by rename, as write_file_atomically does.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }

  // The bytes [offset, offset + length) will not be read soon: whole pages inside are dropped from
  // memory (a later read fetches them from the file again). Parts outside the file are ignored.
  void release(size_t offset, size_t length) const;
  // Asks the system to read these bytes ahead.
  void will_need(size_t offset, size_t length) const;

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

// The whole file, also one without a size (/proc); an error when it is longer than max_bytes.
Result<std::string> read_file(const std::string& path, size_t max_bytes);

// After success the path holds exactly these bytes, on disk; after a failure it holds what it held
// before and no temporary file is left beside it. (One exception: when only the last step fails,
// syncing the directory, the new bytes are in place and the error says that a power cut may undo
// it.)
Status write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
// The same for bytes that lie in several places: the file holds them one after the other.
using FileParts = std::span<const std::span<const std::byte>>;
Status write_parts_atomically(const std::string& path, FileParts parts);

Result<bool> exists(const std::string& path);
Result<uint64_t> file_size(const std::string& path);

// Creates the directory and its missing parents; an existing directory is success.
Status make_dirs(const std::string& path);

}  // namespace gyre::os
