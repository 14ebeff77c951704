#include "os/temporary.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace gyre::os {

Result<TemporaryFolder> TemporaryFolder::make(const std::string& what) {
  const char* root = std::getenv("TMPDIR");
  std::string path =
      std::string(root != nullptr && *root != 0 ? root : "/tmp") + "/" + what + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr)
    return fail(ErrorCode::io, path, std::strerror(errno), "a writable folder");
  return TemporaryFolder(std::move(path));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace gyre::os
