#include "loaders/gguf.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <optional>
#include <stdexcept>

#include "base/memory.h"
#include "loaders/gguf_format.h"
#include "loaders/gguf_source.h"

namespace gyre::loaders {
namespace {

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
    return fail(ErrorCode::bad_file, path + ": " + std::string(key), describe(*value),
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
    if (name.number < 1 || name.number > name.count) return std::nullopt;
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
  std::string path;
  os::MappedFile file;
  std::span<const std::byte> bytes;
  gguf::Header header;
  Split split;
};

Result<LoadedPart> load_part(const std::string& path) {
  LoadedPart loaded;
  GYRE_ASSIGN(loaded.file, os::MappedFile::open(path));
  loaded.path = path;
  loaded.bytes = loaded.file.bytes();
  GYRE_ASSIGN(loaded.header, gguf::read_header(loaded.bytes, path));
  GYRE_ASSIGN(loaded.split, read_split(loaded.header, path));
  return loaded;
}

Status add_part(GgufSource* source, LoadedPart loaded) {
  return source->add(std::move(loaded.path), std::move(loaded.file), loaded.bytes,
                     std::move(loaded.header));
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
  const std::string asked_path = asked.path;
  auto source = std::make_unique<GgufSource>();
  Split split = asked.split;
  for (uint64_t i = 1; i <= name.count; ++i) {
    LoadedPart other;
    LoadedPart* part = &asked;
    if (i != name.number) {
      GYRE_ASSIGN(other, load_part(name.path_of(i)));
      part = &other;
    }
    PartName own = name;
    own.number = i;
    GYRE_TRY(check_name(part->split, own, part->path));
    GYRE_TRY(add_part(source.get(), std::move(*part)));
  }
  GYRE_TRY(source->finish());
  GYRE_TRY(check_tensor_count(*source, split, asked_path));
  return std::unique_ptr<WeightSource>(std::move(source));
}

Result<std::unique_ptr<WeightSource>> open_one(LoadedPart loaded) {
  const std::string path = loaded.path;
  const Split split = loaded.split;
  auto source = std::make_unique<GgufSource>();
  GYRE_TRY(add_part(source.get(), std::move(loaded)));
  GYRE_TRY(source->finish());
  GYRE_TRY(check_tensor_count(*source, split, path));
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
    if (allocation_must_fail()) throw std::bad_alloc();
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
    loaded.path = name;
    loaded.bytes = bytes;
    GYRE_ASSIGN(loaded.header, gguf::read_header(bytes, name));
    GYRE_ASSIGN(loaded.split, read_split(loaded.header, name));
    if (loaded.split.count > 1)
      return fail(ErrorCode::unsupported, name + ": split.count",
                  std::to_string(loaded.split.count), "a whole model");
    return open_one(std::move(loaded));
  });
}

}  // namespace gyre::loaders
