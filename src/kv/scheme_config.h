// `kv_config.json`, which stands beside a model's weights: the code of single layers.
//
// A JSON array of {"layer_idx": int, "bits": int, "group_size": int}, or, as an extension of ours,
// {"layer_idx": int, "code": name} with a name of layer_code.h: how a rotated code reaches a
// sliding layer. Other members are ignored. layer_idx counts in the cache list (scheme.h). Of two
// entries for one cache the last counts. Errors: bad_file, naming the entry; not_found and io from
// the file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/layer_code.h"

namespace gyre::kv {

struct KvConfigEntry {
  int64_t layer_idx = 0;
  LayerCode code;
  bool operator==(const KvConfigEntry&) const = default;
};

// `name` begins the errors.
Result<std::vector<KvConfigEntry>> parse_kv_config(std::string_view text, const std::string& name);
Result<std::vector<KvConfigEntry>> read_kv_config(const std::string& path);

}  // namespace gyre::kv
