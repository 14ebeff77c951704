// Which code each layer's K and V have, and from which position on: what `--kv` selects.
//
// A KvScheme is an immutable value. Its cache key separates state in memory and is what `--kv`
// takes; its persistent key separates state that outlives the process. Layers are described by
// LayerShape; the *cache list* holds the layers that own state (donor readers own none), in order,
// and kv_config.json counts in it. Any thread. Errors: usage (keys, options), bad_file and
// not_found (kv_config.json), unsupported (combinations refused by name).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kv/layer_code.h"
#include "kv/scheme_config.h"

namespace gyre::kv {

enum class LayerType : uint8_t { full, sliding, linear };

// One layer as a scheme sees it.
struct LayerShape {
  LayerType type = LayerType::full;
  uint32_t kv_heads = 0, k_dim = 0, v_dim = 0;
  uint32_t window = 0;       // sliding; 0 bounds nothing
  int donor = -1;            // >= 0: reads that layer's K and V and owns none
  uint64_t state_bytes = 0;  // linear: the recurrent state, whatever the length
};

// Layers [0, count); those beyond `types` are full. `full` and `sliding` give the other fields.
std::vector<LayerShape> make_layers(size_t count, std::span<const LayerType> types,
                                    const LayerShape& full, const LayerShape& sliding);
// The layers that own state, in order.
std::vector<size_t> cache_list(std::span<const LayerShape> layers);

enum class SchemeKind : uint8_t { bf16, affine_uniform, affine_config, turbo, anchored };

// What `describe` counts: the configured storage of the layers that own some.
struct SchemeDescription {
  std::string mode;
  std::vector<std::pair<std::string, uint32_t>> layers;  // code -> layers, by first appearance
  uint32_t global = 0, sliding_window = 0;               // attention layers
  uint32_t recurrent_layers = 0;
  uint32_t shared_layers = 0;  // read a donor; counted nowhere else
};

// What keeps one process's state apart from another's.
struct StateIdentity {
  std::string model;  // the weights' digest
  std::string dtype;  // of what a scale or an uncoded row is stored in
  uint32_t contract_version = 0;
};

// What a command line or a request says, and what stands beside the model.
struct SchemeRequest {
  enum class Override : uint8_t { absent, off, config, bits };
  Override override = Override::absent;
  uint64_t bits = 0;                                   // Override::bits
  std::optional<std::pair<uint64_t, uint64_t>> turbo;  // bits of K and V
  const std::vector<KvConfigEntry>* config = nullptr;  // the model's; null or empty: it has none
  bool missing_config_is_error = true;                 // else bf16
  std::optional<double> start;                         // as a number of JSON
};

class KvScheme {
 public:
  KvScheme() = default;  // bf16

  // `start` = the first position whose query reads codes; 0 unless given.
  static Result<KvScheme> affine_uniform(uint64_t bits, uint64_t group = 64, uint64_t start = 0);
  static Result<KvScheme> affine_config(std::vector<KvConfigEntry> entries, uint64_t start = 0);
  static Result<KvScheme> turbo(uint64_t k_bits, uint64_t v_bits, uint64_t start = 0);
  static Result<KvScheme> anchored(uint64_t k_bits, uint64_t v_bits, uint64_t start = 0);

  static Result<KvScheme> resolve(const SchemeRequest& request);
  // A cache key, exactly as cache_key() writes it; `config` as in SchemeRequest.
  static Result<KvScheme> parse(std::string_view key, const std::vector<KvConfigEntry>* config);

  SchemeKind kind() const { return kind_; }
  uint64_t start() const { return start_; }
  std::span<const KvConfigEntry> entries() const { return entries_; }
  std::string label() const;
  std::string cache_key() const;
  // The cache key with everything else that bits depend on; equal keys = exchangeable state.
  std::string persistent_key(const StateIdentity& identity) const;

  // The code of a layer's K and V from start() on; bf16 for a layer that owns none.
  LayerCode layer_code(std::span<const LayerShape> layers, size_t layer) const;
  // At load: every layer can have its code; config entries name caches that can be coded.
  Status check(std::span<const LayerShape> layers) const;

  SchemeDescription describe(std::span<const LayerShape> layers) const;
  // Bytes of `tokens` stored positions (of min(tokens, window) in a window), exactly, before
  // rounding up to pages; saturates. Up to start() positions are bf16, beyond it all are codes; of
  // an anchored layer positions 0 to 63 stay wide, and from 64 tokens on there is the anchor.
  uint64_t bytes_at(std::span<const LayerShape> layers, uint64_t tokens) const;

  // May rows of this scheme share a batch? `can_convert` says whether the cache at an index of the
  // cache list can be coded; without it only bf16 batches. `delayed_affine`: the batch lets affine
  // rows convert at their own starts.
  bool batchable(std::span<const LayerShape> layers, const std::function<bool(size_t)>& can_convert,
                 bool delayed_affine = false) const;

  bool operator==(const KvScheme&) const = default;

 private:
  static Result<KvScheme> of_one_code(SchemeKind kind, Result<LayerCode> code, uint64_t start);
  const KvConfigEntry* entry_of(size_t cache) const;  // the last one counts

  SchemeKind kind_ = SchemeKind::bf16;
  LayerCode code_;  // of the layers that the kind codes; affine_config has entries instead
  uint64_t start_ = 0;
  std::vector<KvConfigEntry> entries_;
};

}  // namespace gyre::kv
