// Rows that go back, split and come back: rounds of drafts with every outcome, clones that part,
// states that were written to a file.
#include <algorithm>

#include "engine/saved.h"
#include "engine/verify/verifier.h"
#include "os/temporary.h"

namespace gyre::engine::verification {
namespace {

constexpr uint32_t kDrafts = 4;

// One row in rounds of a token and kDrafts more.
struct DraftingRow {
  TestRow row;
  const TestScheme* scheme = nullptr;
  std::vector<TokenId> window = std::vector<TokenId>(kDrafts + 1);
  uint32_t keep = 0, rounds = 0;
};

// The next tokens of the text as far as `keep`, then wrong ones.
void draft(DraftingRow& of, uint32_t keep, uint32_t vocabulary) {
  of.keep = std::min(keep, of.row.left());
  for (uint32_t i = 0; i < of.window.size(); ++i) {
    const TokenId right = of.row.text[std::min<size_t>(of.row.done + i, of.row.text.size() - 1)];
    of.window[i] = i < of.keep ? right : (right + 7) % static_cast<TokenId>(vocabulary);
  }
}

// One round for every row that has not come to `end`: rows keep different numbers of tokens.
Status run_round(Runner& run, std::vector<DraftingRow>& rows, uint32_t end, uint32_t& kept) {
  std::vector<RowTokens> step;
  std::vector<DraftingRow*> members;
  for (size_t r = 0; r < rows.size(); ++r) {
    DraftingRow& of = rows[r];
    if (of.row.done >= end) continue;
    draft(of, static_cast<uint32_t>((of.rounds++ * 5 + r) % (kDrafts + 2)), run.vocabulary());
    if (!of.row.kv.can_begin(kDrafts))
      return fail(ErrorCode::internal, "round at position", std::to_string(of.row.done),
                  "one that can begin");
    GYRE_TRY(of.row.kv.begin(kDrafts));
    step.push_back({&of.row.kv, of.window});
    members.push_back(&of);
  }
  if (step.empty()) return {};
  GYRE_TRY(run.step(step));
  for (size_t i = 0; i < members.size(); ++i) {
    DraftingRow& of = *members[i];
    GYRE_TRY(
        of.row.digest.add(run, static_cast<uint32_t>(i * (kDrafts + 1)), of.keep, of.row.done));
    GYRE_TRY(of.row.kv.resolve(of.keep));
    of.row.done += of.keep;
    kept |= 1u << of.keep;
  }
  return {};
}

}  // namespace

// Across page borders, windows and delayed starts; afterwards bits and state are those of a row
// that only ever saw the kept tokens.
Status Verifier::rollback() {
  VerifyAxis axis{.name = "rollback"};
  const uint32_t window = loaded_->model().info().window;
  std::vector<std::pair<uint32_t, uint32_t>> stretches{{30, settings_.quick ? 140 : 200}};
  if (window > 230) stretches.emplace_back(window - 12, window + 40);
  const uint32_t length = stretches.back().second + 10;
  GYRE_ASSIGN(
      const std::unique_ptr<Runner> run,
      runner(*loaded_,
             std::max<uint32_t>(kChunk, (kDrafts + 1) * static_cast<uint32_t>(schemes_.size())),
             static_cast<uint32_t>(schemes_.size())));
  std::vector<DraftingRow> rows;
  for (const TestScheme& scheme : schemes_) {
    GYRE_ASSIGN(TestRow row, open_test_row(*run, scheme.scheme, text(0, length)));
    rows.push_back({std::move(row), &scheme});
  }
  uint32_t kept = 0, rounds = 0;
  for (const auto& [from, to] : stretches) {
    for (DraftingRow& of : rows) GYRE_TRY(feed_until(*run, of.row, from, kChunk));
    while (std::any_of(rows.begin(), rows.end(),
                       [to = to](const DraftingRow& of) { return of.row.done < to; })) {
      GYRE_TRY(run_round(*run, rows, to, kept));
      ++rounds;
    }
  }
  for (DraftingRow& of : rows) {
    GYRE_TRY(feed_until(*run, of.row, length, kChunk));
    GYRE_TRY(compare(axis, of.scheme->name, of.row.digest.hex(), expected(*of.scheme, 0, length)));
    GYRE_ASSIGN(TestRow straight, open_test_row(*run, of.scheme->scheme, text(0, length)));
    GYRE_TRY(feed_until(*run, straight, length, kChunk));
    note(axis, of.scheme->name + " state", straight.kv.same_bytes(of.row.kv));
  }
  axis.evidence += "; " + std::to_string(rounds) + " rounds of several rows";
  axis.exercised = kept == (1u << (kDrafts + 2)) - 1;  // every number from none to all
  finish(std::move(axis));
  return {};
}

// A clone goes another way beside its origin, whose pages it shares.
Status Verifier::clones() {
  VerifyAxis axis{.name = "clone"};
  constexpr uint32_t kCommon = 100;
  const uint32_t length = settings_.quick ? 135 : 170;
  const auto count = static_cast<uint32_t>(schemes_.size());
  GYRE_ASSIGN(const std::unique_ptr<Runner> run, runner(*loaded_, kChunk, 2 * count));
  std::vector<TokenId> other(ids_.begin(), ids_.begin() + length);
  for (uint32_t i = kCommon; i < length; ++i) other[i] = ids_[length + kCommon - i];
  std::vector<TestRow> rows;
  rows.reserve(2 * count);
  bool shared = true;
  for (const TestScheme& scheme : schemes_) {
    GYRE_ASSIGN(TestRow row, open_test_row(*run, scheme.scheme, text(0, length)));
    GYRE_TRY(feed_until(*run, row, kCommon, kChunk));
    const size_t before = run->pages().bytes_in_use();
    GYRE_ASSIGN(kv::Sequence twin, row.kv.clone());
    shared &= run->pages().bytes_in_use() == before && before > 0;
    rows.push_back({"clone", other, std::move(twin), row.digest, row.done});
    rows.push_back(std::move(row));
  }
  for (uint32_t i = kCommon; i < length; ++i) {
    std::vector<Feed> step;
    for (TestRow& row : rows) step.push_back({&row, 1});
    GYRE_TRY(feed(*run, step));
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const TestScheme& scheme = schemes_[i / 2];
    const bool is_clone = i % 2 == 0;
    GYRE_TRY(compare(
        axis, scheme.name + (is_clone ? " clone" : " origin"), rows[i].digest.hex(),
        is_clone ? digest_of(*alone_, scheme.scheme, other, kChunk) : expected(scheme, 0, length)));
  }
  axis.exercised = shared && axis.cases == 2 * count;
  finish(std::move(axis));
  return {};
}

// A row written to a file and read by another runner, whose pages lie elsewhere.
Status Verifier::restores() {
  VerifyAxis axis{.name = "restore"};
  constexpr uint32_t kLength = 170;
  GYRE_ASSIGN(const os::TemporaryFolder folder, os::TemporaryFolder::make("gyre-verify"));
  const std::string path = folder.path() + "/row";
  GYRE_ASSIGN(const std::unique_ptr<Runner> other, runner(*loaded_, kChunk, 1, 7));
  size_t parts = 0;
  for (const TestScheme& scheme : schemes_) {
    // On a page's border, behind it, in the middle of one.
    for (const uint32_t cut : {64u, 101u, 128u}) {
      if (settings_.quick && cut != 101) continue;
      GYRE_ASSIGN(TestRow row, open_test_row(*alone_, scheme.scheme, text(0, kLength)));
      GYRE_TRY(feed_until(*alone_, row, cut, kChunk));
      GYRE_TRY(save_row(*alone_, row.kv, scheme.scheme, row.text, "", path));
      GYRE_ASSIGN(const kv::StateFile file, kv::StateFile::open(path));
      GYRE_ASSIGN(kv::Sequence restored, load_row(*other, scheme.scheme, file));
      parts += file.parts().size();
      note(axis, scheme.name + " state at " + std::to_string(cut), row.kv.same_bytes(restored));
      row.kv = std::move(restored);
      GYRE_TRY(feed_until(*other, row, kLength, kChunk));
      GYRE_TRY(compare(axis, scheme.name + " from " + std::to_string(cut), row.digest.hex(),
                       expected(scheme, 0, kLength)));
    }
  }
  axis.exercised = parts >= axis.cases;
  finish(std::move(axis));
  return {};
}

}  // namespace gyre::engine::verification
