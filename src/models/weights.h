// A model's weights on their way from a source to the kernels.
//
// A model declares what it needs (matrix, vector), then finish() checks every scale, refuses unused
// tensors, and packs the matrices into panels with all threads; or maps a pack cache written
// earlier. After finish() nothing changes any more: reads are safe from any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "kernels/linear.h"
#include "loaders/weight_source.h"
#include "nn/backend.h"
#include "os/file.h"
#include "os/memory.h"

namespace gyre::models {

struct LoadOptions {
  std::string pack_cache;  // folder of packed weights; "" = pack at every load
  // Called now and then with bytes done and bytes in all; may be empty. Returning false cancels.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

class Weights {
 public:
  // `source` must outlive the Weights when the backend does not pack.
  explicit Weights(loaders::WeightSource& source) : source_(source) {}

  // A matrix of `rows` outputs by `cols` inputs. The pointer stays valid; panels come in finish().
  Result<const kernels::Matrix*> matrix(const std::string& name, uint64_t rows, uint64_t cols);
  // The same, null when the source has no such tensor.
  Result<const kernels::Matrix*> optional_matrix(const std::string& name, uint64_t rows,
                                                 uint64_t cols);
  // A vector as f32, whatever its stored type.
  Result<const float*> vector(const std::string& name, uint64_t n);
  Result<const float*> optional_vector(const std::string& name, uint64_t n);

  Status finish(const nn::Backend& backend, const LoadOptions& options);

  loaders::WeightSource& source() { return source_; }
  bool from_cache() const { return from_cache_; }

 private:
  Status check_scales(const nn::Backend& backend);
  Status pack(const nn::Backend& backend, const LoadOptions& options, std::byte* out);
  void place(const std::byte* panels);
  std::string cache_path(const LoadOptions& options) const;
  bool map_cache(const std::string& path);
  Status write_cache(const std::string& path);

  loaders::WeightSource& source_;
  std::deque<kernels::Matrix> matrices_;
  std::vector<std::string> names_;
  std::vector<uint64_t> offsets_;
  std::deque<Array<float>> vectors_;
  os::Pages arena_;
  os::MappedFile cache_;
  uint64_t total_ = 0;
  bool from_cache_ = false;
};

// The pack cache files in a folder.
std::vector<std::string> pack_cache_files(const std::string& folder);

}  // namespace gyre::models
