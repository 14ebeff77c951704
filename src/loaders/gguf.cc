#include "loaders/gguf.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <new>
#include <optional>
#include <stdexcept>
#include <unordered_map>

#include "loaders/gguf_format.h"
#include "loaders/gguf_reader.h"
#include "os/file.h"

namespace gyre::loaders {
namespace {

constexpr size_t kSampleBytes = 64;

struct Part {
  std::string path;
  os::MappedFile file;  // empty when the bytes are someone else's
  std::span<const std::byte> bytes;
  uint64_t data_begin = 0;
};

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

class GgufSource final : public WeightSource {
 public:
  // Takes the parts' headers in order; names and keys must not clash.
  Status add(Part part, gguf::Header header);
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
  Result<size_t> lookup(std::string_view name, std::span<const uint64_t> shape) const;
  TensorView view(const TensorInfo& info, uint64_t row_begin, uint64_t row_end) const;

  std::vector<Part> parts_;
  std::deque<std::pair<std::string, MetaValue>> metadata_;
  std::vector<TensorInfo> tensors_;
  std::vector<bool> used_;
  // Keys are views into the tables: a deque's entries stay where they are, tensors_ is complete.
  std::unordered_map<std::string_view, size_t> tensor_index_, key_index_;
};

Status GgufSource::add(Part part, gguf::Header header) {
  part.data_begin = header.data_begin;
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
      return fail(ErrorCode::bad_file, part.path + ": metadata " + key,
                  "another value than in the first part", "one value in all parts");
    }
  }
  parts_.push_back(std::move(part));
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

uint64_t row_count(const TensorInfo& info) {
  return info.bytes / row_bytes(info.dtype, info.shape.back());
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

// What a file's metadata says about the split it belongs to.
struct Split {
  uint64_t number = 0;              // of this part, from 0
  uint64_t count = 1;               // of parts
  std::optional<uint64_t> tensors;  // of all parts together
};

Result<std::optional<uint64_t>> split_field(const gguf::Header& header, std::string_view key,
                                            const std::string& path) {
  const MetaValue* value = gguf::find(header, key);
  if (value == nullptr) return std::optional<uint64_t>();
  if (const auto* number = std::get_if<uint64_t>(value)) return std::optional(*number);
  const auto* number = std::get_if<int64_t>(value);  // written as int32 by some tools
  if (number == nullptr || *number < 0)
    return fail(ErrorCode::bad_file, path + ": " + std::string(key),
                number == nullptr ? "another value type" : std::to_string(*number),
                "an integer of at least 0");
  return std::optional(static_cast<uint64_t>(*number));
}

Result<Split> read_split(const gguf::Header& header, const std::string& path) {
  GYRE_ASSIGN(const auto number, split_field(header, gguf::kSplitNumber, path));
  GYRE_ASSIGN(const auto count, split_field(header, gguf::kSplitCount, path));
  GYRE_ASSIGN(const auto tensors, split_field(header, gguf::kSplitTensors, path));
  Split split{number.value_or(0), std::max<uint64_t>(count.value_or(1), 1), tensors};
  if (split.number >= split.count)
    return fail(ErrorCode::bad_file, path + ": split.no", std::to_string(split.number),
                "less than split.count, " + std::to_string(split.count));
  return split;
}

// `name-00002-of-00003.gguf`: the numbers of a part's file name, and how to make the others'.
struct PartName {
  std::string prefix;
  uint64_t number = 0, count = 0;  // from 1

  static std::optional<PartName> parse(const std::string& path) {
    constexpr std::string_view kShape = "-ddddd-of-ddddd.gguf";
    if (path.size() <= kShape.size()) return std::nullopt;
    PartName name{path.substr(0, path.size() - kShape.size())};
    for (size_t i = 0; i < kShape.size(); ++i) {
      const char c = path[name.prefix.size() + i];
      const bool digit = c >= '0' && c <= '9';
      if (kShape[i] == 'd' ? !digit : c != kShape[i]) return std::nullopt;
      uint64_t& field = i < 9 ? name.number : name.count;
      if (digit) field = field * 10 + static_cast<uint64_t>(c - '0');
    }
    return name;
  }
  std::string path_of(uint64_t part) const {
    char text[64];
    std::snprintf(text, sizeof text, "-%05llu-of-%05llu.gguf",
                  static_cast<unsigned long long>(part), static_cast<unsigned long long>(count));
    return prefix + text;
  }
};

struct LoadedPart {
  Part part;
  gguf::Header header;
  Split split;
};

Result<LoadedPart> load_part(const std::string& path) {
  LoadedPart loaded;
  GYRE_ASSIGN(loaded.part.file, os::MappedFile::open(path));
  loaded.part.path = path;
  loaded.part.bytes = loaded.part.file.bytes();
  GYRE_ASSIGN(loaded.header, gguf::read_header(loaded.part.bytes, path));
  GYRE_ASSIGN(loaded.split, read_split(loaded.header, path));
  return loaded;
}

// The metadata's place of a part must be the one its file name says.
Status check_name(const Split& split, const PartName& name, const std::string& path) {
  if (split.count != name.count)
    return fail(ErrorCode::bad_file, path + ": split.count", std::to_string(split.count),
                std::to_string(name.count) + " as in the file's name");
  if (split.number + 1 != name.number)
    return fail(ErrorCode::bad_file, path + ": split.no", std::to_string(split.number),
                std::to_string(name.number - 1) + " as in the file's name");
  return {};
}

Status check_tensor_count(const GgufSource& source, const Split& split, const std::string& path) {
  if (split.tensors && *split.tensors != source.tensors().size())
    return fail(ErrorCode::bad_file, path + ": split.tensors.count", std::to_string(*split.tensors),
                std::to_string(source.tensors().size()) + " as in the parts together");
  return {};
}

Result<std::unique_ptr<WeightSource>> open_parts(LoadedPart asked, const PartName& name) {
  const std::string asked_path = asked.part.path;
  auto source = std::make_unique<GgufSource>();
  Split split = asked.split;
  for (uint64_t i = 1; i <= name.count; ++i) {
    LoadedPart loaded;
    if (i == name.number) {
      loaded = std::move(asked);
    } else {
      GYRE_ASSIGN(loaded, load_part(name.path_of(i)));
    }
    PartName own = name;
    own.number = i;
    GYRE_TRY(check_name(loaded.split, own, loaded.part.path));
    GYRE_TRY(source->add(std::move(loaded.part), std::move(loaded.header)));
  }
  GYRE_TRY(source->finish());
  GYRE_TRY(check_tensor_count(*source, split, asked_path));
  return std::unique_ptr<WeightSource>(std::move(source));
}

Result<std::unique_ptr<WeightSource>> open_one(LoadedPart loaded) {
  const std::string path = loaded.part.path;
  auto source = std::make_unique<GgufSource>();
  GYRE_TRY(source->add(std::move(loaded.part), std::move(loaded.header)));
  GYRE_TRY(source->finish());
  GYRE_TRY(check_tensor_count(*source, loaded.split, path));
  return std::unique_ptr<WeightSource>(std::move(source));
}

Result<std::unique_ptr<WeightSource>> open_path(const std::string& path) {
  GYRE_ASSIGN(LoadedPart loaded, load_part(path));
  const auto name = PartName::parse(path);
  if (name && (name->count > 1 || loaded.split.count > 1)) {
    GYRE_TRY(check_name(loaded.split, *name, path));
    return open_parts(std::move(loaded), *name);
  }
  if (loaded.split.count > 1)
    return fail(ErrorCode::bad_file, path + ": file name", "a part of a split model",
                "a name that ends in -00001-of-00002.gguf or the like");
  return open_one(std::move(loaded));
}

// Containers throw when memory is short; that stays inside this room.
template <class Open>
Result<std::unique_ptr<WeightSource>> guarded(const std::string& path, Open open) {
  try {
    return open();
  } catch (const std::bad_alloc&) {
    return fail(ErrorCode::out_of_memory, path, "no memory for the metadata");
  } catch (const std::length_error&) {
    return fail(ErrorCode::out_of_memory, path, "no memory for the metadata");
  }
}

}  // namespace

Result<std::unique_ptr<WeightSource>> open_gguf(const std::string& path) {
  return guarded(path, [&] { return open_path(path); });
}

Result<std::unique_ptr<WeightSource>> gguf_from_bytes(std::span<const std::byte> bytes,
                                                      const std::string& name) {
  return guarded(name, [&]() -> Result<std::unique_ptr<WeightSource>> {
    LoadedPart loaded;
    loaded.part.path = name;
    loaded.part.bytes = bytes;
    GYRE_ASSIGN(loaded.header, gguf::read_header(bytes, name));
    GYRE_ASSIGN(loaded.split, read_split(loaded.header, name));
    if (loaded.split.count > 1)
      return fail(ErrorCode::unsupported, name + ": split.count",
                  std::to_string(loaded.split.count), "a whole model");
    return open_one(std::move(loaded));
  });
}

}  // namespace gyre::loaders
