#include "engine/verify/rows.h"

#include <algorithm>

namespace gyre::engine::verification {
namespace {
constexpr uint32_t kLogitStride = 16;
}

Status RowDigest::add(Runner& runner, uint32_t first_token, uint32_t count,
                      uint32_t first_position) {
  const uint32_t dim = runner.loaded().model().info().dim;
  for (uint32_t i = 0; i < count; ++i) {
    digest_.add({runner.hidden(first_token + i), dim});
    const uint32_t position = first_position + i;
    if (position % kLogitStride != 0 && position + kLogitStride < total_) continue;
    uint8_t not_finite = 0;
    runner.logits(first_token + i, 1, logits_.data(), &not_finite);
    if (not_finite != 0)
      return fail(ErrorCode::non_finite, "logits of position", std::to_string(position));
    digest_.add(logits_);
    varied_ |=
        std::any_of(logits_.begin(), logits_.end(), [&](float x) { return x != logits_.front(); });
  }
  return {};
}

Result<TestRow> open_test_row(Runner& runner, const kv::KvScheme& scheme,
                              std::span<const TokenId> text, std::string label) {
  GYRE_ASSIGN(kv::Sequence row, runner.open_row(scheme));
  return TestRow{std::move(label),
                 {text.begin(), text.end()},
                 std::move(row),
                 RowDigest(static_cast<uint32_t>(text.size()), runner.vocabulary())};
}

Status feed(Runner& runner, std::span<const Feed> feeds) {
  std::vector<RowTokens> step;
  for (const Feed& f : feeds)
    step.push_back(
        {&f.row->kv, std::span<const TokenId>(f.row->text).subspan(f.row->done, f.count)});
  GYRE_TRY(runner.step(step));
  uint32_t token = 0;
  for (size_t i = 0; i < feeds.size(); ++i) {
    TestRow& row = *feeds[i].row;
    if (!runner.row_is_finite(i))
      return fail(ErrorCode::non_finite, "position", std::to_string(row.done), "finite values");
    GYRE_TRY(row.digest.add(runner, token, feeds[i].count, row.done));
    row.done += feeds[i].count;
    token += feeds[i].count;
  }
  return {};
}

Status feed_until(Runner& runner, TestRow& row, uint32_t end, uint32_t chunk) {
  while (row.done < end) {
    const Feed one{&row, std::min(chunk, end - row.done)};
    GYRE_TRY(feed(runner, {&one, 1}));
  }
  return {};
}

}  // namespace gyre::engine::verification
