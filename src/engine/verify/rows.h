// Rows under test: their text, their KV state, and a digest of everything that they computed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/runner.h"
#include "engine/score.h"

namespace gyre::engine::verification {

// The residual stream behind the last layer of every position, and the logits of every 16th and of
// the last 16; fed in order of positions whatever the steps were.
class RowDigest {
 public:
  RowDigest(uint32_t total, uint32_t vocabulary) : total_(total), logits_(vocabulary) {}

  // Tokens [first_token, first_token + count) of the runner's last step.
  Status add(Runner& runner, uint32_t first_token, uint32_t count, uint32_t first_position);
  std::string hex() const { return digest_.hex(); }
  bool varied() const { return varied_; }  // logits are not constant

 private:
  uint32_t total_;
  bool varied_ = false;
  std::vector<float> logits_;
  Digest digest_;
};

struct TestRow {
  std::string label;
  std::vector<TokenId> text;
  kv::Sequence kv;
  RowDigest digest;
  uint32_t done = 0;  // tokens of the text that were fed
  uint32_t left() const { return static_cast<uint32_t>(text.size()) - done; }
};
Result<TestRow> open_test_row(Runner& runner, const kv::KvScheme& scheme,
                              std::span<const TokenId> text, std::string label = {});

struct Feed {
  TestRow* row = nullptr;
  uint32_t count = 0;  // of the next tokens of its text
};
// One step for all of them.
Status feed(Runner& runner, std::span<const Feed> feeds);
// One row up to `end`, in steps of `chunk`.
Status feed_until(Runner& runner, TestRow& row, uint32_t end, uint32_t chunk);

}  // namespace gyre::engine::verification
