// The state of a recurrent layer of one row: a convolution's last inputs and a matrix for each
// head, in f32, advanced token by token. It holds no positions, so going back is a matter of
// snapshots and replay.
//
// A step is reserve(n), then advance() for each token in order, then commit(n). The first token
// reads the committed block and writes another one, the rest work in place there: a committed block
// is never written, so snapshots and clones are handles to it, and a step that is not committed
// leaves no trace. A round (begin, steps, resolve) also keeps its tokens' inputs, and keeping k of
// them means replaying k from the state before the round. Blocks come from the page pool.
//
// Owner: a Sequence (a request). Move-only; one thread at a time; must die before its pool. Errors
// leave the state as it was, except that a resolve that fails poisons it: then only destruction and
// reset() are left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "base/result.h"
#include "kv/pool.h"

namespace gyre::kv {

struct RecurrentShape {
  uint32_t taps = 0, conv_dim = 0;           // conv [taps][conv_dim], oldest first: kernel size - 1
  uint32_t heads = 0, v_dim = 0, k_dim = 0;  // matrix [heads][v_dim][k_dim]
  uint32_t input_floats = 0;                 // what advance() takes for one token

  bool operator==(const RecurrentShape&) const = default;
  size_t conv_floats() const { return size_t{taps} * conv_dim; }
  size_t matrix_floats() const { return size_t{heads} * v_dim * k_dim; }
  // A block: conv, zeros up to a cache line, matrix.
  size_t matrix_offset() const { return (conv_floats() * sizeof(float) + 63) / 64 * 64; }
  size_t block_bytes() const { return matrix_offset() + matrix_floats() * sizeof(float); }
  // A round's: at most 2^16 tokens of 2^20 floats.
  size_t input_bytes(uint32_t tokens) const {
    return size_t{tokens} * input_floats * sizeof(float);
  }
};

// Sizes in range: each at most 65536, a block below 2 GiB and not empty. Errors: bad_file.
Status check_recurrent(const RecurrentShape& shape, const std::string& what);

// One token's change. `before` and `after` may be the same memory; every element of `after` must be
// written, the element of a place from `before` at that place or at a later one (a convolution
// shifts towards the oldest, a matrix works element by element).
struct RecurrentToken {
  const float* input;  // [input_floats]
  const float* conv_before;
  const float* matrix_before;
  float* conv_after;
  float* matrix_after;
};
// False: a value that is not finite appeared. A pure function of input and state.
using RecurrentMixer = FunctionRef<bool(const RecurrentToken&)>;

class RecurrentState {
 public:
  static Result<RecurrentState> make(PagePool& pool, const RecurrentShape& shape);

  const RecurrentShape& shape() const { return shape_; }
  uint32_t length() const { return length_; }  // committed tokens
  bool open() const { return phase_ == Phase::open; }
  bool poisoned() const { return phase_ == Phase::poisoned; }

  // Room to advance by n tokens; forgets tokens that were not committed. Errors: out_of_memory;
  // internal (poisoned, or more tokens than the round was opened for).
  Status reserve(uint32_t n);
  // The next token of the step. False: not finite; the row is then at its end.
  bool advance(const float* input, RecurrentMixer mixer);
  uint32_t advanced() const { return advanced_; }  // tokens of the step under way
  // n = what was advanced, or 0: forgets the step. A part of a step needs a round.
  Status commit(uint32_t n);

  // A round of at most `tokens` tokens. Everything that resolve needs is allocated here. Errors:
  // out_of_memory, internal (not idle).
  Status begin(uint32_t tokens);
  // Keeps the first `keep` tokens of the round, uncommitted ones forgotten. `mixer` replays them
  // where not all are kept.
  Status resolve(uint32_t keep, RecurrentMixer mixer);

  // Remembers the present state, so that truncate can return to it. Idle only.
  Status checkpoint();
  // To nothing (0), the present length, or a checkpoint's; later checkpoints are dropped. Anything
  // else is refused (unsupported). Idle only.
  Status truncate(uint32_t length);
  // The largest length <= at_most that truncate takes.
  uint32_t reusable_length(uint32_t at_most) const;
  // The smallest length >= at_least that truncate takes; at_least <= the length.
  uint32_t smallest_length(uint32_t at_least) const;
  void drop_checkpoints(uint32_t below);
  void drop_checkpoint(uint32_t length);  // the one of this length, if there is one
  void reset();                           // forgets everything, also that it was poisoned

  // Shares the block and the checkpoints. Idle only; a step that is not committed is left out.
  Result<RecurrentState> clone() const;

  bool shared() const { return committed_.holders() > 1; }
  // The committed block for a state file; empty at length 0.
  std::span<const std::byte> image() const;
  // Becomes a state of `length` tokens with these bytes, or with zeros for the caller to fill
  // through image(). Idle only.
  Status restore(uint32_t length, std::span<const std::byte> image);
  Status restore_zeros(uint32_t length);

  bool same_bytes(const RecurrentState& other) const;  // shape, length, committed block
  uint64_t digest() const;                             // of the same

  size_t bytes() const;            // of the blocks held, as the pool counts them
  size_t projected_bytes() const;  // what reserve adds to that
  void drop_spare();               // gives back what reserve took; not in a step

 private:
  enum class Phase : uint8_t { idle, open, poisoned };
  struct Checkpoint {
    PageRef block;
    uint32_t length = 0;
  };

  RecurrentState() = default;
  Status expect_idle(const char* operation) const;
  Result<PageRef> make_block() const;
  const float* conv(const std::byte* block) const;
  const float* matrix(const std::byte* block) const;
  bool pass(const std::byte* before, std::byte* after, const float* input, RecurrentMixer mixer);
  bool replay(uint32_t keep, RecurrentMixer mixer);
  static Result<std::unique_ptr<Checkpoint[]>> make_list(uint32_t room);
  void end_round();

  PagePool* pool_ = nullptr;
  RecurrentShape shape_;
  Phase phase_ = Phase::idle;
  uint32_t length_ = 0;
  uint32_t advanced_ = 0;  // tokens of the step under way
  PageRef committed_;      // null: length 0, all zeros
  PageRef pending_;        // the step's block; between steps a spare one with any bytes

  PageRef before_round_, inputs_;  // inputs_: [round_room_][input_floats]
  uint32_t round_start_ = 0, round_room_ = 0;

  std::unique_ptr<Checkpoint[]> checkpoints_;  // lengths ascending
  uint32_t checkpoint_count_ = 0, checkpoint_room_ = 0;
};

}  // namespace gyre::kv
