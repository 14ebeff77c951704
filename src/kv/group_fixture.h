// Tests only: groups whose K, V and queries are functions of (token, layer, position), and the same
// history replayed by a fresh row that sees one token at a time.
#pragma once

#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kv/group.h"
#include "kv/sequence_fixture.h"
#include "kv/toy_mixer.h"

namespace gyre::kv::testing {

inline constexpr uint32_t kDim = 64, kQueryHeads = 2;

inline constexpr ToyMixer kMixer{.heads = 1, .v_dim = 4, .k_dim = 5, .taps = 2};
inline LayerSpec recurrent() {
  LayerSpec spec;
  spec.place = Place::recurrent;
  spec.recurrent = kMixer.shape();
  return spec;
}
inline constexpr auto replay_toy = [](size_t, size_t, const RecurrentToken& token) {
  return kMixer.mix(token, nullptr);
};

// Threads, kernels and scratch for groups of toy rows.
struct Workshop {
  explicit Workshop(kernels::Isa isa = kernels::available_isas().back(), int workers = 1)
      : threads(workers) {
    EXPECT_TRUE(scratch.reserve(workers, kQueryHeads, kDim, kMost).ok());
    tools = {&kernels::attention_ops(isa), &threads, &scratch};
  }
  ThreadPool threads;
  kernels::AttentionScratch scratch;
  GroupTools tools;
};

inline KvGroup make_group(PagePool& pool, const Workshop& shop,
                          const std::vector<LayerSpec>& layers, uint32_t start = 0) {
  auto made = KvGroup::make(open(pool, layers, start), shop.tools);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().text);
  return std::move(*made);
}

// `count` values in [-1, 1), a function of the numbers.
inline void toy_values(uint32_t token, size_t layer, uint32_t position, uint32_t which,
                       size_t count, float* out) {
  uint64_t x = (uint64_t{token} << 32 | position) * 0x9e3779b97f4a7c15 +
               (layer * 4 + which + 1) * 0xbf58476d1ce4e5b9;
  for (size_t i = 0; i < count; ++i) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    out[i] = static_cast<float>(static_cast<int32_t>(x >> 32)) * 0x1p-31f;
  }
}

// What one row has seen: its tokens, and for each a digest of what its queries read, all layers.
struct Story {
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> read;
  void cut(size_t length) {
    tokens.resize(length);
    read.resize(length);
  }
};

// Writes and reads every layer of a step whose token t is ids[t]; a digest for each token.
inline std::vector<uint64_t> run_step(Append& step, const KvGroup& group,
                                      std::span<const uint32_t> ids) {
  const uint32_t n = step.tokens();
  if (n == 0) return {};
  std::vector<float> k(n * size_t{kDim}), v(k.size()), q(k.size() * kQueryHeads), out(q.size());
  std::vector<uint64_t> digests(n, 0);
  std::vector<uint8_t> bad(n, 0);
  const size_t layers = group.row(0).layers();
  for (size_t layer = 0; layer < layers; ++layer) {
    if (group.row(0).recurrent(layer) != nullptr) {
      std::vector<float> inputs;
      for (uint32_t id : ids) {
        const auto input = kMixer.input(id + static_cast<uint32_t>(layer));
        inputs.insert(inputs.end(), input.begin(), input.end());
      }
      EXPECT_TRUE(step.advance(
          layer, inputs.data(),
          [&](uint32_t t, const RecurrentToken& token) {
            std::vector<float> result;
            const bool finite = kMixer.mix(token, &result);
            digests[t] =
                XXH3_64bits_withSeed(result.data(), result.size() * sizeof(float), digests[t]);
            return finite;
          },
          bad.data()));
      continue;
    }
    for (uint32_t t = 0; t < n; ++t) {
      const uint32_t position = step.position(t);
      toy_values(ids[t], layer, position, 0, kDim, &k[size_t{t} * kDim]);
      toy_values(ids[t], layer, position, 1, kDim, &v[size_t{t} * kDim]);
      toy_values(ids[t], layer, position, 2, kDim * kQueryHeads,
                 &q[size_t{t} * kDim * kQueryHeads]);
    }
    if (group.row(0).owns(layer)) {
      EXPECT_TRUE(step.write(layer, k.data(), v.data(), bad.data()));
    }
    const size_t ld = size_t{kDim} * kQueryHeads;
    step.read(layer, {.heads = kQueryHeads,
                      .q = q.data(),
                      .q_ld = ld,
                      .scale = 0.25f,
                      .out = out.data(),
                      .out_ld = ld,
                      .not_finite = bad.data()});
    for (uint32_t t = 0; t < n; ++t)
      digests[t] = XXH3_64bits_withSeed(&out[t * ld], ld * sizeof(float), digests[t]);
  }
  for (uint8_t flag : bad) EXPECT_EQ(flag, 0);
  return digests;
}

// One step of counts[r] tokens for each row; the stories grow where it is committed.
inline Status append(KvGroup& group, std::vector<Story>& stories,
                     const std::vector<std::vector<uint32_t>>& ids) {
  std::vector<uint32_t> counts, all;
  for (const auto& row : ids) {
    counts.push_back(static_cast<uint32_t>(row.size()));
    all.insert(all.end(), row.begin(), row.end());
  }
  GYRE_ASSIGN(Append step, group.append_window(counts));
  const auto digests = run_step(step, group, all);
  std::vector<uint32_t> firsts;
  for (size_t r = 0; r < ids.size(); ++r) firsts.push_back(step.first_token(r));
  GYRE_TRY(step.commit());
  for (size_t r = 0; r < ids.size(); ++r) {
    stories[r].tokens.insert(stories[r].tokens.end(), ids[r].begin(), ids[r].end());
    stories[r].read.insert(stories[r].read.end(), digests.begin() + firsts[r],
                           digests.begin() + firsts[r] + counts[r]);
  }
  return {};
}

// A row that sees these tokens one by one, with nobody beside it.
inline std::pair<KvGroup, Story> alone(PagePool& pool, const Workshop& shop,
                                       const std::vector<LayerSpec>& layers, uint32_t start,
                                       std::span<const uint32_t> tokens) {
  KvGroup group = make_group(pool, shop, layers, start);
  Sequence row = std::move(*group.make_row());
  const Sequence* rows[] = {&row};
  EXPECT_TRUE(group.adopt_rows(rows).ok());
  std::vector<Story> story(1);
  for (uint32_t token : tokens) EXPECT_TRUE(append(group, story, {{token}}).ok());
  return {std::move(group), std::move(story[0])};
}

inline std::vector<uint32_t> ids_from(uint32_t first, size_t n) {
  std::vector<uint32_t> out(n);
  for (size_t i = 0; i < n; ++i) out[i] = first + static_cast<uint32_t>(i);
  return out;
}

}  // namespace gyre::kv::testing
