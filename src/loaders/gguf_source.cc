#include "loaders/gguf_source.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>

#include "loaders/gguf_format.h"

namespace gyre::loaders {
namespace {

constexpr size_t kSampleBytes = 64;

std::string show(std::span<const uint64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i)
    text.append(i == 0 ? "" : ", ").append(std::to_string(shape[i]));
  return text + "]";
}

// Leading dimensions of 1 carry no meaning: [1, 576] is [576].
std::span<const uint64_t> without_leading_ones(std::span<const uint64_t> shape) {
  while (shape.size() > 1 && shape[0] == 1) shape = shape.subspan(1);
  return shape;
}

uint64_t row_count(const TensorInfo& info) {
  return info.bytes / row_bytes(info.dtype, info.shape.back());
}

}  // namespace

Status GgufSource::add(std::string path, os::MappedFile file, std::span<const std::byte> bytes,
                       gguf::Header header) {
  for (TensorInfo& info : header.tensors) {
    info.file = static_cast<uint32_t>(parts_.size());
    tensors_.push_back(std::move(info));
  }
  for (auto& [key, value] : header.metadata) {
    const MetaValue* same = meta(key);
    if (same == nullptr) {
      metadata_.emplace_back(std::move(key), std::move(value));
      key_index_.emplace(metadata_.back().first, metadata_.size() - 1);
    } else if (key != gguf::kSplitNumber && *same != value) {
      return fail(ErrorCode::bad_file, path + ": metadata " + key, describe(value),
                  describe(*same) + " as in an earlier part");
    }
  }
  parts_.push_back({std::move(path), std::move(file), bytes, header.data_begin});
  return {};
}

Status GgufSource::finish() {
  used_.assign(tensors_.size(), false);
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto [entry, added] = tensor_index_.emplace(tensors_[i].name, i);
    if (!added)
      return fail(ErrorCode::bad_file,
                  parts_[tensors_[i].file].path + ": tensor " + tensors_[i].name,
                  "also in " + parts_[tensors_[entry->second].file].path, "each name in one part");
  }
  return {};
}

const TensorInfo* GgufSource::find(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<size_t> GgufSource::lookup(std::string_view name, std::span<const uint64_t> shape) const {
  const auto found = tensor_index_.find(name);
  const std::string field = "tensor " + std::string(name);
  if (found == tensor_index_.end())
    return fail(ErrorCode::not_found, field, "missing", "shape " + show(shape));
  const TensorInfo& info = tensors_[found->second];
  const auto actual = without_leading_ones(info.shape), wanted = without_leading_ones(shape);
  if (!std::equal(actual.begin(), actual.end(), wanted.begin(), wanted.end()))
    return fail(ErrorCode::bad_file, field, "shape " + show(info.shape), show(shape));
  return found->second;
}

TensorView GgufSource::view(const TensorInfo& info, uint64_t row_begin, uint64_t row_end) const {
  TensorView view;
  view.dtype = info.dtype;
  view.rows = static_cast<uint32_t>(row_end - row_begin);
  view.cols = static_cast<uint32_t>(info.shape.back());
  view.data = parts_[info.file].bytes.data() + info.offset +
              row_begin * row_bytes(info.dtype, info.shape.back());
  return view;
}

Result<TensorView> GgufSource::tensor(std::string_view name, std::span<const uint64_t> shape) {
  GYRE_ASSIGN(const size_t index, lookup(name, shape));
  used_[index] = true;
  return view(tensors_[index], 0, row_count(tensors_[index]));
}

Result<TensorView> GgufSource::rows(std::string_view name, std::span<const uint64_t> shape,
                                    uint64_t row_begin, uint64_t row_end) {
  GYRE_ASSIGN(const size_t index, lookup(name, shape));
  const uint64_t count = row_count(tensors_[index]);
  if (row_begin >= row_end || row_end > count)
    return fail(ErrorCode::usage, "tensor " + std::string(name),
                "rows " + std::to_string(row_begin) + " to " + std::to_string(row_end),
                "a range that is not empty within " + std::to_string(count) + " rows");
  used_[index] = true;
  return view(tensors_[index], row_begin, row_end);
}

void GgufSource::release(const TensorView& view) {
  for (const Part& part : parts_) {
    const std::byte* begin = part.bytes.data();
    if (view.data >= begin && view.data < begin + part.bytes.size())
      part.file.release(static_cast<size_t>(view.data - begin), view.bytes());
  }
}

Status GgufSource::audit(std::span<const std::string_view> ignored) const {
  constexpr size_t kListed = 10;
  std::string list;
  size_t count = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (used_[i]) continue;
    if (std::find(ignored.begin(), ignored.end(), tensors_[i].name) != ignored.end()) continue;
    if (++count <= kListed) list.append(count == 1 ? "" : " ").append(tensors_[i].name);
  }
  if (count == 0) return {};
  if (count > kListed) list += " and " + std::to_string(count - kListed) + " more";
  return fail(ErrorCode::unsupported, "unused tensors", std::to_string(count) + " (" + list + ")",
              "a model that uses every tensor");
}

const MetaValue* GgufSource::meta(std::string_view key) const {
  const auto found = key_index_.find(key);
  return found == key_index_.end() ? nullptr : &metadata_[found->second].second;
}

std::vector<std::string> GgufSource::meta_keys() const {
  std::vector<std::string> keys;
  for (const auto& pair : metadata_) keys.push_back(pair.first);
  return keys;
}

// Whole headers, all sizes, and the first, middle and last 64 bytes of every tensor.
std::string GgufSource::identity() const {
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  const auto hash = [&](const Part& part, uint64_t begin, uint64_t size) {
    XXH3_128bits_update(&state, part.bytes.data() + begin, size);
  };
  for (const Part& part : parts_) {
    const uint64_t size = part.bytes.size();
    XXH3_128bits_update(&state, &size, sizeof size);
    hash(part, 0, part.data_begin);
  }
  for (const TensorInfo& info : tensors_) {
    const uint64_t size = std::min<uint64_t>(kSampleBytes, info.bytes);
    for (uint64_t spare : {uint64_t{0}, (info.bytes - size) / 2, info.bytes - size})
      hash(parts_[info.file], info.offset + spare, size);
  }
  const XXH128_hash_t sum = XXH3_128bits_digest(&state);
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(sum.high64),
                static_cast<unsigned long long>(sum.low64));
  return text;
}

uint64_t GgufSource::file_bytes() const {
  uint64_t sum = 0;
  for (const Part& part : parts_) sum += part.bytes.size();
  return sum;
}

std::vector<std::string> GgufSource::paths() const {
  std::vector<std::string> all;
  for (const Part& part : parts_) all.push_back(part.path);
  return all;
}

}  // namespace gyre::loaders
