// Recurrent states under a toy mixer, against plain arrays that are advanced token by token.
#include "kv/recurrent.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kv/toy_mixer.h"

namespace gyre::kv {
namespace {

constexpr ToyMixer kToy{.heads = 2, .v_dim = 6, .k_dim = 9, .taps = 3};

RecurrentState open(PagePool& pool, const ToyMixer& toy = kToy) {
  auto made = RecurrentState::make(pool, toy.shape());
  EXPECT_TRUE(made.ok()) << made.error().text;
  return std::move(*made);
}

// One step over tokens: the mixer's outputs, one after the other.
std::vector<float> feed(RecurrentState& state, std::span<const uint32_t> tokens,
                        const ToyMixer& toy = kToy, bool commit = true) {
  std::vector<float> out;
  EXPECT_TRUE(state.reserve(static_cast<uint32_t>(tokens.size())).ok());
  for (uint32_t id : tokens) {
    const auto input = toy.input(id);
    EXPECT_TRUE(state.advance(input.data(),
                              [&](const RecurrentToken& token) { return toy.mix(token, &out); }));
  }
  if (commit) {
    EXPECT_TRUE(state.commit(static_cast<uint32_t>(tokens.size())).ok());
  }
  return out;
}

Status resolve(RecurrentState& state, uint32_t keep, const ToyMixer& toy = kToy) {
  return state.resolve(keep, [&](const RecurrentToken& token) { return toy.mix(token, nullptr); });
}

// What the list of tokens gives, without any RecurrentState.
struct Plain {
  std::vector<std::byte> block;
  std::vector<float> out;
};
Plain plain(std::span<const uint32_t> tokens, const ToyMixer& toy = kToy) {
  const RecurrentShape shape = toy.shape();
  Plain now;
  now.block.resize(shape.block_bytes());
  std::vector<float> conv(shape.conv_floats()), matrix(shape.matrix_floats());
  for (uint32_t id : tokens) {
    const auto input = toy.input(id);
    std::vector<float> next_conv(conv.size()), next_matrix(matrix.size());
    EXPECT_TRUE(
        toy.mix({input.data(), conv.data(), matrix.data(), next_conv.data(), next_matrix.data()},
                &now.out));
    conv = next_conv;
    matrix = next_matrix;
  }
  std::memcpy(now.block.data(), conv.data(), conv.size() * 4);
  std::memcpy(now.block.data() + shape.matrix_offset(), matrix.data(), matrix.size() * 4);
  return now;
}

void expect_state(const RecurrentState& state, std::span<const uint32_t> tokens,
                  const ToyMixer& toy = kToy) {
  ASSERT_EQ(state.length(), tokens.size());
  const auto image = state.image();
  if (tokens.empty()) {
    EXPECT_TRUE(image.empty());
    return;
  }
  const Plain expected = plain(tokens, toy);
  ASSERT_EQ(image.size(), expected.block.size());
  EXPECT_EQ(std::memcmp(image.data(), expected.block.data(), image.size()), 0);
}

std::vector<uint32_t> ids(std::mt19937& random, size_t n) {
  std::vector<uint32_t> out(n);
  for (uint32_t& id : out) id = random();
  return out;
}

TEST(Recurrent, TheToyMovesAndStaysFinite) {
  std::mt19937 random(1);
  const auto tokens = ids(random, 200);
  const Plain now = plain(tokens);
  const auto [least, most] = std::minmax_element(now.out.end() - 12, now.out.end());
  EXPECT_LT(*least, *most);
  for (float x : now.out) ASSERT_TRUE(std::abs(x) < 100.0f);
  EXPECT_NE(plain(std::span(tokens).first(199)).block, now.block);
}

TEST(Recurrent, ChunksChangeNoBit) {
  std::mt19937 random(2);
  const auto tokens = ids(random, 130);
  const Plain expected = plain(tokens);
  for (uint32_t most : {1u, 2u, 3u, 7u, 64u, 130u}) {
    PagePool pool(0);
    RecurrentState state = open(pool);
    std::vector<float> out;
    for (size_t at = 0; at < tokens.size();) {
      const size_t n = std::min<size_t>(1 + random() % most, tokens.size() - at);
      const auto part = feed(state, std::span(tokens).subspan(at, n));
      out.insert(out.end(), part.begin(), part.end());
      at += n;
    }
    EXPECT_EQ(out, expected.out);
    expect_state(state, tokens);
  }
}

TEST(Recurrent, AStepThatIsNotCommittedLeavesNoTrace) {
  std::mt19937 random(3);
  for (size_t before : {0, 1, 5}) {
    PagePool pool(0);
    RecurrentState state = open(pool);
    const auto tokens = ids(random, before), lost = ids(random, 3);
    if (before != 0) feed(state, tokens);
    feed(state, lost, kToy, false);
    expect_state(state, tokens);
    EXPECT_EQ(state.commit(2).error().code, ErrorCode::internal);  // part of a step
    ASSERT_TRUE(state.commit(0).ok());
    expect_state(state, tokens);
    auto more = tokens;
    more.push_back(7);
    EXPECT_EQ(feed(state, std::span(more).last(1)), [&] {
      const auto out = plain(more).out;
      return std::vector<float>(out.end() - 12, out.end());
    }());
    expect_state(state, more);
  }
}

TEST(Recurrent, ARoundKeepsAnyNumberOfItsTokens) {
  std::mt19937 random(4);
  for (uint32_t before : {0u, 1u, 2u, 3u, 70u}) {
    for (uint32_t taken = 0; taken <= 6; ++taken) {
      for (uint32_t keep = 0; keep <= taken; ++keep) {
        for (bool one_by_one : {false, true}) {
          PagePool pool(0);
          RecurrentState state = open(pool);
          auto tokens = ids(random, before);
          if (before != 0) feed(state, tokens);
          ASSERT_TRUE(state.begin(6).ok());
          EXPECT_TRUE(state.open());
          const auto round = ids(random, taken);
          if (one_by_one) {
            for (uint32_t i = 0; i < taken; ++i) feed(state, std::span(round).subspan(i, 1));
          } else if (taken != 0) {
            feed(state, round);
          }
          const size_t held = pool.bytes_in_use();
          EXPECT_EQ(held, state.bytes());
          ASSERT_TRUE(resolve(state, keep).ok());
          EXPECT_FALSE(state.open());
          EXPECT_LE(pool.bytes_in_use(), held);
          EXPECT_EQ(pool.bytes_in_use(), state.bytes());
          tokens.insert(tokens.end(), round.begin(), round.begin() + keep);
          expect_state(state, tokens);
          tokens.push_back(9);
          feed(state, std::span(tokens).last(1));
          expect_state(state, tokens);
        }
      }
    }
  }
}

TEST(Recurrent, ARoundRefusesWhatItHasNoRoomFor) {
  PagePool pool(0);
  RecurrentState state = open(pool);
  EXPECT_FALSE(resolve(state, 0).ok());
  EXPECT_FALSE(state.begin(0).ok());
  EXPECT_FALSE(state.begin(~0u).ok());
  ASSERT_TRUE(state.begin(3).ok());
  EXPECT_FALSE(state.begin(3).ok());
  EXPECT_FALSE(state.checkpoint().ok());
  EXPECT_FALSE(state.truncate(0).ok());
  EXPECT_FALSE(state.clone().ok());
  EXPECT_FALSE(state.reserve(4).ok());
  const uint32_t two[] = {1, 2};
  feed(state, two);
  EXPECT_FALSE(state.reserve(2).ok());
  EXPECT_TRUE(state.reserve(1).ok());
  EXPECT_FALSE(resolve(state, 3).ok());
  EXPECT_TRUE(state.poisoned());
  EXPECT_FALSE(state.reserve(1).ok());
  EXPECT_FALSE(state.clone().ok());
  EXPECT_FALSE(state.begin(1).ok());
  state.reset();
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  feed(state, two);
  expect_state(state, two);
}

TEST(Recurrent, AFailedReplayPoisonsThisStateOnly) {
  PagePool pool(0);
  RecurrentState state = open(pool);
  const uint32_t tokens[] = {1, 2, 3, 4};
  feed(state, std::span(tokens).first(2));
  RecurrentState other = std::move(*state.clone());
  ASSERT_TRUE(state.begin(2).ok());
  feed(state, std::span(tokens).last(2));
  const Status failed = state.resolve(1, [](const RecurrentToken&) { return false; });
  EXPECT_EQ(failed.error().code, ErrorCode::non_finite);
  EXPECT_TRUE(state.poisoned());
  expect_state(other, std::span(tokens).first(2));
}

TEST(Recurrent, ClonesShareTheirBlockAndGoTheirOwnWays) {
  std::mt19937 random(5);
  PagePool pool(0);
  RecurrentState a = open(pool);
  auto common = ids(random, 9);
  feed(a, common);
  const size_t alone = pool.bytes_in_use();
  RecurrentState b = std::move(*a.clone());
  EXPECT_EQ(pool.bytes_in_use(), alone);
  EXPECT_EQ(a.image().data(), b.image().data());
  EXPECT_TRUE(a.same_bytes(b));
  EXPECT_EQ(a.digest(), b.digest());
  auto first = common, second = common;
  first.push_back(1);
  second.push_back(2);
  feed(a, std::span(first).last(1));
  expect_state(b, common);
  EXPECT_FALSE(a.same_bytes(b));
  EXPECT_NE(a.digest(), b.digest());
  feed(b, std::span(second).last(1));
  expect_state(a, first);
  expect_state(b, second);
  RecurrentState c = std::move(*a.clone());
  ASSERT_TRUE(c.begin(2).ok());
  feed(c, std::span(second).last(2));
  ASSERT_TRUE(resolve(c, 1).ok());
  expect_state(a, first);
  first.push_back(second[second.size() - 2]);
  expect_state(c, first);
}

TEST(Recurrent, TruncateGoesToCheckpointsOnly) {
  std::mt19937 random(6);
  PagePool pool(0);
  RecurrentState state = open(pool);
  const auto tokens = ids(random, 60);
  const auto to = [&](size_t end) {
    while (state.length() < end) feed(state, std::span(tokens).subspan(state.length(), 1));
  };
  for (uint32_t at : {10, 20, 30, 40, 50}) {
    to(at);
    ASSERT_TRUE(state.checkpoint().ok());
    ASSERT_TRUE(state.checkpoint().ok());  // once is enough
  }
  const size_t block = PagePool::page_cost(kToy.shape().block_bytes());
  EXPECT_EQ(pool.bytes_in_use(), state.bytes());
  to(60);
  EXPECT_EQ(pool.bytes_in_use(), state.bytes());
  EXPECT_EQ(pool.bytes_in_use(), 7 * block);  // committed, spare, five checkpoints
  EXPECT_EQ(state.reusable_length(100), 60u);
  EXPECT_EQ(state.reusable_length(59), 50u);
  EXPECT_EQ(state.reusable_length(9), 0u);
  const Status refused = state.truncate(45);
  EXPECT_EQ(refused.error().code, ErrorCode::unsupported);
  EXPECT_NE(refused.error().text.find("40"), std::string::npos) << refused.error().text;
  EXPECT_FALSE(state.truncate(61).ok());
  expect_state(state, tokens);
  ASSERT_TRUE(state.truncate(60).ok());
  ASSERT_TRUE(state.truncate(40).ok());
  expect_state(state, std::span(tokens).first(40));
  EXPECT_EQ(state.reusable_length(59), 40u);
  to(45);
  expect_state(state, std::span(tokens).first(45));
  RecurrentState copy = std::move(*state.clone());
  ASSERT_TRUE(copy.truncate(20).ok());
  expect_state(copy, std::span(tokens).first(20));
  state.drop_checkpoints(30);
  EXPECT_FALSE(state.truncate(20).ok());
  ASSERT_TRUE(state.truncate(30).ok());
  expect_state(state, std::span(tokens).first(30));
  ASSERT_TRUE(copy.truncate(0).ok());
  ASSERT_TRUE(state.truncate(0).ok());
  EXPECT_EQ(pool.bytes_in_use(), 0u);
}

TEST(Recurrent, AnImageRestoresTheState) {
  std::mt19937 random(7);
  PagePool pool(0);
  RecurrentState a = open(pool), b = open(pool);
  auto tokens = ids(random, 33);
  feed(a, tokens);
  feed(b, std::span(tokens).first(2));
  ASSERT_TRUE(b.checkpoint().ok());
  EXPECT_FALSE(b.restore(33, a.image().first(10)).ok());
  expect_state(b, std::span(tokens).first(2));
  ASSERT_TRUE(b.restore(33, a.image()).ok());
  EXPECT_TRUE(a.same_bytes(b));
  EXPECT_EQ(b.reusable_length(32), 0u);
  tokens.push_back(3);
  feed(b, std::span(tokens).last(1));
  expect_state(b, tokens);
  ASSERT_TRUE(b.restore(0, {}).ok());
  expect_state(b, {});
}

TEST(Recurrent, RefusesSizesThatCannotBe) {
  const RecurrentShape good = kToy.shape();
  const auto refused = [](RecurrentShape shape) {
    return check_recurrent(shape, "KV layer 3").error().text;
  };
  EXPECT_TRUE(check_recurrent(good, "").ok());
  RecurrentShape bad = good;
  bad.taps = 1u << 17;
  EXPECT_EQ(refused(bad).rfind("KV layer 3: ", 0), 0u);
  bad = good;
  bad.heads = bad.v_dim = bad.k_dim = 1u << 16;  // 2^48 floats
  EXPECT_NE(refused(bad), "");
  bad = good;
  bad.input_floats = 0;
  EXPECT_NE(refused(bad), "");
  EXPECT_NE(refused({0, 0, 0, 5, 5, 1}), "");
  bad = good;
  bad.taps = 0;  // a mixer without a convolution
  EXPECT_TRUE(check_recurrent(bad, "").ok());
  PagePool pool(0);
  EXPECT_FALSE(RecurrentState::make(pool, {}).ok());
}

// Every operation that allocates, with the n-th allocation failing, for all n: the operation is
// refused, the state and the pool are as they were, and the same operation then succeeds.
TEST(Recurrent, EveryFailedAllocationLeavesTheStateIntact) {
  std::mt19937 random(8);
  const auto tokens = ids(random, 8);
  const auto refused = [&](const Status& status, RecurrentState& state, PagePool& pool, size_t held,
                           size_t length) {
    EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
    expect_state(state, std::span(tokens).first(length));
    EXPECT_EQ(pool.bytes_in_use(), held);
    EXPECT_FALSE(state.poisoned());
  };
  int failures = 0;
  for (const char* operation :
       {"step", "second step of a round", "begin", "checkpoint", "clone", "restore"}) {
    const std::string name = operation;
    for (long n = 0;; ++n) {
      SCOPED_TRACE(name + " " + std::to_string(n));
      PagePool pool(0);
      RecurrentState state = open(pool);
      feed(state, std::span(tokens).first(4));
      if (name == "clone") {
        ASSERT_TRUE(state.checkpoint().ok());
      }
      RecurrentState twin = std::move(*state.clone());
      feed(state, std::span(tokens).subspan(4, 1));  // drops the shared block, keeps no spare
      if (name == "second step of a round") {
        ASSERT_TRUE(state.begin(3).ok());
        feed(state, std::span(tokens).subspan(5, 1));
      }
      const size_t length = state.length();
      const size_t held = pool.bytes_in_use();
      std::vector<std::byte> image(state.image().begin(), state.image().end());
      const auto attempt = [&]() -> Status {
        if (name == "begin") return state.begin(100);
        if (name == "checkpoint") return state.checkpoint();
        if (name == "restore") return state.restore(static_cast<uint32_t>(length), image);
        if (name == "clone") {
          GYRE_ASSIGN(RecurrentState copy, state.clone());
          expect_state(copy, std::span(tokens).first(length));
          return {};
        }
        return state.reserve(1);
      };
      fail_allocation_after(n);
      const Status status = attempt();
      fail_allocation_after(-1);
      if (status.ok()) {
        EXPECT_GT(n, 0);
        break;
      }
      ++failures;
      refused(status, state, pool, held, length);
      EXPECT_TRUE(attempt().ok());
      expect_state(twin, std::span(tokens).first(4));
    }
  }
  EXPECT_GE(failures, 6);
}

// Nothing in resolve allocates: an accepted round cannot be lost to memory.
TEST(Recurrent, ResolveAllocatesNothing) {
  for (uint32_t keep : {0u, 1u, 2u, 3u}) {
    PagePool pool(0);
    RecurrentState state = open(pool);
    const uint32_t tokens[] = {1, 2, 3, 4, 5};
    feed(state, std::span(tokens).first(2));
    ASSERT_TRUE(state.begin(3).ok());
    feed(state, std::span(tokens).last(3));
    fail_allocation_after(0);
    EXPECT_TRUE(resolve(state, keep).ok());
    fail_allocation_after(-1);
    expect_state(state, std::span(tokens).first(2 + keep));
  }
}

TEST(Recurrent, RandomHistoriesEqualTheirTokens) {
  std::mt19937 random(9);
  int rounds = 0, clones = 0, returns = 0;
  PagePool pool(0);
  pool.set_placement_seed(3);
  for (int history = 0; history < 200; ++history) {
    struct Row {
      RecurrentState state;
      std::vector<uint32_t> tokens;
    };
    std::vector<Row> rows;
    rows.push_back({open(pool), {}});
    for (int i = 0; i < 40; ++i) {
      Row& row = rows[random() % rows.size()];
      const auto more = ids(random, 1 + random() % 5);
      const auto keep = static_cast<uint32_t>(random() % (more.size() + 1));
      switch (random() % 6) {
        case 0:
          if (rows.size() < 4) {
            ++clones;
            rows.push_back({std::move(*row.state.clone()), row.tokens});
          }
          break;
        case 1:
          ASSERT_TRUE(row.state.checkpoint().ok());
          break;
        case 2: {
          const uint32_t to = row.state.reusable_length(random() % 60);
          returns += to != 0 && to < row.state.length();
          ASSERT_TRUE(row.state.truncate(to).ok());
          row.tokens.resize(to);
          break;
        }
        case 3:
          ++rounds;
          ASSERT_TRUE(row.state.begin(5).ok());
          feed(row.state, more);
          ASSERT_TRUE(resolve(row.state, keep).ok());
          row.tokens.insert(row.tokens.end(), more.begin(), more.begin() + keep);
          break;
        default:
          feed(row.state, more);
          row.tokens.insert(row.tokens.end(), more.begin(), more.end());
      }
    }
    for (Row& row : rows) {
      expect_state(row.state, row.tokens);
      if (::testing::Test::HasFailure()) return;
    }
  }
  EXPECT_EQ(pool.bytes_in_use(), 0u);
  EXPECT_GT(std::min({rounds, clones, returns}), 50);
}

}  // namespace
}  // namespace gyre::kv
