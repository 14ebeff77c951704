// Membership, rounds, going back, sizes. Steps: group_append.cc.
#include "kv/group.h"

#include <algorithm>
#include <limits>
#include <new>

namespace gyre::kv {
namespace {

std::string row_name(size_t row) {
  return "row " + std::to_string(row);
}

Error in_row(size_t row, const Error& error) {
  return fail(error.code, row_name(row) + ": " + error.text);
}

// One number for all rows, or one for each.
uint32_t number_of(std::span<const uint32_t> numbers, size_t row) {
  return numbers.size() == 1 ? numbers[0] : numbers[row];
}

bool same_shape(const LayerSpec& a, const LayerSpec& b) {
  return a.donor == b.donor && a.place == b.place && a.window == b.window &&
         a.layout.kv_heads == b.layout.kv_heads && a.layout.k_dim == b.layout.k_dim &&
         a.layout.v_dim == b.layout.v_dim && a.recurrent == b.recurrent;
}

}  // namespace

Result<KvGroup> KvGroup::make(Sequence blank, const GroupTools& tools) {
  if (blank.length() != 0 || tools.attention == nullptr || tools.threads == nullptr ||
      tools.scratch == nullptr)
    return fail(ErrorCode::internal, "KV group", std::to_string(blank.length()) + " positions",
                "an empty row, and tools");
  KvGroup made(std::move(blank));
  made.tools_ = tools;
  return made;
}

Result<std::unique_ptr<KvGroup::Row[]>> KvGroup::make_rows(size_t count) {
  std::unique_ptr<Row[]> rows(allocation_must_fail() ? nullptr : new (std::nothrow) Row[count]);
  if (rows == nullptr) return fail(ErrorCode::out_of_memory, "KV group");
  return rows;
}

Status KvGroup::expect_between_steps(const char* operation) const {
  if (!in_step_) return {};
  return fail(ErrorCode::internal, operation, "in a step", "a group between steps");
}

Status KvGroup::check_count(std::span<const uint32_t> numbers, const char* what) const {
  if (numbers.size() == 1 || numbers.size() == count_) return {};
  return fail(ErrorCode::internal, what, std::to_string(numbers.size()) + " numbers",
              "one, or one for each of " + std::to_string(count_) + " rows");
}

// Rows stand in one batch when their layers have the same places and widths; codes and starts may
// differ.
Status KvGroup::check_fit(const Sequence& row) const {
  bool fits = row.layers() == blank_.layers();
  for (size_t i = 0; fits && i < row.layers(); ++i) fits = same_shape(row.spec(i), blank_.spec(i));
  if (fits) return {};
  return fail(ErrorCode::unsupported, "KV group cannot adopt", row.signature(),
              "layers as in " + blank_.signature());
}

Status KvGroup::share(const Row& from, Row& to) const {
  GYRE_TRY(check_fit(*from.sequence));
  GYRE_ASSIGN(to.sequence, from.sequence->clone());
  return {};
}

Status KvGroup::adopt_rows(std::span<const Sequence* const> rows) {
  GYRE_TRY(expect_between_steps("adopt_rows"));
  GYRE_ASSIGN(auto made, make_rows(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    GYRE_TRY(check_fit(*rows[i]));
    GYRE_ASSIGN(made[i].sequence, rows[i]->clone());
  }
  rows_ = std::move(made);
  count_ = rows.size();
  return {};
}

Status KvGroup::merge_rows(std::span<const RowSource> sources) {
  GYRE_TRY(expect_between_steps("merge_rows"));
  size_t count = 0;
  for (const RowSource& source : sources)
    count += source.group != nullptr ? source.group->count_ : source.row != nullptr;
  GYRE_ASSIGN(auto made, make_rows(count));
  size_t at = 0;
  for (const RowSource& source : sources) {
    if (source.group != nullptr) {
      for (size_t i = 0; i < source.group->count_; ++i)
        GYRE_TRY(share(source.group->rows_[i], made[at++]));
    } else if (source.row != nullptr) {
      GYRE_TRY(check_fit(*source.row));
      GYRE_ASSIGN(made[at++].sequence, source.row->clone());
    }
  }
  rows_ = std::move(made);
  count_ = count;
  return {};
}

Status KvGroup::filter_rows(std::span<const size_t> keep) {
  GYRE_TRY(expect_between_steps("filter_rows"));
  GYRE_ASSIGN(auto made, make_rows(keep.size()));
  // Copies first: they may fail. Then every row that is kept moves to its first place.
  const auto first = [&](size_t i) {
    return static_cast<size_t>(std::find(keep.begin(), keep.end(), keep[i]) - keep.begin());
  };
  for (size_t i = 0; i < keep.size(); ++i) {
    if (keep[i] >= count_)
      return fail(ErrorCode::internal, "filter_rows", row_name(keep[i]),
                  "below " + std::to_string(count_));
    if (first(i) != i) GYRE_TRY(share(rows_[keep[i]], made[i]));
  }
  for (size_t i = 0; i < keep.size(); ++i) {
    if (first(i) == i) made[i] = std::move(rows_[keep[i]]);
  }
  rows_ = std::move(made);
  count_ = keep.size();
  return {};
}

Result<Sequence> KvGroup::extract_row(size_t row) const {
  if (row >= count_)
    return fail(ErrorCode::internal, "extract_row", row_name(row),
                "below " + std::to_string(count_));
  return rows_[row].sequence->clone();
}

Result<Sequence> KvGroup::make_row() const {
  return blank_.clone();
}

Result<KvGroup> KvGroup::make_empty_batch() const {
  GYRE_ASSIGN(Sequence blank, blank_.clone());
  return make(std::move(blank), tools_);
}

void KvGroup::dispose() {
  rows_.reset();
  count_ = 0;
  in_step_ = false;
}

bool KvGroup::can_begin(std::span<const uint32_t> drafts) const {
  if (in_step_ || !check_count(drafts, "drafts").ok()) return false;
  for (size_t i = 0; i < count_; ++i) {
    if (!rows_[i].sequence->can_begin(number_of(drafts, i))) return false;
  }
  return true;
}

Status KvGroup::spec_round_begin(std::span<const uint32_t> drafts) {
  GYRE_TRY(expect_between_steps("spec_round_begin"));
  GYRE_TRY(check_count(drafts, "drafts"));
  for (size_t i = 0; i < count_; ++i) {
    if (rows_[i].sequence->round() != Round::idle)
      return fail(ErrorCode::internal, row_name(i), poisoned(i) ? "poisoned" : "in an open round",
                  "an idle row");
  }
  Status first;
  for (size_t i = 0; i < count_; ++i) {
    rows_[i].round_from = rows_[i].sequence->length();
    Status status = rows_[i].sequence->begin(number_of(drafts, i));
    if (!status.ok() && first.ok()) first = in_row(i, status.error());
  }
  return first;
}

Status KvGroup::spec_round_commit() {
  GYRE_TRY(expect_between_steps("spec_round_commit"));
  Status first;
  for (size_t i = 0; i < count_; ++i) {
    Sequence& sequence = *rows_[i].sequence;
    if (sequence.round() == Round::poisoned) continue;
    Status status = sequence.resolve(sequence.length() - rows_[i].round_from);
    if (!status.ok() && first.ok()) first = in_row(i, status.error());
  }
  return first;
}

Status KvGroup::spec_round_rollback(std::span<const uint32_t> keep) {
  return roll_back(keep,
                   [this](size_t row, uint32_t n) { return rows_[row].sequence->resolve(n); });
}

Status KvGroup::spec_round_rollback(std::span<const uint32_t> keep, GroupReplay replay) {
  return roll_back(keep, [&](size_t row, uint32_t n) {
    return rows_[row].sequence->resolve(
        n, [&](size_t layer, const RecurrentToken& token) { return replay(row, layer, token); });
  });
}

Status KvGroup::roll_back(std::span<const uint32_t> keep,
                          FunctionRef<Status(size_t row, uint32_t n)> resolve) {
  GYRE_TRY(expect_between_steps("spec_round_rollback"));
  GYRE_TRY(check_count(keep, "keep"));
  for (size_t i = 0; i < count_; ++i) {
    const Sequence& sequence = *rows_[i].sequence;
    if (sequence.round() == Round::poisoned) continue;
    const uint32_t taken = sequence.length() - rows_[i].round_from;
    if (sequence.round() != Round::open)
      return fail(ErrorCode::internal, "spec_round_rollback", row_name(i) + " without a round",
                  "spec_round_begin first");
    if (number_of(keep, i) > taken)
      return fail(ErrorCode::internal, "keep of " + row_name(i), std::to_string(number_of(keep, i)),
                  "at most " + std::to_string(taken));
  }
  Status first;
  for (size_t i = 0; i < count_; ++i) {
    if (poisoned(i)) continue;
    Status status = resolve(i, number_of(keep, i));
    if (!status.ok() && first.ok()) first = in_row(i, status.error());
  }
  return first;
}

bool KvGroup::is_trimmable(size_t row, uint32_t count) const {
  const Sequence& sequence = *rows_[row].sequence;
  if (sequence.round() != Round::idle) return false;
  const uint32_t length = sequence.length() - std::min(sequence.length(), count);
  return sequence.reusable_length(length) == length;
}

Status KvGroup::trim(std::span<const uint32_t> counts) {
  GYRE_TRY(expect_between_steps("trim"));
  GYRE_TRY(check_count(counts, "trim"));
  for (size_t i = 0; i < count_; ++i) {
    if (!is_trimmable(i, number_of(counts, i)))
      return fail(ErrorCode::unsupported, "trim of " + row_name(i),
                  std::to_string(number_of(counts, i)) + " of " +
                      std::to_string(rows_[i].sequence->length()),
                  "down to " + std::to_string(minimum_reusable_offset(i)) + " at least, or to 0");
  }
  for (size_t i = 0; i < count_; ++i) {
    Sequence& sequence = *rows_[i].sequence;
    GYRE_TRY(
        sequence.truncate(sequence.length() - std::min(sequence.length(), number_of(counts, i))));
  }
  return {};
}

uint32_t KvGroup::minimum_reusable_offset() const {
  uint32_t most = 0;
  for (size_t i = 0; i < count_; ++i) most = std::max(most, minimum_reusable_offset(i));
  return most;
}

size_t KvGroup::bytes_per_token() const {
  size_t most = count_ == 0 ? blank_.bytes_per_token() : 0;
  for (size_t i = 0; i < count_; ++i) most = std::max(most, bytes_per_token(i));
  return most;
}

size_t KvGroup::projected_bytes(uint32_t tokens) const {
  if (count_ == 0) return blank_.projected_bytes(tokens);
  constexpr size_t kMost = std::numeric_limits<size_t>::max();
  size_t total = 0;
  for (size_t i = 0; i < count_; ++i) {
    const size_t more = projected_bytes(i, tokens);
    total = more > kMost - total ? kMost : total + more;
  }
  return total;
}

std::string KvGroup::signature() const {
  if (count_ == 0) return "kv-group:" + blank_.signature();
  std::string out = "kv-group";
  for (size_t i = 0; i < count_;) {
    const std::string name = row(i).signature();
    size_t end = i + 1;
    while (end < count_ && row(end).signature() == name) ++end;
    out += ":" + std::to_string(end - i) + "*(" + name + ")";
    i = end;
  }
  return out;
}

GroupDescription KvGroup::describe() const {
  GroupDescription out;
  out.rows = count_;
  struct Held {
    const std::byte* at;
    size_t bytes;
    bool shared;
  };
  std::vector<Held> held;
  for (size_t i = 0; i < count_; ++i) {
    out.tokens += row(i).length();
    const std::string name = row(i).signature();
    const auto known = std::find_if(out.signatures.begin(), out.signatures.end(),
                                    [&](const auto& pair) { return pair.first == name; });
    if (known == out.signatures.end()) {
      out.signatures.emplace_back(name, 1);
    } else {
      ++known->second;
    }
    row(i).for_each_part([&](const StoredPart& part) {
      held.push_back({part.bytes.data(), PagePool::page_cost(part.bytes.size()), part.shared});
    });
  }
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) { return a.at < b.at; });
  for (size_t i = 0; i < held.size(); ++i) {
    if (i != 0 && held[i].at == held[i - 1].at) continue;
    out.bytes += held[i].bytes;
    out.shared_bytes += held[i].shared ? held[i].bytes : 0;
  }
  return out;
}

}  // namespace gyre::kv
