// Bytes of the score matrix that a prefill chunk needs where attention is not fused.
//
// A fused kernel exists only for some head sizes; otherwise one layer's scores [heads, queries,
// keys] are stored. What is fused is a table, so that every back end brings its own. The result
// serves memory estimates only. Pure functions.
#pragma once

#include <cstdint>
#include <span>

#include "kv/scheme.h"

namespace gyre::kv {

struct FusedAttention {
  bool every_head_size = false;
  std::span<const uint32_t> head_sizes;  // else: the fused ones
  uint32_t score_bytes = 2;
  uint64_t decode_queries = 8;  // up to so many queries another kernel runs, always fused
};
// Gyre's own kernels on a CPU: chunks of 256 positions for every head size, no score matrix.
inline constexpr FusedAttention kOwnAttention{.every_head_size = true};

struct AttentionShape {
  uint64_t heads = 0;
  uint32_t head_dim = 0;             // of sliding layers
  uint32_t global_head_dim = 0;      // of the others
  uint64_t window = 0;               // 0: sliding layers see everything and count as full
  size_t hidden_layers = 0;          // 0: as many as `types`
  std::span<const LayerType> types;  // layers beyond it are full
};

// The largest layer's bytes (one layer's scores live at a time) for a chunk of a prompt that
// reaches `context` positions; saturates.
uint64_t attention_workspace(const AttentionShape& shape, const FusedAttention& fused,
                             uint64_t chunk, uint64_t context);

}  // namespace gyre::kv
