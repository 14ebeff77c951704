// A temporary folder that is removed, with its files, when its owner dies.
#pragma once

#include <string>

#include "base/result.h"

namespace gyre::os {

class TemporaryFolder {
 public:
  // Under $TMPDIR, else /tmp. `what` becomes part of its name.
  static Result<TemporaryFolder> make(const std::string& what);
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) {
    other.path_.clear();
  }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace gyre::os
