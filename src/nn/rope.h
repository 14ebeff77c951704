// Rotary position tables: cosine and sine of position * frequency, in f32.
//
// Computed by our own double code (numerics/rope_math.h), so they depend on the model's rope
// parameters, the load options and the position only: never on libm or on the current length.
// Frequencies of pair i: base^(-2i/d), then the scaling:
//   linear    position / factor
//   yarn      NTK-by-parts ramp between interpolated and original frequencies, and a magnitude
//             factor on cosine and sine (Peng et al., 2023, arXiv 2309.00071)
//   factors   frequency / factors[i], from a tensor (llama3's rope_freqs, longrope's long or short)
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/rows.h"

namespace gyre::nn {

enum class RopeScaling : uint8_t { none, linear, yarn };

struct RopeSpec {
  kernels::RopeStyle style = kernels::RopeStyle::halves;
  uint32_t pairs = 0;  // rotated elements of a head / 2
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1.0;
  double original_context = 0.0;             // yarn
  double beta_fast = 32.0, beta_slow = 1.0;  // yarn
  double magnitude = 1.0;                    // on cosine and sine; yarn multiplies its own
  std::vector<float> factors;                // [pairs] or empty

  Status validate() const;
};

class RopeTable {
 public:
  explicit RopeTable(RopeSpec spec);

  const RopeSpec& spec() const { return spec_; }
  // Makes positions [0, end) readable; grows by whole blocks, in parallel. Not thread-safe.
  Status reserve(uint32_t end, ThreadPool& pool);
  const float* cosine(uint32_t position) const { return block(position); }
  const float* sine(uint32_t position) const { return block(position) + spec_.pairs; }
  size_t bytes() const;

 private:
  static constexpr uint32_t kBlock = 64;  // positions
  const float* block(uint32_t position) const {
    return blocks_[position / kBlock].get() + size_t{position % kBlock} * 2 * spec_.pairs;
  }
  RopeSpec spec_;
  std::vector<double> frequencies_;  // [pairs]
  double magnitude_ = 1.0;
  std::vector<std::unique_ptr<float[]>> blocks_;
};

}  // namespace gyre::nn
