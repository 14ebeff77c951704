// One GGUF file's bytes -> metadata and a checked tensor table.
//
// Every number is checked against the bytes that are there before it becomes a size or an index, so
// memory use is bounded by a small multiple of the file's size. The table's offsets and sizes lie
// inside the file, do not overlap and are aligned. docs/formats/gguf.md lists every refusal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "loaders/weight_source.h"

namespace gyre::loaders::gguf {

struct Header {
  uint32_t version = 0;
  uint32_t alignment = 0;
  std::vector<std::pair<std::string, MetaValue>> metadata;  // in the file's order, keys unique
  std::vector<TensorInfo> tensors;                          // in the file's order, names unique
  uint64_t data_begin = 0;  // bytes before it are the header; offsets count from the file's start
};

// `path` is only for error texts.
Result<Header> read_header(std::span<const std::byte> bytes, const std::string& path);

const MetaValue* find(const Header& header, std::string_view key);

}  // namespace gyre::loaders::gguf
