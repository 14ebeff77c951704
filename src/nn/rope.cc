#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "base/memory.h"
#include "numerics/rope_math.h"

namespace gyre::nn {
namespace {

constexpr double kTwoPi = 6.283185307179586476925286766559;

// The pair whose wavelength makes `turns` turns within the original context.
double yarn_pair(const RopeSpec& spec, double turns) {
  return spec.pairs * numerics::log_own(spec.original_context / (turns * kTwoPi)) /
         numerics::log_own(spec.base);
}

// 1 = keep the frequency, 0 = interpolate it fully.
double yarn_keep(const RopeSpec& spec, uint32_t pair) {
  const double low = std::max(0.0, std::floor(yarn_pair(spec, spec.beta_fast)));
  const double high = std::min(spec.pairs * 2.0 - 1.0, std::ceil(yarn_pair(spec, spec.beta_slow)));
  const double ramp = (pair - low) / std::max(0.001, high - low);
  return 1.0 - std::clamp(ramp, 0.0, 1.0);
}

}  // namespace

Status RopeSpec::validate() const {
  auto bad = [](const char* what, double value, const char* expected) {
    return fail(ErrorCode::bad_file, what, std::to_string(value), expected);
  };
  if (pairs == 0 || pairs > 4096) return bad("rope dimension / 2", pairs, "1 to 4096");
  if (!(base > 1.0 && base < 1e12)) return bad("rope base", base, "above 1, below 1e12");
  if (!(factor > 0.0 && factor < 1e6)) return bad("rope scaling factor", factor, "above 0");
  if (!(magnitude > 0.0 && magnitude < 1e3))
    return bad("rope attention factor", magnitude, "above 0");
  if (scaling == RopeScaling::yarn && !(original_context >= 1.0 && original_context < 1e9))
    return bad("rope original context", original_context, "at least 1");
  if (!factors.empty() && factors.size() != pairs)
    return bad("rope factors", static_cast<double>(factors.size()), "one per pair");
  for (float f : factors)
    if (!(f > 0.0f && std::isfinite(f))) return bad("rope factor", f, "a positive number");
  return {};
}

RopeTable::RopeTable(RopeSpec spec) : spec_(std::move(spec)), frequencies_(spec_.pairs) {
  magnitude_ = spec_.magnitude;
  for (uint32_t i = 0; i < spec_.pairs; ++i) {
    double f = numerics::pow_own(spec_.base, -static_cast<double>(i) / spec_.pairs);
    if (!spec_.factors.empty()) f /= spec_.factors[i];
    if (spec_.scaling == RopeScaling::linear) f /= spec_.factor;
    if (spec_.scaling == RopeScaling::yarn) {
      const double keep = yarn_keep(spec_, i);
      f = f / spec_.factor * (1.0 - keep) + f * keep;
    }
    frequencies_[i] = f;
  }
  if (spec_.scaling == RopeScaling::yarn && spec_.factor > 1.0)
    magnitude_ *= 1.0 + 0.1 * numerics::log_own(spec_.factor);
}

Status RopeTable::reserve(uint32_t end, ThreadPool& pool) {
  const size_t have = blocks_.size(), need = (size_t{end} + kBlock - 1) / kBlock;
  if (need <= have) return {};
  const size_t floats = size_t{kBlock} * 2 * spec_.pairs;
  for (size_t b = have; b < need; ++b) {
    std::unique_ptr<float[]> block(allocation_must_fail() ? nullptr
                                                          : new (std::nothrow) float[floats]);
    if (!block) {
      blocks_.resize(have);
      return fail(ErrorCode::out_of_memory, "rope table", std::to_string(floats * 4) + " bytes");
    }
    blocks_.push_back(std::move(block));
  }
  pool.run(need - have, [&](size_t index, int) {
    float* out = blocks_[have + index].get();
    for (uint32_t p = 0; p < kBlock; ++p, out += 2 * spec_.pairs) {
      const double position = static_cast<double>((have + index) * kBlock + p);
      for (uint32_t i = 0; i < spec_.pairs; ++i) {
        double s, c;
        numerics::sincos_own(position * frequencies_[i], &s, &c);
        out[i] = static_cast<float>(c * magnitude_);
        out[spec_.pairs + i] = static_cast<float>(s * magnitude_);
      }
    }
  });
  return {};
}

size_t RopeTable::bytes() const {
  return blocks_.size() * kBlock * 2 * spec_.pairs * sizeof(float);
}

}  // namespace gyre::nn
