// The search for formats with minima.
#include <algorithm>
#include <cmath>

#include "quant/quantise.h"

namespace gyre::quant {
namespace {

// weight = scale * code - min
struct Line {
  double scale = 0, min = 0;
};

// Codes of x under one line, with the sums that least squares needs.
struct LineFit {
  uint8_t code[kMaxBlock];
  double error = 0;
  double code_sum = 0, code_square = 0, product = 0;
};

void fit(int code_max, const float* x, uint32_t n, Line line, LineFit& out) {
  const double inverse = line.scale == 0 ? 0 : 1 / line.scale;
  out.error = out.code_sum = out.code_square = out.product = 0;
  for (uint32_t i = 0; i < n; ++i) {
    const int q = round_clamped((x[i] + line.min) * inverse, 0, code_max);
    const double rest = x[i] - (line.scale * q - line.min);
    out.code[i] = static_cast<uint8_t>(q);
    out.error += rest * rest;
    out.code_sum += q;
    out.code_square += static_cast<double>(q) * q;
    out.product += static_cast<double>(x[i]) * q;
  }
}

// Least squares for given codes; both parts are at least 0, as their fields in a file are.
Line best_line(const LineFit& f, double x_sum, uint32_t n) {
  const double determinant = n * f.code_square - f.code_sum * f.code_sum;
  if (determinant <= 0) return {0, std::max(0.0, -x_sum / n)};
  Line line;
  line.scale = (n * f.product - f.code_sum * x_sum) / determinant;
  line.min = (f.code_sum * f.product - f.code_square * x_sum) / determinant;
  if (line.min < 0) line = {f.product / f.code_square, 0};
  line.scale = std::max(line.scale, 0.0);
  return line;
}

// Candidates span the values' range with 0.7 to 1.24 times the codes, then are improved once.
Line find_line(int code_max, const float* x, uint32_t n) {
  double low = 0, high = x[0], x_sum = 0;
  for (uint32_t i = 0; i < n; ++i) {
    low = std::min<double>(low, x[i]);
    high = std::max<double>(high, x[i]);
    x_sum += x[i];
  }
  Line best{0, -low};
  if (high <= low) return best;
  double best_error = INFINITY;
  LineFit trial;
  for (int c = 0; c < kCandidates; ++c) {
    Line line{(high - low) / (code_max * candidate(c)), -low};
    for (int round = 0; round < 3; ++round) {
      fit(code_max, x, n, line, trial);
      if (trial.error < best_error) {
        best_error = trial.error;
        best = line;
      }
      line = best_line(trial, x_sum, n);
    }
  }
  return best;
}

double place(uint32_t group, int code_max, int sub_max, const float* x, const Line* line, float d,
             float dmin, Codes& out) {
  out.d = d;
  out.dmin = dmin;
  double total = 0;
  for (uint32_t g = 0; g < kMaxBlock / group; ++g) {
    const int scale_mid = d == 0 ? 0 : round_clamped(line[g].scale / d, 0, sub_max);
    const int min_mid = dmin == 0 ? 0 : round_clamped(line[g].min / dmin, 0, sub_max);
    double best_error = INFINITY;
    LineFit trial;
    for (int s = std::max(scale_mid - 1, 0); s <= std::min(scale_mid + 1, sub_max); ++s) {
      for (int m = std::max(min_mid - 1, 0); m <= std::min(min_mid + 1, sub_max); ++m) {
        const Line rounded{static_cast<double>(d) * s, static_cast<double>(dmin) * m};
        fit(code_max, x + g * group, group, rounded, trial);
        if (trial.error >= best_error) continue;
        best_error = trial.error;
        out.sub_scale[g] = static_cast<int16_t>(s);
        out.sub_min[g] = static_cast<int16_t>(m);
        std::copy_n(trial.code, group, out.code + g * group);
      }
    }
    total += best_error;
  }
  return total;
}

// d and dmin of least squared error for the codes and sub scales as they are: x = d a - dmin b.
Line refit_d(uint32_t group, const float* x, const Codes& codes) {
  double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
  for (uint32_t k = 0; k < kMaxBlock; ++k) {
    const uint32_t g = k / group;
    const double a = codes.sub_scale[g] * codes.code[k];
    const double b = codes.sub_min[g];
    aa += a * a;
    ab += a * b;
    bb += b * b;
    ax += a * x[k];
    bx += b * x[k];
  }
  const double determinant = aa * bb - ab * ab;
  if (determinant <= 0) return {codes.d, codes.dmin};
  return {(ax * bb - bx * ab) / determinant, (ax * ab - bx * aa) / determinant};
}

}  // namespace

void search_super_with_min(uint32_t group, int code_max, int sub_max, const float* x, Codes& out) {
  Line line[kMaxGroups], widest;
  for (uint32_t g = 0; g < kMaxBlock / group; ++g) {
    line[g] = find_line(code_max, x + g * group, group);
    widest = {std::max(widest.scale, line[g].scale), std::max(widest.min, line[g].min)};
  }
  const float d = round_to_f16(widest.scale / sub_max), dmin = round_to_f16(widest.min / sub_max);
  double error = place(group, code_max, sub_max, x, line, d, dmin, out);
  for (int round = 0; round < 2; ++round) {
    Codes trial = out;
    const Line refit = refit_d(group, x, out);
    const double trial_error = place(group, code_max, sub_max, x, line, round_to_f16(refit.scale),
                                     round_to_f16(refit.min), trial);
    if (trial_error >= error) break;
    error = trial_error;
    out = trial;
  }
}

}  // namespace gyre::quant
