#include "kv/recurrent.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/memory.h"

namespace gyre::kv {

Status check_recurrent(const RecurrentShape& shape, const std::string& what) {
  constexpr uint32_t kMost = 1u << 16;
  constexpr uint64_t kMostFloats = uint64_t{1} << 29;
  bool good = true;
  for (uint32_t size : {shape.taps, shape.conv_dim, shape.heads, shape.v_dim, shape.k_dim})
    good = good && size <= kMost;
  good = good && shape.input_floats >= 1 && shape.input_floats <= 16 * kMost;
  // Three factors of 2^16 at most: the products stay below 2^48.
  const uint64_t conv = uint64_t{shape.taps} * shape.conv_dim;
  const uint64_t matrix = uint64_t{shape.heads} * shape.v_dim * shape.k_dim;
  if (good && conv + matrix != 0 && conv + matrix < kMostFloats - 64) return {};
  return fail(ErrorCode::bad_file, what,
              std::to_string(shape.taps) + " taps of " + std::to_string(shape.conv_dim) + ", " +
                  std::to_string(shape.heads) + " matrices of " + std::to_string(shape.v_dim) +
                  " by " + std::to_string(shape.k_dim) + ", inputs of " +
                  std::to_string(shape.input_floats),
              "sizes up to 65536 and a state below 2 GiB");
}

Result<RecurrentState> RecurrentState::make(PagePool& pool, const RecurrentShape& shape) {
  GYRE_TRY(check_recurrent(shape, "recurrent state"));
  RecurrentState made;
  made.pool_ = &pool;
  made.shape_ = shape;
  return made;
}

Status RecurrentState::expect_idle(const char* operation) const {
  if (phase_ == Phase::idle) return {};
  return fail(ErrorCode::internal, std::string("recurrent state: ") + operation,
              phase_ == Phase::open ? "in an open round" : "after a failed round", "an idle state");
}

Result<PageRef> RecurrentState::make_block() const {
  return pool_->allocate(shape_.block_bytes());
}

const float* RecurrentState::conv(const std::byte* block) const {
  return reinterpret_cast<const float*>(block);
}

const float* RecurrentState::matrix(const std::byte* block) const {
  return reinterpret_cast<const float*>(block + shape_.matrix_offset());
}

// One token from one block into another (or the same); a null block is all zeros.
bool RecurrentState::pass(const std::byte* before, std::byte* after, const float* input,
                          RecurrentMixer mixer) {
  if (before == nullptr) {
    std::memset(after, 0, shape_.block_bytes());
    before = after;
  }
  return mixer({input, conv(before), matrix(before), const_cast<float*>(conv(after)),
                const_cast<float*>(matrix(after))});
}

Status RecurrentState::reserve(uint32_t n) {
  if (phase_ == Phase::poisoned) return expect_idle("step");
  if (phase_ == Phase::open && n > round_room_ - (length_ - round_start_))
    return fail(ErrorCode::internal, "tokens of a round", std::to_string(n),
                "at most " + std::to_string(round_room_ - (length_ - round_start_)));
  if (!pending_) {
    GYRE_ASSIGN(pending_, make_block());
  }
  advanced_ = 0;
  return {};
}

bool RecurrentState::advance(const float* input, RecurrentMixer mixer) {
  if (phase_ == Phase::open) {
    auto* inputs = reinterpret_cast<float*>(inputs_.data());
    const size_t at = length_ - round_start_ + advanced_;
    std::memcpy(inputs + at * shape_.input_floats, input, shape_.input_floats * sizeof(float));
  }
  const std::byte* before = advanced_ == 0 ? committed_.data() : pending_.data();
  ++advanced_;
  return pass(before, pending_.data(), input, mixer);
}

Status RecurrentState::commit(uint32_t n) {
  if (n != 0 && n != advanced_)
    return fail(ErrorCode::internal, "recurrent state: commit", std::to_string(n),
                "the " + std::to_string(advanced_) + " tokens of the step");
  advanced_ = 0;
  if (n == 0) return {};
  std::swap(committed_, pending_);
  if (pending_.holders() > 1) pending_.reset();  // somebody else's state now: never written again
  length_ += n;
  return {};
}

Status RecurrentState::begin(uint32_t tokens) {
  GYRE_TRY(expect_idle("begin"));
  constexpr uint32_t kMostTokens = 1u << 16;
  if (tokens == 0 || tokens > kMostTokens)
    return fail(ErrorCode::internal, "tokens of a round", std::to_string(tokens),
                "1 to " + std::to_string(kMostTokens));
  GYRE_ASSIGN(PageRef inputs, pool_->allocate(shape_.input_bytes(tokens)));
  if (!pending_) {
    GYRE_ASSIGN(pending_, make_block());
  }
  inputs_ = std::move(inputs);
  before_round_ = committed_.share();
  round_start_ = length_;
  round_room_ = tokens;
  advanced_ = 0;
  phase_ = Phase::open;
  return {};
}

// The state behind the first `keep` tokens of the round, from the state before it.
bool RecurrentState::replay(uint32_t keep, RecurrentMixer mixer) {
  // In a round nobody but this state holds the block that its last step made.
  if (!pending_) pending_ = std::move(committed_);
  const auto* inputs = reinterpret_cast<const float*>(inputs_.data());
  const std::byte* before = before_round_.data();
  for (uint32_t i = 0; i < keep; ++i, before = pending_.data()) {
    if (!pass(before, pending_.data(), inputs + size_t{i} * shape_.input_floats, mixer))
      return false;
  }
  std::swap(committed_, pending_);
  return true;
}

void RecurrentState::end_round() {
  before_round_.reset();
  inputs_.reset();
  if (pending_.holders() > 1) pending_.reset();
  advanced_ = 0;
  round_room_ = 0;
  phase_ = Phase::idle;
}

Status RecurrentState::resolve(uint32_t keep, RecurrentMixer mixer) {
  if (phase_ != Phase::open)
    return fail(ErrorCode::internal, "recurrent state: resolve", "without a round", "begin first");
  const uint32_t taken = length_ - round_start_;
  if (keep > taken) {
    phase_ = Phase::poisoned;
    return fail(ErrorCode::internal, "tokens to keep", std::to_string(keep),
                "at most the " + std::to_string(taken) + " of the round");
  }
  if (keep == 0 && taken != 0) {
    pending_ = std::move(committed_);
    committed_ = before_round_.share();
  } else if (keep < taken && !replay(keep, mixer)) {
    phase_ = Phase::poisoned;
    return fail(ErrorCode::non_finite, "recurrent state: replay", {}, "finite values");
  }
  length_ = round_start_ + keep;
  end_round();
  return {};
}

Result<std::unique_ptr<RecurrentState::Checkpoint[]>> RecurrentState::make_list(uint32_t room) {
  std::unique_ptr<Checkpoint[]> made(allocation_must_fail() ? nullptr
                                                            : new (std::nothrow) Checkpoint[room]);
  if (made == nullptr) return fail(ErrorCode::out_of_memory, "recurrent checkpoints");
  return made;
}

Status RecurrentState::checkpoint() {
  GYRE_TRY(expect_idle("checkpoint"));
  if (length_ == 0) return {};
  if (checkpoint_count_ != 0 && checkpoints_[checkpoint_count_ - 1].length == length_) return {};
  if (checkpoint_count_ == checkpoint_room_) {
    const uint32_t room = std::max(4u, 2 * checkpoint_room_);
    GYRE_ASSIGN(auto wider, make_list(room));
    std::move(checkpoints_.get(), checkpoints_.get() + checkpoint_count_, wider.get());
    checkpoints_ = std::move(wider);
    checkpoint_room_ = room;
  }
  checkpoints_[checkpoint_count_++] = {committed_.share(), length_};
  return {};
}

uint32_t RecurrentState::reusable_length(uint32_t at_most) const {
  if (at_most >= length_) return length_;
  uint32_t best = 0;
  for (uint32_t i = 0; i < checkpoint_count_ && checkpoints_[i].length <= at_most; ++i)
    best = checkpoints_[i].length;
  return best;
}

uint32_t RecurrentState::smallest_length(uint32_t at_least) const {
  for (uint32_t i = 0; i < checkpoint_count_; ++i) {
    if (checkpoints_[i].length >= at_least) return checkpoints_[i].length;
  }
  return length_;
}

Status RecurrentState::truncate(uint32_t length) {
  GYRE_TRY(expect_idle("truncate"));
  if (length > length_)
    return fail(ErrorCode::internal, "truncate", std::to_string(length),
                "at most the length, " + std::to_string(length_));
  advanced_ = 0;
  if (length == 0) {
    reset();
    return {};
  }
  const uint32_t nearest = reusable_length(length);
  if (nearest != length)
    return fail(
        ErrorCode::unsupported, "truncate", std::to_string(length),
        "a checkpoint of the recurrent state; the one before is at " + std::to_string(nearest));
  uint32_t kept = 0;
  while (kept < checkpoint_count_ && checkpoints_[kept].length <= length) ++kept;
  if (length != length_) committed_ = checkpoints_[kept - 1].block.share();
  for (uint32_t i = kept; i < checkpoint_count_; ++i) checkpoints_[i] = {};
  checkpoint_count_ = kept;
  length_ = length;
  return {};
}

void RecurrentState::drop_checkpoints(uint32_t below) {
  uint32_t dead = 0;
  while (dead < checkpoint_count_ && checkpoints_[dead].length < below) ++dead;
  for (uint32_t i = dead; i < checkpoint_count_; ++i)
    checkpoints_[i - dead] = std::exchange(checkpoints_[i], {});
  for (uint32_t i = checkpoint_count_ - dead; i < checkpoint_count_; ++i) checkpoints_[i] = {};
  checkpoint_count_ -= dead;
}

void RecurrentState::drop_checkpoint(uint32_t length) {
  for (uint32_t i = 0; i < checkpoint_count_; ++i) {
    if (checkpoints_[i].length != length) continue;
    for (uint32_t j = i + 1; j < checkpoint_count_; ++j)
      checkpoints_[j - 1] = std::move(checkpoints_[j]);
    checkpoints_[--checkpoint_count_] = {};
    return;
  }
}

void RecurrentState::drop_spare() {
  pending_.reset();
  advanced_ = 0;
}

void RecurrentState::reset() {
  committed_.reset();
  pending_.reset();
  before_round_.reset();
  inputs_.reset();
  for (uint32_t i = 0; i < checkpoint_count_; ++i) checkpoints_[i] = {};
  checkpoint_count_ = length_ = advanced_ = round_start_ = round_room_ = 0;
  phase_ = Phase::idle;
}

Result<RecurrentState> RecurrentState::clone() const {
  GYRE_TRY(expect_idle("clone"));
  RecurrentState made;
  made.pool_ = pool_;
  made.shape_ = shape_;
  if (checkpoint_count_ != 0) {
    GYRE_ASSIGN(made.checkpoints_, make_list(checkpoint_count_));
    made.checkpoint_room_ = checkpoint_count_;
    for (uint32_t i = 0; i < checkpoint_count_; ++i)
      made.checkpoints_[i] = {checkpoints_[i].block.share(), checkpoints_[i].length};
    made.checkpoint_count_ = checkpoint_count_;
  }
  made.length_ = length_;
  made.committed_ = committed_.share();
  return made;
}

std::span<const std::byte> RecurrentState::image() const {
  if (!committed_) return {};
  return {committed_.data(), shape_.block_bytes()};
}

Status RecurrentState::restore_zeros(uint32_t length) {
  GYRE_TRY(expect_idle("restore"));
  PageRef block;
  if (length != 0) {
    GYRE_ASSIGN(block, make_block());
  }
  reset();
  committed_ = std::move(block);
  length_ = length;
  return {};
}

Status RecurrentState::restore(uint32_t length, std::span<const std::byte> image) {
  const size_t wanted = length == 0 ? 0 : shape_.block_bytes();
  if (image.size() != wanted)
    return fail(ErrorCode::bad_file, "recurrent state", std::to_string(image.size()) + " bytes",
                std::to_string(wanted));
  GYRE_TRY(restore_zeros(length));
  if (length != 0) std::memcpy(committed_.data(), image.data(), image.size());
  return {};
}

bool RecurrentState::same_bytes(const RecurrentState& other) const {
  const auto mine = image(), theirs = other.image();
  return shape_ == other.shape_ && length_ == other.length_ && mine.size() == theirs.size() &&
         (mine.empty() || std::memcmp(mine.data(), theirs.data(), mine.size()) == 0);
}

uint64_t RecurrentState::digest() const {
  const uint32_t head[] = {shape_.taps,  shape_.conv_dim, shape_.heads,
                           shape_.v_dim, shape_.k_dim,    length_};
  const auto bytes = image();
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), XXH3_64bits(head, sizeof head));
}

size_t RecurrentState::bytes() const {
  const size_t block = PagePool::page_cost(shape_.block_bytes());
  size_t total = 0;
  for (const PageRef* ref : {&committed_, &pending_, &before_round_}) total += *ref ? block : 0;
  for (uint32_t i = 0; i < checkpoint_count_; ++i) total += block;
  // A round that has not stepped yet and a checkpoint share their block with committed_.
  if (before_round_ && before_round_.data() == committed_.data()) total -= block;
  if (checkpoint_count_ != 0) {
    const std::byte* last = checkpoints_[checkpoint_count_ - 1].block.data();
    if (last == committed_.data() || last == before_round_.data()) total -= block;
  }
  if (inputs_) total += PagePool::page_cost(shape_.input_bytes(round_room_));
  return total;
}

size_t RecurrentState::projected_bytes() const {
  return pending_ ? 0 : PagePool::page_cost(shape_.block_bytes());
}

}  // namespace gyre::kv
