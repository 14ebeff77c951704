// A WeightSource over the checked headers of one or more GGUF files (loaders/gguf.h opens them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "loaders/gguf_reader.h"
#include "loaders/weight_source.h"
#include "os/file.h"

namespace gyre::loaders {

class GgufSource final : public WeightSource {
 public:
  // Takes the parts in their order. `bytes` are the file's, or someone else's with an empty file. A
  // key that parts share must have one value, except split.no.
  Status add(std::string path, os::MappedFile file, std::span<const std::byte> bytes,
             gguf::Header header);
  // After the last part: tensor names must be unique over all parts.
  Status finish();

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  const TensorInfo* find(std::string_view name) const override;
  Result<TensorView> tensor(std::string_view name, std::span<const uint64_t> shape) override;
  Result<TensorView> rows(std::string_view name, std::span<const uint64_t> shape,
                          uint64_t row_begin, uint64_t row_end) override;
  void release(const TensorView& view) override;
  Status audit(std::span<const std::string_view> ignored) const override;
  const MetaValue* meta(std::string_view key) const override;
  std::vector<std::string> meta_keys() const override;
  std::string identity() const override;
  uint64_t file_bytes() const override;
  std::vector<std::string> paths() const override;

 private:
  struct Part {
    std::string path;
    os::MappedFile file;
    std::span<const std::byte> bytes;
    uint64_t data_begin = 0;
  };
  Result<size_t> lookup(std::string_view name, std::span<const uint64_t> shape) const;
  TensorView view(const TensorInfo& info, uint64_t row_begin, uint64_t row_end) const;

  std::vector<Part> parts_;
  std::deque<std::pair<std::string, MetaValue>> metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<bool> used_;
  // Keys are views into the tables: a deque's entries stay where they are, tensors_ is complete.
  std::unordered_map<std::string_view, size_t> tensor_index_, key_index_;
};

}  // namespace gyre::loaders
