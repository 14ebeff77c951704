// The contract as a matrix, run on the user's machine: one text through every schedule that must
// not matter, and the digests compared.
//
// Each KV scheme has its digest: every bit of the residual stream behind the last layer, for all
// positions, and the logits of every 16th position and of the last 16. An axis fails when a case
// differs or when nothing shows that it was exercised. The run itself: verify/verifier.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/loaded.h"
#include "kv/scheme.h"

namespace gyre::engine {

struct VerifySettings {
  LoadSettings load;
  bool quick = false;
  std::optional<kv::KvScheme> scheme;  // only this one; otherwise all that the model can have
  std::function<void(const std::string& axis, const std::string& text)> progress;
};

struct VerifyAxis {
  std::string name;
  uint32_t cases = 0;      // compared with the base digest
  bool exercised = false;  // the axis really varied, see the `evidence`
  bool equal = true;
  std::string evidence;
};

struct VerifyReport {
  std::string model;
  std::vector<std::pair<std::string, std::string>> digests;  // scheme -> digest
  std::vector<std::pair<std::string, std::string>> refused;  // scheme -> why this model has none
  uint32_t positions = 0;
  std::vector<VerifyAxis> axes;
  bool ok() const;
};

Result<VerifyReport> verify(const VerifySettings& settings);

}  // namespace gyre::engine
