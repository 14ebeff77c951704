// Tests only: rows whose K and V are functions of (salt, layer, position), fed in any chunks.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kv/sequence.h"

namespace gyre::kv::testing {

inline constexpr uint32_t kMost = 4000;

inline LayerCode affine(uint32_t k_bits, uint32_t v_bits, uint32_t group = 32) {
  return {{kernels::CodeKind::affine, k_bits, group}, {kernels::CodeKind::affine, v_bits, group}};
}
inline LayerCode turbo(uint32_t k_bits, uint32_t v_bits) {
  return {{kernels::CodeKind::turbo, k_bits, 0}, {kernels::CodeKind::turbo, v_bits, 0}};
}
inline LayerCode anchored(uint32_t k_bits, uint32_t v_bits) {
  return {
      {kernels::CodeKind::turbo, k_bits, 64}, {kernels::CodeKind::turbo, v_bits, 64}, false, true};
}

inline LayerSpec full(LayerCode code = kBf16Code, uint32_t heads = 1, uint32_t dim = 64) {
  return {Place::full, 0, {heads, dim, dim, code}, -1};
}
inline LayerSpec sliding(uint32_t window, LayerCode code = kBf16Code, uint32_t heads = 1,
                         uint32_t dim = 64) {
  return {Place::sliding, window, {heads, dim, dim, code}, -1};
}
inline LayerSpec donor(int of) {
  return {Place::full, 0, {}, of};
}

inline Sequence open(PagePool& pool, const std::vector<LayerSpec>& layers, uint32_t start = 0,
                     uint32_t most = kMost) {
  auto made = Sequence::make(pool, {layers, most, start});
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text);
  return std::move(*made);
}

inline const kernels::AttentionOps& scalar_ops() {
  return kernels::attention_ops(kernels::Isa::scalar);
}

// One position's K (or V) of one layer: uniform in [-2, 2), the first channel far from 0.
inline std::vector<float> fake_row(uint64_t salt, size_t layer, uint32_t position, bool value,
                                   size_t count) {
  std::vector<float> out(count);
  uint64_t x = salt * 0x9e3779b97f4a7c15 + layer * 0xbf58476d1ce4e5b9 + position * 2 + value + 1;
  for (float& y : out) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    y = static_cast<float>(static_cast<int32_t>(x >> 20)) * 0x1p-30f;
  }
  out[0] += 3.0f;
  return out;
}

// Writes positions [begin, end) of a step in every layer, as nn::attend does.
inline void write_step(Sequence& row, uint32_t begin, uint32_t end, uint64_t salt = 0) {
  for (size_t layer = 0; layer < row.layers(); ++layer) {
    if (!row.owns(layer)) continue;
    const KvLayout& layout = row.spec(layer).layout;
    const bool waits = row.anchored(layer) && begin < 64 && end >= 64;
    for (uint32_t p = begin; p < end; ++p) {
      if (waits && p == 64) row.fix_anchor(scalar_ops(), layer);
      const auto k = fake_row(salt, layer, p, false, layout.kv_heads * size_t{layout.k_dim});
      const auto v = fake_row(salt, layer, p, true, layout.kv_heads * size_t{layout.v_dim} + 1);
      EXPECT_TRUE(row.write(scalar_ops(), layer, p, k.data(), v.data()));
    }
    if (waits && end == 64) row.fix_anchor(scalar_ops(), layer);
  }
}

inline Status step(Sequence& row, uint32_t n, uint64_t salt = 0) {
  GYRE_TRY(row.reserve(n));
  GYRE_TRY(row.convert(scalar_ops(), nullptr));
  write_step(row, row.length(), row.length() + n, salt);
  return row.commit(n);
}

// To `length` in steps of `chunk`.
inline void grow(Sequence& row, uint32_t length, uint32_t chunk = 37, uint64_t salt = 0) {
  while (row.length() < length)
    ASSERT_TRUE(step(row, std::min(chunk, length - row.length()), salt).ok());
}

// What a run that only ever saw `length` positions holds.
inline Sequence fresh(PagePool& pool, const std::vector<LayerSpec>& layers, uint32_t start,
                      uint32_t length, uint64_t salt = 0) {
  Sequence row = open(pool, layers, start);
  grow(row, length, 64, salt);
  return row;
}

// Such rows, each made once, in a pool of their own.
class Truth {
 public:
  Truth(std::vector<LayerSpec> layers, uint32_t start)
      : layers_(std::move(layers)), start_(start) {}
  const Sequence& at(uint32_t length) {
    auto found = rows_.find(length);
    if (found == rows_.end())
      found = rows_.emplace(length, fresh(pool_, layers_, start_, length)).first;
    return found->second;
  }

 private:
  PagePool pool_{0};
  std::vector<LayerSpec> layers_;
  uint32_t start_;
  std::map<uint32_t, Sequence> rows_;
};

inline std::string describe(const Sequence& row) {
  return "length " + std::to_string(row.length()) + (row.holds_plain() ? " plain" : "") +
         (row.holds_codes() ? " coded" : "") + " digest " + std::to_string(row.digest());
}

#define EXPECT_SAME_ROW(a, b) EXPECT_TRUE((a).same_bytes(b)) << describe(a) << "\n" << describe(b)

}  // namespace gyre::kv::testing
