// The search for formats without minima.
#include <algorithm>
#include <cmath>

#include "quant/format.h"
#include "quant/quantise.h"

namespace gyre::quant {
namespace {

int nearest(const Levels& levels, double t) {
  if (levels.codebook == nullptr) return round_clamped(t, levels.lo, levels.hi);
  int index = 0;
  for (int i = 1; i < 16; ++i)
    index += 2 * (t + levels.zero) >= levels.codebook[i - 1] + levels.codebook[i];
  return levels.codebook[index] - levels.zero;
}

// Levels of x under one scale, and how well they do.
struct Fit {
  int level[kMaxBlock];
  double error = 0;                // sum of (x - scale * level)^2
  double product = 0, square = 0;  // sums of x * level and level^2
  double best_scale() const { return square > 0 ? product / square : 0; }
};

void fit(const Levels& levels, const float* x, uint32_t n, double scale, Fit& out) {
  const double inverse = scale == 0 ? 0 : 1 / scale;
  out.error = out.product = out.square = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int q = nearest(levels, x[i] * inverse);
    const double rest = x[i] - scale * q;
    out.level[i] = q;
    out.error += rest * rest;
    out.product += static_cast<double>(x[i]) * q;
    out.square += static_cast<double>(q) * q;
  }
}

// The scale of least squared error. Candidates place the value of largest magnitude between 0.7
// and 1.24 of the longer arm of the levels (beyond 1 it is clipped); each is then improved once.
double find_scale(const Levels& levels, const float* x, uint32_t n) {
  double extreme = 0;
  for (uint32_t i = 0; i < n; ++i) extreme = std::max<double>(extreme, std::fabs(x[i]));
  if (extreme == 0) return 0;
  const double reach = std::max(-levels.lo, levels.hi);
  double best = 0, best_error = INFINITY;
  Fit trial;
  for (int c = 0; c < 2 * kCandidates; ++c) {
    const double arm = reach * candidate(c / 2);
    double scale = (c % 2 == 0 ? 1 : -1) * extreme / arm;
    for (int round = 0; round < 2; ++round) {
      fit(levels, x, n, scale, trial);
      if (trial.error < best_error) {
        best_error = trial.error;
        best = scale;
      }
      scale = trial.best_scale();
    }
  }
  return best;
}

// Codes and sub scales for a given d; returns the squared error.
double place(const Levels& levels, uint32_t group, int sub_lo, int sub_hi, const float* x,
             const double* scale, float d, Codes& out) {
  out.d = d;
  double total = 0;
  for (uint32_t g = 0; g < kMaxBlock / group; ++g) {
    const int middle = d == 0 ? 0 : round_clamped(scale[g] / d, sub_lo, sub_hi);
    double best_error = INFINITY;
    Fit trial;
    for (int sub = std::max(middle - 1, sub_lo); sub <= std::min(middle + 1, sub_hi); ++sub) {
      fit(levels, x + g * group, group, static_cast<double>(d) * sub, trial);
      if (trial.error >= best_error) continue;
      best_error = trial.error;
      out.sub_scale[g] = static_cast<int16_t>(sub);
      for (uint32_t i = 0; i < group; ++i)
        out.code[g * group + i] = static_cast<uint8_t>(trial.level[i] + levels.zero);
    }
    total += best_error;
  }
  return total;
}

// The d of least squared error for the codes and sub scales as they are.
double refit_d(const Levels& levels, uint32_t group, const float* x, const Codes& codes) {
  double product = 0, square = 0;
  for (uint32_t k = 0; k < kMaxBlock; ++k) {
    const uint32_t g = k / group;
    const double q = codes.sub_scale[g] * (codes.code[k] - levels.zero);
    product += x[k] * q;
    square += q * q;
  }
  return square > 0 ? product / square : 0;
}

}  // namespace

void search_scaled(const Levels& levels, const float* x, Codes& out) {
  out.scale = round_to_f16(find_scale(levels, x, 32));
  Fit chosen;
  fit(levels, x, 32, out.scale, chosen);
  for (int k = 0; k < 32; ++k) out.code[k] = static_cast<uint8_t>(chosen.level[k] + levels.zero);
}

void search_super(const Levels& levels, uint32_t group, int sub_lo, int sub_hi, const float* x,
                  Codes& out) {
  double scale[kMaxGroups], widest = 0;
  for (uint32_t g = 0; g < kMaxBlock / group; ++g) {
    scale[g] = find_scale(levels, x + g * group, group);
    if (std::fabs(scale[g]) > std::fabs(widest)) widest = scale[g];
  }
  double error = place(levels, group, sub_lo, sub_hi, x, scale, round_to_f16(widest / sub_lo), out);
  for (int round = 0; round < 2; ++round) {
    Codes trial = out;
    const float d = round_to_f16(refit_d(levels, group, x, out));
    const double trial_error = place(levels, group, sub_lo, sub_hi, x, scale, d, trial);
    if (trial_error >= error) break;
    error = trial_error;
    out = trial;
  }
}

}  // namespace gyre::quant
