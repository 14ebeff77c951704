// Coded pages and attention over them: what a page holds, who writes which byte, conversion, and
// the reference against double arithmetic over the decoded rows.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fp_env.h"
#include "kernels/attention_check.h"
#include "kernels/codes/affine.h"
#include "kernels/codes/bit_stream.h"
#include "kernels/codes/turbo.h"
#include "kernels/kv_page.h"
#include "numerics/half.h"
#include "numerics/rounding.h"

namespace gyre::kernels {
namespace {

using namespace check;

constexpr uint32_t kBits[] = {2, 3, 4, 5, 6, 8};

LayerCode affine(uint32_t k_bits, uint32_t v_bits, uint32_t group) {
  return affine_code(k_bits, v_bits, group, group);
}
LayerCode turbo(uint32_t k_bits, uint32_t v_bits) {
  return turbo_code(k_bits, v_bits);
}
LayerCode anchored(uint32_t k_bits, uint32_t v_bits) {
  return anchored_code(k_bits, v_bits);
}
std::string name(const KvLayout& layout) {
  return code_name(layout);
}

// Every code, with head sizes that fit it.
std::vector<KvLayout> all_layouts() {
  std::vector<KvLayout> out;
  for (uint32_t bits : kBits) {
    const uint32_t other = bits == 8 ? 3 : bits == 2 ? 8 : bits - 1;
    for (uint32_t group : {32u, 64u, 128u}) {
      out.push_back({2, 128, 256, affine(bits, other, group)});
      if (group <= 64) out.push_back({1, 64, 64, affine(other, bits, group)});
      if (group == 32) out.push_back({1, 96, 96, affine(bits, bits, group)});
      if (group == 64) out.push_back({2, 320, 320, affine(bits, bits, group)});
    }
    for (uint32_t dim : {40u, 64u, 80u, 96u, 128u, 256u, 320u}) {
      out.push_back({2, dim, dim, turbo(bits, other)});
      out.push_back({2, dim, dim == 80 ? 72 : dim, anchored(other, bits)});
    }
  }
  out.push_back({2, 64, 64, kBf16Code});
  out.push_back(KvLayout{2, 80, 80, anchored(4, 4)}.wide());
  return out;
}

Floats random_values(uint32_t seed, size_t n) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3f, 2.0f);
  Floats out(n);
  for (float& x : out) x = normal(random);
  return out;
}

// 64 positions, and an anchor where the layout has one.
struct Source {
  explicit Source(const KvLayout& layout)
      : layout(layout),
        k(random_values(layout.k_dim, size_t{kPagePositions} * layout.kv_heads * layout.k_dim)),
        v(random_values(layout.v_dim + 1,
                        size_t{kPagePositions} * layout.kv_heads * layout.v_dim)) {
    for (size_t i = 0; i < layout.anchor_bytes() / 2; ++i) {
      anchor.resize(2 * i + 2);
      put_u16(anchor.data() + 2 * i, f32_to_bf16_operand(std::sin(static_cast<float>(i))));
    }
  }
  const float* k_of(uint32_t p) const { return &k[size_t{p} * layout.kv_heads * layout.k_dim]; }
  const float* v_of(uint32_t p) const { return &v[size_t{p} * layout.kv_heads * layout.v_dim]; }
  bool store(std::byte* page, uint32_t p, Isa isa = Isa::scalar) const {
    return attention_ops(isa).store(layout, page, p, k_of(p), v_of(p),
                                    anchor.empty() ? nullptr : anchor.data());
  }
  std::vector<std::byte> page(Isa isa = Isa::scalar) const {
    std::vector<std::byte> out(layout.page_bytes());
    for (uint32_t p = 0; p < kPagePositions; ++p) EXPECT_TRUE(store(out.data(), p, isa));
    return out;
  }
  KvLayout layout;
  Floats k, v;
  std::vector<std::byte> anchor;
};

TEST(KvPage, HoldsTheBytesOfItsRowsExactly) {
  for (const KvLayout& layout : all_layouts()) {
    EXPECT_TRUE(check_layout(layout, "layer").ok()) << name(layout);
    EXPECT_EQ(layout.page_bytes(),
              size_t{kPagePositions} * layout.kv_heads *
                  (layout.code.k.row_bytes(layout.k_dim) + layout.code.v.row_bytes(layout.v_dim)));
  }
  EXPECT_EQ((KvLayout{1, 64, 64, affine(4, 4, 64)}).page_bytes(), 64u * 2 * (32 + 4));
  EXPECT_EQ((KvLayout{3, 80, 80, turbo(8, 4)}).page_bytes(), 64u * 3 * (80 + 4 + 40 + 4));
  EXPECT_EQ((KvLayout{1, 80, 128, anchored(4, 4)}).page_bytes(), 64u * (40 + 4 + 64 + 4));
  EXPECT_EQ((KvLayout{1, 80, 128, anchored(4, 4)}).wide().page_bytes(), 64u * 2 * (80 + 128));
  EXPECT_EQ((KvLayout{3, 80, 128, anchored(4, 4)}).anchor_bytes(), 3u * 80 * 2);
  EXPECT_EQ((KvLayout{3, 80, 128, turbo(4, 4)}).anchor_bytes(), 0u);
}

TEST(KvPage, CombinationsThatNobodyReadsAreRefusedByName) {
  LayerCode mixed = turbo(4, 4);
  mixed.v = {CodeKind::affine, 4, 64};
  LayerCode half_grouped = anchored(4, 4);
  half_grouped.v.group = 0;
  LayerCode no_anchor = anchored(4, 4);
  no_anchor.anchored = false;
  LayerCode rotated = affine(4, 4, 64);
  rotated.rotated = true;
  LayerCode odd_group = anchored(4, 4);
  odd_group.k.group = 32;
  LayerCode plain_anchor = kBf16Code;
  plain_anchor.anchored = true;
  for (const KvLayout& layout :
       {KvLayout{1, 64, 64, mixed}, KvLayout{1, 64, 64, half_grouped},
        KvLayout{1, 64, 64, no_anchor}, KvLayout{1, 64, 64, rotated},
        KvLayout{1, 64, 64, odd_group}, KvLayout{1, 64, 64, plain_anchor},
        KvLayout{1, 96, 96, affine(4, 4, 64)}, KvLayout{1, 64, 64, affine(7, 4, 64)},
        KvLayout{1, 64, 64, turbo(4, 9)}, KvLayout{1, 36, 64, turbo(4, 4)},
        KvLayout{1, 64, 0, turbo(4, 4)}, KvLayout{1, 2048, 2048, affine(4, 4, 64)}}) {
    const Status status = check_layout(layout, "layer 7");
    ASSERT_FALSE(status.ok()) << name(layout);
    EXPECT_EQ(status.error().code, ErrorCode::unsupported);
    EXPECT_EQ(status.error().text.find("layer 7"), 0u) << status.error().text;
  }
}

// A position's bytes: those that a store sets to the same value whatever was there.
std::vector<size_t> own_bytes(const Source& source, uint32_t position) {
  std::vector<std::byte> zeros(source.layout.page_bytes()), ones(zeros.size(), std::byte{0xff});
  EXPECT_TRUE(source.store(zeros.data(), position));
  EXPECT_TRUE(source.store(ones.data(), position));
  std::vector<size_t> out;
  for (size_t i = 0; i < zeros.size(); ++i) {
    if (zeros[i] == ones[i]) {
      out.push_back(i);
    } else if (zeros[i] != std::byte{0} || ones[i] != std::byte{0xff}) {
      ADD_FAILURE() << name(source.layout) << ": byte " << i;
    }
  }
  return out;
}

TEST(KvPage, EveryByteBelongsToOnePosition) {
  FloatEnvironment environment;
  for (const KvLayout& layout : all_layouts()) {
    const Source source(layout);
    std::vector<int> owner(layout.page_bytes(), -1);
    for (uint32_t p = 0; p < kPagePositions; ++p) {
      const auto own = own_bytes(source, p);
      ASSERT_EQ(own.size() * kPagePositions, layout.page_bytes()) << name(layout);
      for (size_t i : own) {
        ASSERT_EQ(owner[i], -1) << name(layout) << ", byte " << i;
        owner[i] = static_cast<int>(p);
      }
    }
    // Erasing writes the same bytes.
    std::vector<std::byte> page = source.page();
    erase_positions(layout, page.data(), 3, 19);
    const auto full = source.page();
    for (size_t i = 0; i < page.size(); ++i)
      ASSERT_EQ(page[i], owner[i] >= 3 && owner[i] < 19 ? std::byte{0} : full[i]) << name(layout);
  }
}

TEST(KvPage, OrderAndThreadsChangeNothing) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) {
    for (const KvLayout& layout : all_layouts()) {
      const Source source(layout);
      const auto want = source.page();
      std::vector<std::byte> got(want.size());
      std::vector<std::thread> threads;
      for (uint32_t t = 0; t < 3; ++t)
        threads.emplace_back([&, t] {
          FloatEnvironment own;
          for (uint32_t p = 64; p-- > 0;) {
            if (p % 3 == t) source.store(got.data(), p, isa);
          }
        });
      for (std::thread& thread : threads) thread.join();
      EXPECT_EQ(want, got) << isa_name(isa) << " " << name(layout);
    }
  }
}

TEST(KvPage, ConvertingABf16PageGivesTheBytesOfADirectStore) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) {
    for (const KvLayout& layout : all_layouts()) {
      const Source source(layout);
      Source plain = source;
      plain.layout.code = kBf16Code;
      const auto bf16 = plain.page(isa);
      Source again = source;
      for (uint32_t p = 0; p < kPagePositions; ++p)
        load_position(plain.layout, bf16.data(), p, const_cast<float*>(again.k_of(p)),
                      const_cast<float*>(again.v_of(p)));
      EXPECT_NE(again.k, source.k);
      EXPECT_EQ(again.page(isa), source.page()) << isa_name(isa) << " " << name(layout);
    }
  }
}

// One row as decoded, in double, in the order of its dimensions.
std::vector<double> decoded(Side side, const KvLayout& layout, const std::byte* page,
                            uint32_t position, uint32_t head, const std::byte* anchor) {
  const RowCode code = side == Side::k ? layout.code.k : layout.code.v;
  const uint32_t dim = side == Side::k ? layout.k_dim : layout.v_dim;
  const std::byte* from = side == Side::k ? page + head * layout.k_head_bytes()
                                          : page + layout.v_offset() + head * layout.v_head_bytes();
  Floats out(dim);
  if (code.kind == CodeKind::bf16) {
    const auto* cells = reinterpret_cast<const uint16_t*>(from);
    for (uint32_t d = 0; d < dim; ++d)
      out[d] = bf16_to_f32(
          cells[side == Side::k ? k_index(position, d, dim) : v_index(position, d, dim)]);
  } else {
    std::vector<std::byte> row(code.row_bytes(dim));
    get_row(side, code, dim, from, position, row.data());
    if (code.kind == CodeKind::affine) {
      affine_decode_row(code, row.data(), out);
    } else if (code.group == 0) {
      turbo_decode_row(Rotation::stored(dim), code.bits, row.data(), out);
    } else {
      turbo_decode_groups(code.bits, row.data(), out);
      for (uint32_t d = 0; d < dim && side == Side::k && anchor != nullptr; ++d)
        out[d] += bf16_to_f32(get_u16(anchor + 2 * (size_t{head} * dim + d)));
    }
  }
  if (code.group == kTurboGroup && code.kind == CodeKind::turbo)
    Rotation::stored(dim).backward(out);
  if (layout.code.rotated) Rotation::stored(dim).backward(out);
  return {out.begin(), out.end()};
}

// Rows come out of a page as they would come out of their row bytes, near what went in.
TEST(KvPage, RowsDecodeToWhatWasStored) {
  FloatEnvironment environment;
  for (const KvLayout& layout : all_layouts()) {
    const Source source(layout);
    const auto page = source.page();
    for (Side side : {Side::k, Side::v}) {
      const uint32_t dim = side == Side::k ? layout.k_dim : layout.v_dim;
      const uint32_t bits = side == Side::k ? layout.code.k.bits : layout.code.v.bits;
      double error = 0, total = 0;
      for (uint32_t p = 0; p < kPagePositions; ++p) {
        for (uint32_t h = 0; h < layout.kv_heads; ++h) {
          const auto row = decoded(side, layout, page.data(), p, h,
                                   source.anchor.empty() ? nullptr : source.anchor.data());
          const float* x = (side == Side::k ? source.k_of(p) : source.v_of(p)) + size_t{h} * dim;
          for (uint32_t d = 0; d < dim; ++d)
            error += std::pow(row[d] - x[d], 2), total += std::pow(double{x[d]}, 2);
        }
      }
      // 5 sigma over the range of 2^bits steps for affine; sqrt(3) pi / 2 * 4^-bits for turbo.
      const double limit = bits == 16 ? 1e-5 : 12 * std::pow(4.0, -double(bits)) + 1e-5;
      EXPECT_LT(error / total, limit) << name(layout) << (side == Side::k ? " K" : " V");
      EXPECT_GT(error, 0) << name(layout);
    }
  }
}

TEST(KvPage, TheByteOfACodeIsWhereTheFormatSays) {
  FloatEnvironment environment;
  for (uint32_t position : {0u, 5u, 18u, 63u}) {
    for (CodeKind kind : {CodeKind::affine, CodeKind::turbo}) {
      for (uint32_t bits : {4u, 8u}) {
        const RowCode code{kind, bits, kind == CodeKind::affine ? 64u : 0u};
        std::vector<std::byte> k(64 * code.row_bytes(64)), v(k.size()), row(code.row_bytes(64));
        for (uint32_t d = 0; d < 64; ++d) put_code(row.data(), d, bits, d % 16);
        put_row(Side::k, code, 64, k.data(), position, row.data());
        put_row(Side::v, code, 64, v.data(), position, row.data());
        const auto at = [](const auto& head, size_t byte, uint32_t shift, uint32_t width) {
          return std::to_integer<uint32_t>(head[byte]) >> shift & ((1u << width) - 1);
        };
        const size_t tile = position / 16 * 16 * code.row_bytes(64), key = position % 16;
        for (uint32_t d = 0; d < 64; ++d) {
          uint32_t got_k = 0, got_v = 0;
          if (kind == CodeKind::affine && bits == 8) {
            got_k = at(k, tile + (d / 4 * 16 + key) * 4 + d % 4, 0, 8);
            got_v = at(v, (position / 4 * size_t{64} + d) * 4 + position % 4, 0, 8);
          } else if (kind == CodeKind::affine) {
            got_k = at(k, tile + (d / 8 * 16 + key) * 4 + d % 4, d / 4 % 2 * 4, 4);
            got_v = at(v, position / 4 * size_t{128} + d / 32 * 64 + d % 16 * 4 + position % 4,
                       d / 16 % 2 * 4, 4);
          } else if (bits == 8) {
            got_k = at(k, tile + (d / 4 * 16 + key) * 4 + d % 2 * 2 + d / 2 % 2, 0, 8);
            got_v = at(v,
                       position / 2 * size_t{128} + d / 32 * 64 + d % 16 * 4 + position % 2 * 2 +
                           d / 16 % 2,
                       0, 8);
          } else {
            got_k =
                at(k, tile + (d / 8 * 16 + key) * 4 + d % 2 * 2 + d / 2 % 4 / 2, d / 2 % 2 * 4, 4);
            got_v = at(v,
                       position / 2 * size_t{64} + d / 32 * 32 + d % 8 * 4 + position % 2 * 2 +
                           d / 8 % 4 / 2,
                       d / 8 % 2 * 4, 4);
          }
          ASSERT_EQ(got_k, d % 16) << bits << " " << d;
          ASSERT_EQ(got_v, d % 16) << bits << " " << d;
        }
      }
    }
  }
}

TEST(KvPage, TheAnchorIsTheMeanOfTheRotatedKeys) {
  FloatEnvironment environment;
  for (uint32_t dim : {64u, 80u}) {
    const KvLayout layout{2, dim, dim, anchored(4, 4)};
    const Source wide(layout.wide());
    const auto page = wide.page();
    std::vector<std::byte> anchor(layout.anchor_bytes());
    make_anchor(layout, page.data(), anchor.data());
    for (uint32_t h = 0; h < 2; ++h) {
      std::vector<double> mean(dim);
      for (uint32_t p = 0; p < kPagePositions; ++p) {
        Floats row(wide.k_of(p) + size_t{h} * dim, wide.k_of(p) + size_t{h + 1} * dim);
        for (float& x : row) x = bf16_to_f32(f32_to_bf16_operand(x));
        Rotation::stored(dim).forward(row);
        for (uint32_t d = 0; d < dim; ++d)
          mean[d] += bf16_to_f32(f32_to_bf16_operand(row[d])) / double{kPagePositions};
      }
      for (uint32_t d = 0; d < dim; ++d) {
        const float got = bf16_to_f32(get_u16(anchor.data() + 2 * (size_t{h} * dim + d)));
        EXPECT_NEAR(got, mean[d], std::fabs(mean[d]) * 0x1p-8 + 1e-6) << dim << " " << d;
      }
    }
  }
}

TEST(KvPage, WhatIsNotFiniteOrTooLargeBecomesZeros) {
  FloatEnvironment environment;
  for (Isa isa : available_isas()) {
    for (const KvLayout& layout : all_layouts()) {
      if (layout.code.plain()) continue;
      Source zeros(layout);
      std::fill(zeros.k.begin(), zeros.k.end(), 0.0f);
      std::fill(zeros.v.begin(), zeros.v.end(), 0.0f);
      std::vector<std::byte> want(layout.page_bytes());
      EXPECT_TRUE(zeros.store(want.data(), 7));
      for (bool in_k : {true, false}) {
        for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 0x1p100f, -3.4e38f}) {
          Source source(layout);
          const size_t last = size_t{8} * layout.kv_heads;
          if (in_k) {
            source.k[last * layout.k_dim - 1] = bad;
          } else {
            source.v[last * layout.v_dim - 1] = bad;
          }
          std::vector<std::byte> got(layout.page_bytes());
          EXPECT_FALSE(source.store(got.data(), 7, isa)) << name(layout) << " " << bad;
          EXPECT_EQ(got, want) << isa_name(isa) << " " << name(layout) << " " << bad;
        }
      }
    }
  }
}

double norm(std::span<const double> x) {
  double sum = 0;
  for (double value : x) sum += value * value;
  return std::sqrt(sum);
}

// Attention in double over the decoded rows, and how far the reference may be from it.
//
// Affine: q is cut to int8 by numerics' own routine, so scores differ by f32 rounding alone: at
// most (dims + 8) roundings of the sum of magnitudes. A page's weights are int8: each is off by
// half a step, d / 2, d = the largest |p scale| / 127, times |code - half|.
// Turbo: q is rotated in f32 (3 (log2 + 1) roundings at most, of values whose norm stays) and
// rounded to bf16 (2^-9 of each); norms bound the dot's error. Weights: bf16, 2^-9.
struct Expected {
  std::vector<double> out;
  double error = 0;
};

struct DecodedHead {
  std::vector<std::vector<double>> k, v;
};

DecodedHead decode_head(const Row& row, uint32_t head) {
  DecodedHead out;
  for (uint32_t j = 0; j < row.shape().length; ++j) {
    const size_t page = j / kPagePositions;
    const KvLayout layout = row.page_layout(page);
    out.k.push_back(
        decoded(Side::k, layout, row.pages_[page], j % kPagePositions, head, row.anchor()));
    out.v.push_back(decoded(Side::v, layout, row.pages_[page], j % kPagePositions, head, nullptr));
  }
  return out;
}

double step_error(const Row& row, uint32_t head, const std::vector<double>& p, Visible seen) {
  const KvLayout& layout = row.layout_;
  const uint32_t half = 1u << (layout.code.v.bits - 1), dim = layout.v_dim;
  const uint32_t groups = layout.code.v.groups(dim);
  double worst = 0;
  for (uint32_t g = 0; g < groups; ++g) {
    double error = 0;
    for (uint32_t first = seen.begin / 64 * 64; first < seen.end; first += 64) {
      double largest = 0, magnitude = 0;
      for (uint32_t j = std::max(first, seen.begin); j < std::min(first + 64, seen.end); ++j) {
        std::vector<std::byte> bytes(layout.code.v.row_bytes(dim));
        get_row(Side::v, layout.code.v, dim,
                row.pages_[j / 64] + layout.v_offset() + head * layout.v_head_bytes(), j % 64,
                bytes.data());
        const size_t scales = size_t{dim} * layout.code.v.bits / 8;
        largest = std::max(
            largest, std::fabs(p[j - seen.begin] * bf16_to_f32(get_u16(&bytes[scales + 2 * g]))));
        uint32_t most = 0;
        for (uint32_t d = 0; d < layout.code.v.group; ++d) {
          const uint32_t code =
              get_code(bytes.data(), g * layout.code.v.group + d, layout.code.v.bits);
          most = std::max(most, code < half ? half - code : code - half);
        }
        magnitude += most;
      }
      error += largest / 127 / 2 * magnitude;
    }
    worst = std::max(worst, error);
  }
  return worst;
}

Expected expect_head(Row& row, const DecodedHead& kv, uint32_t t, uint32_t h) {
  const Shape& s = row.shape();
  const bool is_affine = s.code.k.kind == CodeKind::affine;
  const float scale = 1.7f * s.spread / std::sqrt(static_cast<float>(s.k_dim));
  std::vector<double> q(s.k_dim);
  for (uint32_t b = 0; b < s.k_dim; b += 32) {
    float x[32] = {};
    int8_t code[32];
    float d;
    int32_t sum;
    const uint32_t n = std::min(32u, s.k_dim - b);
    for (uint32_t i = 0; i < n; ++i)
      q[b + i] = x[i] = row.q_[(size_t{t} * row.heads() + h) * s.k_dim + b + i] * scale;
    EXPECT_TRUE(numerics::quantize_block32(x, n, code, &d, &sum));
    for (uint32_t i = 0; i < n && is_affine; ++i) q[b + i] = double{d} * code[i];
  }
  const Visible seen = row.visible_[t];
  std::vector<double> p;
  double score_error = 0, v_norm = 0, top = -HUGE_VAL;
  for (uint32_t j = seen.begin; j < seen.end; ++j) {
    double dot = 0;
    for (uint32_t d = 0; d < s.k_dim; ++d) dot += q[d] * kv.k[j][d];
    const double norms = norm(q) * (norm(kv.k[j]) + (s.code.anchored ? norm(kv.k[0]) : 0));
    // The parts of an affine key, scale * code and bias, are each up to 2^bits times larger.
    score_error = std::max(score_error, is_affine ? (s.k_dim + 8) * 0x1p-24 * norms * 20
                                                  : (0x1p-9 + (s.k_dim + 60) * 0x1p-24) * norms);
    p.push_back(s.softcap != 0 ? s.softcap * std::tanh(dot / s.softcap) : dot);
    top = std::max(top, p.back());
    v_norm = std::max(v_norm, norm(kv.v[j]));
  }
  double total = s.sinks ? std::exp(row.sinks_[h] - top) : 0;
  for (double& x : p) total += x = std::exp(x - top);
  Expected out;
  out.out.resize(s.v_dim);
  for (uint32_t d = 0; d < s.v_dim; ++d) {
    for (uint32_t j = seen.begin; j < seen.end; ++j)
      out.out[d] += p[j - seen.begin] * kv.v[j][d] / total;
  }
  out.error = v_norm * (2 * score_error + 0x1p-18) +
              (is_affine ? 1.01 * step_error(row, h / s.group, p, seen) / total
                         : v_norm * (0x1p-8 + 100 * 0x1p-24));
  return out;
}

void expect_near_double(const Shape& shape, uint32_t begin) {
  Row row(shape);
  std::vector<uint8_t> flags;
  const Floats out = attend(row, attention_ops(Isa::scalar), 1, begin, ~0u, ~0u, &flags);
  double worst = 0, size = 0;
  for (uint32_t kv_head = 0; kv_head < shape.kv_heads; ++kv_head) {
    const DecodedHead kv = decode_head(row, kv_head);
    for (uint32_t t = begin; t < shape.length; ++t) {
      EXPECT_EQ(flags[t], 0);
      for (uint32_t h = kv_head * shape.group; h < (kv_head + 1) * shape.group; ++h) {
        const Expected want = expect_head(row, kv, t, h);
        for (uint32_t d = 0; d < shape.v_dim; ++d) {
          const double got = out[t * row.out_ld() + size_t{h} * shape.v_dim + d];
          ASSERT_NEAR(got, want.out[d], want.error)
              << name(row.layout_) << ", t " << t << " head " << h << " d " << d;
          worst = std::max(worst, std::fabs(got - want.out[d]));
          size = std::max(size, std::fabs(want.out[d]));
        }
      }
    }
  }
  EXPECT_LT(worst, 0.02 * size + 1e-3) << name(row.layout_);  // usual errors are far below bounds
}

TEST(CodedAttention, TheReferenceAgreesWithDoubleOverDecodedRows) {
  FloatEnvironment environment;
  uint32_t seed = 100;
  for (uint32_t bits : kBits) {
    const uint32_t other = bits == 8 ? 4 : bits == 2 ? 8 : bits - 1;
    for (uint32_t group : {32u, 64u, 128u}) {
      const uint32_t dim = std::max(group, 64u);
      expect_near_double({1, 3, dim, dim, 300, 0, 0, false, affine(bits, other, group), ++seed},
                         297);
    }
    expect_near_double({2, 2, 96, 96, 150, 70, 0, true, affine(bits, bits, 32), ++seed}, 146);
    for (uint32_t dim : {64u, 80u, 128u}) {
      expect_near_double({1, 3, dim, dim, 300, 0, 0, false, turbo(bits, other), ++seed}, 297);
      expect_near_double({1, 3, dim, dim, 300, 0, 0, false, anchored(bits, other), ++seed}, 297);
    }
  }
  for (LayerCode code : {affine(8, 8, 64), affine(4, 4, 32), turbo(8, 4), anchored(4, 4)}) {
    expect_near_double({2, 4, 64, 64, 520, 100, 0, true, code, ++seed}, 517);
    expect_near_double({1, 2, 256, 256, 260, 0, 5.0f, false, code, ++seed}, 257);
    expect_near_double({1, 1, 320, 320, 200, 0, 0, true, code, ++seed}, 198);
    expect_near_double({1, 2, 64, 64, 130, 1, 0, false, code, ++seed}, 60);
    expect_near_double({1, 2, 64, 64, 70, 0, 0, false, code, ++seed}, 0);  // page 0 alone, and past
  }
}

// Every instruction set, with and without the instruction for bf16 pairs.
std::vector<std::pair<Isa, const AttentionOps*>> fast_ops() {
  std::vector<std::pair<Isa, const AttentionOps*>> out;
  for (Isa isa : available_isas()) {
    if (isa == Isa::scalar) continue;
    for (bool native : {false, true}) {
      const AttentionOps* ops = &attention_ops(isa, native);
      if (out.empty() || out.back().second != ops) out.emplace_back(isa, ops);
    }
  }
  return out;
}

TEST(CodedAttention, EveryInstructionSetGivesTheReferenceBits) {
  FloatEnvironment environment;
  for (const Shape& shape : coded_shapes()) {
    const Answers answers(shape);
    for (const auto& [isa, ops] : fast_ops())
      EXPECT_EQ(answers.differ(isa, *ops), "") << isa_name(isa) << ", seed " << shape.seed;
  }
}

TEST(CodedAttention, EveryNumberOfQueriesAndSplitGivesTheReferenceBits) {
  FloatEnvironment environment;
  for (LayerCode code : {affine(8, 8, 64), affine(4, 4, 32), turbo(8, 4), anchored(4, 4)}) {
    for (uint32_t group : {1u, 3u, 4u}) {
      for (uint32_t window : {0u, 1u, 100u}) {
        Row row({1, group, 64, 64, 620, window, 0, false, code, 7 + window + group});
        const Floats want = attend(row, attention_ops(Isa::scalar), 1, 523);
        for (const auto& [isa, ops] : fast_ops()) {
          for (uint32_t queries : {1u, 2u, 5u, 17u, 97u}) {
            const Floats got = attend(row, *ops, 3, 620 - queries);
            const size_t from = (620 - queries) * row.out_ld();
            EXPECT_EQ(std::memcmp(&want[from], &got[from], (want.size() - from) * 4), 0)
                << isa_name(isa) << " " << name(row.layout_) << ", group " << group << ", window "
                << window << ", " << queries << " queries";
          }
          EXPECT_EQ(want, attend(row, *ops, 2, 523, ~0u, 13)) << isa_name(isa);
        }
      }
    }
    // A decode query over many chunks, which threads split.
    Row row({2, 4, 64, 64, 3000, 0, 0, true, code, 12});
    const Floats want = attend(row, attention_ops(Isa::scalar), 1, 2998);
    for (const auto& [isa, ops] : fast_ops()) {
      for (int threads : {1, 3}) EXPECT_EQ(want, attend(row, *ops, threads, 2998)) << isa_name(isa);
    }
  }
}

TEST(CodedAttention, BlocksThreadsAndPlacesChangeNoBit) {
  FloatEnvironment environment;
  for (LayerCode code : {affine(4, 4, 64), turbo(4, 3), anchored(5, 4)}) {
    Row row({1, 3, 64, 64, 330, 100, 0, false, code, 11});
    const AttentionOps& ops = attention_ops(Isa::scalar);
    const Floats want = attend(row, ops, 1, 250);
    for (uint32_t block : {1u, 7u, 64u}) {
      for (int threads : {1, 2})
        EXPECT_EQ(want, attend(row, ops, threads, 250, ~0u, block)) << name(row.layout_);
    }
    row.place(31);
    for (uint32_t t = 0; t < 330; ++t) ASSERT_TRUE(row.put(t, available_isas().back()));
    for (size_t p = 0; p < 2; ++p) row.pages_[p] = nullptr;  // seen from 151 on
    EXPECT_EQ(want, attend(row, ops, 2, 250)) << name(row.layout_);
  }
}

TEST(CodedAttention, ANonFiniteQueryOrResultIsFlaggedAndNobodyElse) {
  FloatEnvironment environment;
  for (LayerCode code : {affine(8, 8, 64), turbo(8, 4), anchored(4, 4)}) {
    const Shape shape{2, 2, 64, 64, 200, 0, 0, false, code, 90};
    for (Isa isa : available_isas()) {
      Row clean(shape);
      const Floats want = attend(clean, attention_ops(isa), 1, 150);
      for (float bad : {HUGE_VALF, -HUGE_VALF, std::nanf(""), 3e38f}) {
        Row row(shape);
        for (uint32_t d = bad == 3e38f ? 0 : 63; d < 64; ++d)
          row.q_[(size_t{170} * 4 + 3) * 64 + d] = bad;
        std::vector<uint8_t> flags;
        const Floats out = attend(row, attention_ops(isa), 2, 150, ~0u, ~0u, &flags);
        for (uint32_t t = 150; t < 200; ++t) {
          // A turbo query of 3e38 is finite; its score isn't.
          EXPECT_EQ(flags[t], t == 170) << isa_name(isa) << " " << bad;
          for (uint32_t i = 0; i < 256; ++i) {
            if (t == 170 && i >= 192) {
              ASSERT_TRUE(std::isfinite(out[size_t{t} * 256 + i]));
            } else {
              ASSERT_EQ(out[size_t{t} * 256 + i], want[size_t{t} * 256 + i]);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gyre::kernels
