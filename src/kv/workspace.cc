#include "kv/workspace.h"

#include <algorithm>

#include "kv/saturating.h"

namespace gyre::kv {

uint64_t attention_workspace(const AttentionShape& shape, const FusedAttention& fused,
                             uint64_t chunk, uint64_t context) {
  const uint64_t queries = std::min(chunk, context);
  if (shape.heads == 0 || queries <= fused.decode_queries || fused.every_head_size) return 0;
  const size_t layers = shape.hidden_layers != 0 ? shape.hidden_layers : shape.types.size();
  uint64_t most = 0;
  for (size_t i = 0; i < layers; ++i) {
    const LayerType type = i < shape.types.size() ? shape.types[i] : LayerType::full;
    if (type == LayerType::linear) continue;
    const bool sliding = type == LayerType::sliding && shape.window > 0;
    const uint32_t dim = sliding ? shape.head_dim : shape.global_head_dim;
    if (std::ranges::find(fused.head_sizes, dim) != fused.head_sizes.end()) continue;
    const uint64_t keys =
        sliding ? std::min(context, saturating_add(shape.window, queries)) : context;
    most = std::max(most, saturating_multiply(saturating_multiply(shape.heads, queries),
                                              saturating_multiply(keys, fused.score_bytes)));
  }
  return most;
}

}  // namespace gyre::kv
