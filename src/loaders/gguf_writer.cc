#include "loaders/gguf_writer.h"

#include <algorithm>
#include <utility>

#include "loaders/gguf_reader.h"

namespace gyre::loaders {
namespace {

class Bytes {
 public:
  template <class T>
  void put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    all_.insert(all_.end(), begin, begin + sizeof value);
  }
  void put_text(std::string_view text) {
    const auto* begin = reinterpret_cast<const std::byte*>(text.data());
    all_.insert(all_.end(), begin, begin + text.size());
  }
  void put_bytes(std::span<const std::byte> bytes) {
    all_.insert(all_.end(), bytes.begin(), bytes.end());
  }
  void pad_to(uint64_t alignment) {
    all_.resize((all_.size() + alignment - 1) / alignment * alignment);
  }
  std::vector<std::byte> take() { return std::move(all_); }

 private:
  std::vector<std::byte> all_;
};

// Bytes of a tensor with this shape; 0 for a shape that no file can hold (the reader names the
// reason when the whole is read back).
uint64_t expected_bytes(DType dtype, std::span<const uint64_t> shape) {
  uint64_t elements = 1;
  for (const uint64_t size : shape) {
    if (__builtin_mul_overflow(elements, size, &elements)) return 0;
  }
  if (elements > ~uint64_t{0} / info(dtype).bytes) return 0;
  return elements / info(dtype).block * info(dtype).bytes;
}

}  // namespace

void GgufWriter::put_string(std::string_view text) {
  put(static_cast<uint64_t>(text.size()));
  metadata_.append(text);
}

void GgufWriter::begin_pair(std::string_view key, gguf::ValueType type) {
  ++pairs_;
  put_string(key);
  put(type);
}

void GgufWriter::begin_array(std::string_view key, gguf::ValueType type, uint64_t count) {
  begin_pair(key, gguf::ValueType::array);
  put(type);
  put(count);
}

void GgufWriter::add(std::string_view key, std::string_view value) {
  begin_pair(key, gguf::ValueType::string);
  put_string(value);
}

void GgufWriter::add_array(std::string_view key, std::span<const std::string> values) {
  begin_array(key, gguf::ValueType::string, values.size());
  for (const std::string& value : values) put_string(value);
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::vector<uint64_t> shape,
                            std::span<const std::byte> bytes) {
  tensors_.push_back({std::string(name), dtype, std::move(shape), bytes});
}

Result<std::vector<std::byte>> GgufWriter::finish() const {
  // The reader checks the rest when the whole is read back; this one is divided by first.
  if (alignment_ == 0 || alignment_ > gguf::kMaxAlignment)
    return fail(ErrorCode::usage, "GGUF writer: general.alignment", std::to_string(alignment_),
                "a power of two from 8 to 2^30");
  Bytes out;
  out.put_text(gguf::kMagic);
  out.put(version_);
  out.put(static_cast<uint64_t>(tensors_.size()));
  out.put(pairs_);
  out.put_text(metadata_);
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const uint64_t expected = expected_bytes(tensor.dtype, tensor.shape);
    if (tensor.bytes.size() != expected)
      return fail(ErrorCode::usage, "GGUF writer: tensor " + tensor.name,
                  std::to_string(tensor.bytes.size()) + " bytes", std::to_string(expected));
    out.put(static_cast<uint64_t>(tensor.name.size()));
    out.put_text(tensor.name);
    out.put(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i > 0; --i) out.put(tensor.shape[i - 1]);
    out.put(info(tensor.dtype).gguf_type);
    out.put(offset);
    offset += (tensor.bytes.size() + alignment_ - 1) / alignment_ * alignment_;
  }
  out.pad_to(alignment_);
  for (const Tensor& tensor : tensors_) {
    out.put_bytes(tensor.bytes);
    out.pad_to(alignment_);
  }
  std::vector<std::byte> file = out.take();
  if (auto read_back = gguf::read_header(file, "GGUF writer"); !read_back)
    return std::move(read_back).error();
  return file;
}

}  // namespace gyre::loaders
