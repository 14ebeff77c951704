// Where weights come from: one interface over GGUF files (and later safetensors folders).
//
// A source owns the mapping; views stay valid while it lives. Asking for a tensor states what the
// model expects; a mismatch is an error that names both sides. Every tensor must be used: audit()
// lists the ones nobody asked for. Metadata is a flat key -> value table with GGUF's key names.
// Thread use: lookups from one thread; reading views from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tensor/view.h"

namespace gyre::loaders {

// A metadata value. Integers are widened to 64 bits, f32 to f64; arrays hold one element type.
// Strings are bytes: nothing promises UTF-8.
using MetaValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<bool>,
                               std::vector<int64_t>, std::vector<uint64_t>, std::vector<double>,
                               std::vector<std::string>>;

// For error texts and tables: the kind of value and, unless it is an array, the value itself.
std::string describe(const MetaValue& value);

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<uint64_t> shape;  // outermost first: {rows, cols} for a matrix, {n} for a vector
  uint64_t bytes = 0;
  uint32_t file = 0;    // which split file
  uint64_t offset = 0;  // from the start of that file
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  virtual const std::vector<TensorInfo>& tensors() const = 0;
  virtual const TensorInfo* find(std::string_view name) const = 0;

  // A whole tensor, or rows [row_begin, row_end) of a matrix (for sharding). `shape` is what the
  // model expects, outermost first. Marks the tensor as used.
  virtual Result<TensorView> tensor(std::string_view name, std::span<const uint64_t> shape) = 0;
  virtual Result<TensorView> rows(std::string_view name, std::span<const uint64_t> shape,
                                  uint64_t row_begin, uint64_t row_end) = 0;

  // The bytes of this view will not be read again: the system may drop them from memory. Safe from
  // any thread.
  virtual void release(const TensorView& view) = 0;

  // An error that lists every tensor that was never asked for, unless its name is in `ignored`.
  virtual Status audit(std::span<const std::string_view> ignored = {}) const = 0;

  virtual const MetaValue* meta(std::string_view key) const = 0;
  virtual std::vector<std::string> meta_keys() const = 0;

  // Hash of the files' headers and sizes, with the tensors' sampled bytes: names this model in
  // state files and caches.
  virtual std::string identity() const = 0;
  virtual uint64_t file_bytes() const = 0;  // all files together
  virtual std::vector<std::string> paths() const = 0;

  // Typed metadata with an error that names the key, the value and the expected type.
  Result<uint64_t> get_u64(std::string_view key) const;
  Result<double> get_f64(std::string_view key) const;
  Result<std::string> get_string(std::string_view key) const;
  Result<bool> get_bool(std::string_view key) const;
  // The same with a value for a missing key; a key of the wrong type is still an error.
  Result<uint64_t> get_u64_or(std::string_view key, uint64_t fallback) const;
  Result<double> get_f64_or(std::string_view key, double fallback) const;
  Result<std::string> get_string_or(std::string_view key, std::string fallback) const;
  Result<bool> get_bool_or(std::string_view key, bool fallback) const;
};

// Opens what the path names: a .gguf file (any part of a split one: the others are found beside
// it).
Result<std::unique_ptr<WeightSource>> open_weights(const std::string& path);

}  // namespace gyre::loaders
