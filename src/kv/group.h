// Rows that are served together: the operations of the documents under their names, over handles.
//
// A group is a list of rows, each with its own code, start, window position and length. Membership
// moves no byte and changes no bit: pages are shared, and whoever writes to one first gets a copy.
// So there is no padding, no common ring and no common position, and what a row computes never
// depends on its neighbours.
//
// Membership: every new list is complete before the old one goes, so a failure leaves the group and
// all sources as they were. Writes: an Append is one step of some rows; dropping it undoes it.
// Rounds: strictly idle, open, idle; a row whose begin or resolve fails is poisoned, the others
// are not.
//
// Owner: whoever runs the rows (tests, the engine's batches). Move-only; one thread; must die
// before its pool. Errors: out_of_memory, context_overflow, unsupported (rows that do not fit
// together, a trim that cannot be), internal (calls in a wrong order).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/function_ref.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kernels/attention.h"
#include "kv/sequence.h"

namespace gyre::kv {

// What reads and writes run on; borrowed, outlives the group. The scratch is reserved for the
// pool's threads and the layers' sizes.
struct GroupTools {
  const kernels::AttentionOps* attention = nullptr;
  ThreadPool* threads = nullptr;
  kernels::AttentionScratch* scratch = nullptr;
};

class KvGroup;

// A recurrent layer's mixer, for the token-th token of a step; and in a rollback, for a row. False:
// not finite.
using GroupMixer = FunctionRef<bool(uint32_t token, const RecurrentToken&)>;
using GroupReplay = FunctionRef<bool(size_t row, size_t layer, const RecurrentToken&)>;

// A source of rows for merge_rows: one row, or every row of a group.
struct RowSource {
  const Sequence* row = nullptr;
  const KvGroup* group = nullptr;
};

// Queries of one layer, the rows' tokens side by side, after norm and rope.
struct GroupQueries {
  uint32_t heads = 0;
  const float* q = nullptr;  // [token][q_ld]
  size_t q_ld = 0;
  float scale = 1.0f, softcap = 0.0f;
  const float* sinks = nullptr;  // [heads] or null
  float* out = nullptr;          // [token][out_ld]: heads * v_dim values
  size_t out_ld = 0;
  uint8_t* not_finite = nullptr;  // [token], set where a value is not finite; may be null
};

// One step under way: some tokens of some rows, which lie side by side in row order. Write each
// layer that owns K and V, then read it and the layers whose donor it is; then commit. A layer's
// tokens are written before they are read.
class Append {
 public:
  Append(Append&& other) noexcept
      : group_(std::exchange(other.group_, nullptr)),
        first_(std::move(other.first_)),
        row_of_(std::move(other.row_of_)),
        visible_(std::move(other.visible_)),
        jobs_(std::move(other.jobs_)) {}
  Append& operator=(Append&&) = delete;
  ~Append();  // takes back what was not committed

  uint32_t tokens() const { return static_cast<uint32_t>(row_of_.size()); }
  uint32_t tokens(size_t row) const { return first_[row + 1] - first_[row]; }
  uint32_t first_token(size_t row) const { return first_[row]; }
  size_t row_of(uint32_t token) const { return row_of_[token]; }
  uint32_t position(uint32_t token) const;

  // K and V of every token: k[token][kv_heads * k_dim], v[token][kv_heads * v_dim]. False: a token
  // was not finite and zeros were stored; not_finite[token] (may be null) says which.
  bool write(size_t layer, const float* k, const float* v, uint8_t* not_finite);
  // Advances a recurrent layer by every token, row by row in order: inputs[token][input_floats].
  // Rows run on several threads. False and not_finite as in write.
  bool advance(size_t layer, const float* inputs, GroupMixer mixer, uint8_t* not_finite);
  // The attention read, bound to each row's code, place and positions.
  void read(size_t layer, const GroupQueries& queries);
  Status commit();

 private:
  friend class KvGroup;
  explicit Append(KvGroup& group) : group_(&group) {}
  Sequence& sequence(uint32_t token) const;
  bool waits_for_anchor(size_t layer, uint32_t token) const;

  KvGroup* group_ = nullptr;
  Array<uint32_t> first_;   // [rows + 1]: each row's first token
  Array<uint32_t> row_of_;  // [tokens]
  Array<kernels::Visible> visible_;
  Array<kernels::AttentionJob> jobs_;  // at most two for each row
};

struct GroupDescription {
  size_t rows = 0, tokens = 0;
  std::vector<std::pair<std::string, size_t>> signatures;  // with their rows, by first appearance
  size_t bytes = 0;         // of the rows' pages, each page counted once
  size_t shared_bytes = 0;  // of those that more than one row here, or others, hold
};

class KvGroup {
 public:
  // Without rows. `blank` is an empty row: the form of rows that the group makes and projects.
  static Result<KvGroup> make(Sequence blank, const GroupTools& tools);
  KvGroup(KvGroup&&) noexcept = default;
  KvGroup& operator=(KvGroup&&) noexcept = default;
  ~KvGroup() = default;

  size_t size() const { return count_; }
  Sequence& row(size_t index) { return *rows_[index].sequence; }
  const Sequence& row(size_t index) const { return *rows_[index].sequence; }
  const GroupTools& tools() const { return tools_; }

  // ---- membership
  // The group becomes these rows (shared, in this order); the given rows stay the caller's.
  Status adopt_rows(std::span<const Sequence* const> rows);
  // The group becomes the rows of all sources in order, itself among them if named; without rows it
  // becomes empty. Sources are never consumed.
  Status merge_rows(std::span<const RowSource> sources);
  // Row i becomes what row keep[i] was: drops, reorders, duplicates.
  Status filter_rows(std::span<const size_t> keep);
  // A row of its own with the same past.
  Result<Sequence> extract_row(size_t row) const;
  Result<Sequence> make_row() const;  // an empty row of the group's form
  Result<KvGroup> make_empty_batch() const;
  void dispose();  // drops every row, and open rounds

  // ---- writes
  // One token for each row.
  Result<Append> append_decode();
  // counts[row] tokens (0 too): a prefill chunk, a verification window, rows of any lengths.
  Result<Append> append_window(std::span<const uint32_t> counts);
  // A known span, position by position: `body` writes (and may read) every layer of `step`, whose
  // rows have one token each, the offset-th of their span. Equal to that many decodes. After an
  // error the positions before it are appended.
  Status append_committed(std::span<const uint32_t> counts,
                          FunctionRef<Status(Append& step, uint32_t offset)> body);

  // ---- rounds
  bool can_begin(std::span<const uint32_t> drafts) const;
  // drafts: one number, or one for each row. An error names the first row that failed; rows that
  // fail are poisoned, the others' rounds are open.
  Status spec_round_begin(std::span<const uint32_t> drafts);
  Status spec_round_commit();  // keeps everything
  // keep: positions of the round to keep, one number (at most what each row took) or one for each.
  Status spec_round_rollback(std::span<const uint32_t> keep);
  Status spec_round_rollback(std::span<const uint32_t> keep, GroupReplay replay);
  bool poisoned(size_t row) const { return rows_[row].sequence->round() == Round::poisoned; }

  // ---- going back
  // Forgets up to counts[row] newest positions of each row, all or nothing: refused when one row
  // cannot go there.
  Status trim(std::span<const uint32_t> counts);
  bool is_trimmable(size_t row, uint32_t count) const;
  // The smallest non-zero length that a row can be cut to, 0 when any; the rows' largest.
  uint32_t minimum_reusable_offset(size_t row) const {
    return rows_[row].sequence->minimum_reusable_length();
  }
  uint32_t minimum_reusable_offset() const;

  // ---- sizes and names
  // Of one position of a row as it stores them now; the rows' largest, the group's form if none.
  size_t bytes_per_token(size_t row) const { return rows_[row].sequence->bytes_per_token(); }
  size_t bytes_per_token() const;
  // What the next `tokens` positions of every row take from the pool; of one row of the group's
  // form if there is none. The largest number where they fit no context.
  size_t projected_bytes(uint32_t tokens) const;
  size_t projected_bytes(size_t row, uint32_t tokens) const {
    return rows_[row].sequence->projected_bytes(tokens);
  }
  std::string signature() const;  // the rows' signatures, equal neighbours counted
  GroupDescription describe() const;

 private:
  friend class Append;
  struct Row {
    std::optional<Sequence> sequence;
    uint32_t round_from = 0;  // its length when the open round began
  };

  explicit KvGroup(Sequence blank) : blank_(std::move(blank)) {}
  static Result<std::unique_ptr<Row[]>> make_rows(size_t count);
  Status check_fit(const Sequence& row) const;
  Status share(const Row& from, Row& to) const;
  Status expect_between_steps(const char* operation) const;
  Status check_count(std::span<const uint32_t> numbers, const char* what) const;
  Status lay_out(Append& step, std::span<const uint32_t> counts) const;
  Status roll_back(std::span<const uint32_t> keep,
                   FunctionRef<Status(size_t row, uint32_t n)> resolve);
  void forget_step();

  Sequence blank_;
  GroupTools tools_;
  std::unique_ptr<Row[]> rows_;
  size_t count_ = 0;
  bool in_step_ = false;
};

}  // namespace gyre::kv
