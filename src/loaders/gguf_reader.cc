#include "loaders/gguf_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <unordered_set>

#include "loaders/gguf_cursor.h"
#include "loaders/gguf_format.h"

namespace gyre::loaders::gguf {
namespace {

// Names in error texts stay short, whatever a file holds.
std::string shorten(std::string_view text) {
  constexpr size_t kShown = 80;
  return text.size() <= kShown ? std::string(text) : std::string(text.substr(0, kShown)) + "...";
}

std::string describe_type(uint32_t number) {
  const auto foreign = foreign_type_name(number);
  return foreign.empty() ? "unknown ggml type " + std::to_string(number)
                         : std::string(foreign) + " (ggml type " + std::to_string(number) + ")";
}

std::string supported_types() {
  std::string list;
  for (DType dtype : kAllDTypes) list.append(list.empty() ? "one of " : " ").append(name(dtype));
  return list;
}

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), path_(path), cursor_(bytes) {}

  Result<Header> run() {
    GYRE_TRY(read_start());
    GYRE_TRY(read_metadata());
    GYRE_TRY(read_alignment());
    GYRE_TRY(read_tensors());
    GYRE_TRY(place_tensors());
    return std::move(header_);
  }

 private:
  Error bad(std::string_view field, std::string_view value, std::string_view expected,
            ErrorCode code = ErrorCode::bad_file) const {
    return fail(code, path_ + ": " + std::string(field), value, expected);
  }
  Error too_many(std::string_view field, uint64_t count, const char* unit, uint64_t most) const {
    return bad(field, std::to_string(count) + unit,
               "at most " + std::to_string(most) + " in a file of this size");
  }
  Error truncated(std::string_view field) const {
    return bad(field, "the file ends at byte " + std::to_string(bytes_.size()),
               "more bytes (the field starts at byte " + std::to_string(cursor_.at()) + ")");
  }

  // A string's length is checked on its own, so that the error can name it.
  Status take_string(std::string_view* out, const std::string& field) {
    uint64_t size = 0;
    if (!cursor_.take(&size)) return truncated(field);
    if (!cursor_.take_text(size, out)) return string_too_long(size, field);
    return {};
  }
  Error string_too_long(uint64_t size, const std::string& field) const {
    return bad(field, "string of " + std::to_string(size) + " bytes",
               "at most " + std::to_string(cursor_.left()) + " in a file of this size");
  }

  Status read_start();
  Status read_metadata();
  Result<MetaValue> read_value(uint32_t type, const std::string& field);
  Result<MetaValue> read_array(const std::string& field);
  Result<MetaValue> read_strings(uint64_t count, const std::string& field);
  template <class T, class Wide>
  Result<MetaValue> read_number(const std::string& field);
  template <class T, class Wide>
  Result<MetaValue> read_numbers(uint64_t count, const std::string& field);
  Result<bool> read_bool(const std::string& field);
  Status read_alignment();
  Status read_tensors();
  Status read_tensor(const std::string& tensor_name);
  Status read_dims(const std::string& field, TensorInfo* info);
  Status read_bytes(const std::string& field, TensorInfo* info);
  Status place_tensors();

  std::span<const std::byte> bytes_;
  const std::string& path_;
  Cursor cursor_;
  Header header_;
  uint64_t tensor_count_ = 0;
  uint64_t pair_count_ = 0;
};

Status Parser::read_start() {
  std::string_view magic;
  if (!cursor_.take_text(kMagic.size(), &magic)) return truncated("magic");
  if (magic != kMagic) {
    std::string hex = "bytes";
    for (char c : magic) {
      const auto byte = static_cast<unsigned char>(c);
      hex.append({' ', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]});
    }
    return bad("magic", hex, "GGUF (47 47 55 46)");
  }
  if (!cursor_.take(&header_.version)) return truncated("version");
  if (header_.version != 0 && (header_.version & 0xffff) == 0)
    return bad("byte order", "big-endian", "a little-endian file", ErrorCode::unsupported);
  if (header_.version < kOldestVersion || header_.version > kNewestVersion)
    return bad("version", std::to_string(header_.version), "2 or 3", ErrorCode::unsupported);
  if (!cursor_.take(&tensor_count_)) return truncated("tensor count");
  if (!cursor_.take(&pair_count_)) return truncated("metadata count");
  if (pair_count_ > cursor_.left() / kSmallestPair)
    return bad(
        "metadata count", std::to_string(pair_count_),
        "at most " + std::to_string(cursor_.left() / kSmallestPair) + " in a file of this size");
  if (tensor_count_ > cursor_.left() / kSmallestTensor)
    return bad(
        "tensor count", std::to_string(tensor_count_),
        "at most " + std::to_string(cursor_.left() / kSmallestTensor) + " in a file of this size");
  return {};
}

Status Parser::read_metadata() {
  std::unordered_set<std::string_view> seen;  // views into the file
  for (uint64_t i = 0; i < pair_count_; ++i) {
    const std::string field = "metadata key " + std::to_string(i);
    std::string_view key;
    GYRE_TRY(take_string(&key, field));
    if (key.empty() || key.size() > kMaxKeyBytes)
      return bad(field, std::to_string(key.size()) + " bytes", "1 to 65535 bytes");
    if (!seen.insert(key).second)
      return bad("metadata", "duplicate key " + shorten(key), "each key once");
    uint32_t type = 0;
    if (!cursor_.take(&type)) return truncated("metadata " + shorten(key));
    GYRE_ASSIGN(MetaValue value, read_value(type, "metadata " + shorten(key)));
    header_.metadata.emplace_back(std::string(key), std::move(value));
  }
  return {};
}

template <class T, class Wide>
Result<MetaValue> Parser::read_number(const std::string& field) {
  T value{};
  if (!cursor_.take(&value)) return truncated(field);
  return MetaValue(Wide{value});
}

template <class T, class Wide>
Result<MetaValue> Parser::read_numbers(uint64_t count, const std::string& field) {
  if (count > cursor_.left() / sizeof(T))
    return too_many(field, count, " array elements", cursor_.left() / sizeof(T));
  std::vector<Wide> values(count);
  for (Wide& wide : values) {
    T value{};
    if (!cursor_.take(&value)) return truncated(field);
    wide = value;
  }
  return MetaValue(std::move(values));
}

Result<bool> Parser::read_bool(const std::string& field) {
  uint8_t value = 0;
  if (!cursor_.take(&value)) return truncated(field);
  if (value > 1) return bad(field, "bool " + std::to_string(value), "0 or 1");
  return value == 1;
}

Result<MetaValue> Parser::read_value(uint32_t type, const std::string& field) {
  if (type >= kValueTypes) return bad(field, "value type " + std::to_string(type), "0 to 12");
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return read_number<uint8_t, uint64_t>(field);
    case ValueType::i8:
      return read_number<int8_t, int64_t>(field);
    case ValueType::u16:
      return read_number<uint16_t, uint64_t>(field);
    case ValueType::i16:
      return read_number<int16_t, int64_t>(field);
    case ValueType::u32:
      return read_number<uint32_t, uint64_t>(field);
    case ValueType::i32:
      return read_number<int32_t, int64_t>(field);
    case ValueType::f32:
      return read_number<float, double>(field);
    case ValueType::u64:
      return read_number<uint64_t, uint64_t>(field);
    case ValueType::i64:
      return read_number<int64_t, int64_t>(field);
    case ValueType::f64:
      return read_number<double, double>(field);
    case ValueType::array:
      return read_array(field);
    case ValueType::boolean: {
      GYRE_ASSIGN(const bool value, read_bool(field));
      return MetaValue(value);
    }
    case ValueType::string: {
      std::string_view text;
      GYRE_TRY(take_string(&text, field));
      return MetaValue(std::string(text));
    }
  }
  return fail(ErrorCode::internal, field, "unhandled value type");
}

Result<MetaValue> Parser::read_array(const std::string& field) {
  uint32_t type = 0;
  uint64_t count = 0;
  if (!cursor_.take(&type) || !cursor_.take(&count)) return truncated(field);
  if (type >= kValueTypes)
    return bad(field, "array element type " + std::to_string(type), "0 to 12");
  switch (static_cast<ValueType>(type)) {
    case ValueType::u8:
      return read_numbers<uint8_t, uint64_t>(count, field);
    case ValueType::i8:
      return read_numbers<int8_t, int64_t>(count, field);
    case ValueType::u16:
      return read_numbers<uint16_t, uint64_t>(count, field);
    case ValueType::i16:
      return read_numbers<int16_t, int64_t>(count, field);
    case ValueType::u32:
      return read_numbers<uint32_t, uint64_t>(count, field);
    case ValueType::i32:
      return read_numbers<int32_t, int64_t>(count, field);
    case ValueType::f32:
      return read_numbers<float, double>(count, field);
    case ValueType::u64:
      return read_numbers<uint64_t, uint64_t>(count, field);
    case ValueType::i64:
      return read_numbers<int64_t, int64_t>(count, field);
    case ValueType::f64:
      return read_numbers<double, double>(count, field);
    case ValueType::string:
      return read_strings(count, field);
    case ValueType::array:
      return bad(field, "an array of arrays", "an array of plain values", ErrorCode::unsupported);
    case ValueType::boolean: {
      if (count > cursor_.left()) return too_many(field, count, " array elements", cursor_.left());
      std::vector<bool> values;
      for (uint64_t i = 0; i < count; ++i) {
        GYRE_ASSIGN(const bool value, read_bool(field));
        values.push_back(value);
      }
      return MetaValue(std::move(values));
    }
  }
  return fail(ErrorCode::internal, field, "unhandled value type");
}

Result<MetaValue> Parser::read_strings(uint64_t count, const std::string& field) {
  constexpr size_t kSmallest = sizeof(uint64_t);
  if (count > cursor_.left() / kSmallest)
    return too_many(field, count, " array elements", cursor_.left() / kSmallest);
  std::vector<std::string> values;
  values.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view text;
    if (!cursor_.take_string(&text))  // the same again fails again, with the element's name
      return take_string(&text, field + "[" + std::to_string(i) + "]").error();
    values.emplace_back(text);
  }
  return MetaValue(std::move(values));
}

Status Parser::read_alignment() {
  header_.alignment = kDefaultAlignment;
  const MetaValue* value = find(header_, kAlignmentKey);
  if (value == nullptr) return {};
  const auto* number = std::get_if<uint64_t>(value);
  if (number == nullptr) return bad(kAlignmentKey, describe(*value), "an unsigned integer");
  const bool power_of_two = *number != 0 && (*number & (*number - 1)) == 0;
  if (!power_of_two || *number < kMinAlignment || *number > kMaxAlignment)
    return bad(kAlignmentKey, std::to_string(*number), "a power of two from 8 to 2^30");
  header_.alignment = static_cast<uint32_t>(*number);
  return {};
}

Status Parser::read_tensors() {
  std::unordered_set<std::string_view> seen;
  for (uint64_t i = 0; i < tensor_count_; ++i) {
    const std::string field = "tensor " + std::to_string(i) + ": name";
    std::string_view tensor_name;
    GYRE_TRY(take_string(&tensor_name, field));
    if (tensor_name.empty() || tensor_name.size() > kMaxNameBytes)
      return bad(field, std::to_string(tensor_name.size()) + " bytes", "1 to 255 bytes");
    if (!seen.insert(tensor_name).second)
      return bad("tensor table", "duplicate tensor " + shorten(tensor_name), "each name once");
    GYRE_TRY(read_tensor(std::string(tensor_name)));
  }
  return {};
}

Status Parser::read_tensor(const std::string& tensor_name) {
  const std::string field = "tensor " + shorten(tensor_name);
  TensorInfo info;
  info.name = tensor_name;
  GYRE_TRY(read_dims(field, &info));
  uint32_t type = 0;
  if (!cursor_.take(&type)) return truncated(field + ": type");
  const std::optional<DType> dtype = dtype_from_gguf(type);
  if (!dtype)
    return bad(field + ": type", describe_type(type), supported_types(), ErrorCode::unsupported);
  info.dtype = *dtype;
  GYRE_TRY(read_bytes(field, &info));
  if (!cursor_.take(&info.offset)) return truncated(field + ": offset");
  header_.tensors.push_back(std::move(info));
  return {};
}

Status Parser::read_dims(const std::string& field, TensorInfo* info) {
  uint32_t count = 0;
  if (!cursor_.take(&count)) return truncated(field + ": dimensions");
  if (count < 1 || count > kMaxDims)
    return bad(field + ": dimensions", std::to_string(count), "1 to 4");
  info->shape.resize(count);
  // The file's order is innermost first, ours outermost first.
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t& size = info->shape[count - 1 - i];
    if (!cursor_.take(&size)) return truncated(field + ": dimensions");
    if (size == 0) return bad(field + ": dimension " + std::to_string(i), "0", "at least 1");
  }
  return {};
}

Status Parser::read_bytes(const std::string& field, TensorInfo* info) {
  const DTypeInfo& type = gyre::info(info->dtype);
  const uint64_t cols = info->shape.back();
  uint64_t rows = 1;
  std::string product;
  bool fits = true;
  for (size_t i = info->shape.size() - 1; i-- > 0;) {
    product.append(product.empty() ? "" : " x ").append(std::to_string(info->shape[i]));
    fits = fits && !__builtin_mul_overflow(rows, info->shape[i], &rows) && rows <= kMaxRows;
  }
  if (!fits) return bad(field + ": rows", product, "a product of at most 4294967295");
  if (cols > kMaxRows)
    return bad(field + ": row length", std::to_string(cols), "at most 4294967295");
  if (cols % type.block != 0)
    return bad(field + ": row length", std::to_string(cols),
               "a multiple of " + std::to_string(type.block) + " for " + std::string(type.name));
  if (__builtin_mul_overflow(rows, uint64_t{row_bytes(info->dtype, cols)}, &info->bytes) ||
      info->bytes > bytes_.size())
    return bad(field, std::to_string(rows) + " rows of " + std::to_string(cols),
               "at most the file's " + std::to_string(bytes_.size()) + " bytes");
  return {};
}

// Offsets in the file count from the data section; ours from the file's start.
Status Parser::place_tensors() {
  const uint64_t alignment = header_.alignment;
  header_.data_begin = (cursor_.at() + alignment - 1) / alignment * alignment;
  if (header_.tensors.empty()) {
    header_.data_begin = std::min<uint64_t>(header_.data_begin, bytes_.size());
    return {};
  }
  if (header_.data_begin > bytes_.size()) return truncated("tensor data");
  const uint64_t room = bytes_.size() - header_.data_begin;
  std::vector<const TensorInfo*> by_place;
  for (TensorInfo& info : header_.tensors) {
    const std::string field = "tensor " + shorten(info.name) + ": offset";
    if (info.offset % alignment != 0)
      return bad(field, std::to_string(info.offset), "a multiple of " + std::to_string(alignment));
    if (info.offset > room || info.bytes > room - info.offset)
      return bad(field,
                 std::to_string(info.offset) + " with " + std::to_string(info.bytes) + " bytes",
                 "an end within the " + std::to_string(room) + " bytes of tensor data");
    info.offset += header_.data_begin;
    by_place.push_back(&info);
  }
  std::sort(by_place.begin(), by_place.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const TensorInfo &before = *by_place[i - 1], &after = *by_place[i];
    if (before.offset + before.bytes > after.offset)
      return bad("tensor " + shorten(after.name) + ": offset",
                 std::to_string(after.offset - header_.data_begin) + " overlaps tensor " +
                     shorten(before.name),
                 "at least " + std::to_string(before.offset + before.bytes - header_.data_begin));
  }
  return {};
}

}  // namespace

Result<Header> read_header(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).run();
}

const MetaValue* find(const Header& header, std::string_view key) {
  for (const auto& [name, value] : header.metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

}  // namespace gyre::loaders::gguf
