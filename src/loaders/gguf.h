// GGUF files as a WeightSource: one file, or all parts of a split model.
//
// The source owns the read-only mappings. Nothing is copied but the metadata and the tensor table.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "loaders/weight_source.h"

namespace gyre::loaders {

// `path`: a .gguf file, or any part of a split model (`name-00002-of-00003.gguf`).
Result<std::unique_ptr<WeightSource>> open_gguf(const std::string& path);

// The same checks on one file's bytes in memory, which must outlive the source and be aligned as a
// mapping would be (tests, fuzzing). `name` stands for the path in error texts.
Result<std::unique_ptr<WeightSource>> gguf_from_bytes(std::span<const std::byte> bytes,
                                                      const std::string& name);

}  // namespace gyre::loaders
