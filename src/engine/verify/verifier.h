// The run behind verify(): its state, and one method for each axis.
//
// Axes that concern the machine (chunk, neighbours, threads, isa, placement, pack) use the first
// scheme under test; the others use all of them, most of them side by side in the same steps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "engine/verify.h"
#include "engine/verify/rows.h"

namespace gyre::engine::verification {

struct TestScheme {
  std::string name;
  kv::KvScheme scheme;
};

class Verifier {
 public:
  explicit Verifier(const VerifySettings& settings) : settings_(settings) {}

  Result<VerifyReport> run();

 private:
  static constexpr uint32_t kChunk = 256;
  using Runners = Result<std::unique_ptr<Runner>>;

  Status choose_schemes();
  Status base_digests();

  // schedules.cc: the contract's axes of the machine and the schedule
  Status chunks();
  Status neighbours();
  Status threads();
  Status isas();
  Status placement();
  Status packing();
  // codes.cc: schemes by chunk and by instruction set
  Status schemes();
  Status kernels();
  // membership.cc
  Status membership();
  Status ring();
  // time.cc: rounds, clones, state files
  Status rollback();
  Status clones();
  Status restores();

  Runners runner(Loaded& loaded, uint32_t max_tokens, uint32_t rows, uint64_t placement_seed = 0);
  // The digest of a text alone in `run`, in steps of `chunk`.
  Result<std::string> digest_of(Runner& run, const kv::KvScheme& scheme,
                                std::span<const TokenId> text, uint32_t chunk);
  // The digest of the first scheme on another load of the model.
  Result<std::string> digest_with(const LoadSettings& load, std::span<const TokenId> text);
  // What ids_[first, first + length) gives alone in steps of kChunk; computed once.
  Result<std::string> expected(const TestScheme& scheme, uint32_t first, uint32_t length);

  Status compare(VerifyAxis& axis, const std::string& what, const Result<std::string>& digest,
                 const Result<std::string>& wanted);
  void note(VerifyAxis& axis, const std::string& what, bool same);
  void finish(VerifyAxis axis) { report_.axes.push_back(std::move(axis)); }

  std::span<const TokenId> text(uint32_t first, uint32_t length) const {
    return std::span<const TokenId>(ids_).subspan(first, length);
  }
  uint32_t size() const { return static_cast<uint32_t>(ids_.size()); }
  const TestScheme& first_scheme() const { return schemes_.front(); }

  const VerifySettings& settings_;
  std::unique_ptr<Loaded> loaded_;
  std::unique_ptr<Runner> alone_;  // one row, kChunk tokens
  std::vector<TokenId> ids_;
  std::vector<TestScheme> schemes_;
  std::map<std::tuple<std::string, uint32_t, uint32_t>, std::string> expected_;
  VerifyReport report_;
};

}  // namespace gyre::engine::verification
