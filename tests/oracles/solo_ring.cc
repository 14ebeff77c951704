#include "oracles/solo_ring.h"

#include <algorithm>
#include <utility>

#include "oracles/require.h"

namespace gyre::oracles {

SoloRing::SoloRing(int64_t max_size, RowKind kind) : max_size_(max_size), kind_(kind) {
  require(max_size > 0, "solo ring: a window of at least one token");
}

SoloRing SoloRing::from_temporal(int64_t max_size, RowKind kind, Tokens columns, int64_t offset) {
  SoloRing ring(max_size, kind);
  require(offset >= 0, "solo ring: no negative offset");
  ring.columns_ = std::move(columns);
  ring.index_ = static_cast<int64_t>(ring.columns_.size());
  ring.offset_ = offset;
  return ring;
}

std::string SoloRing::signature() const {
  switch (kind_.form) {
    case RowKind::Form::plain:
      return "kv:rotating:" + std::to_string(max_size_);
    case RowKind::Form::quantized:
      return "kv:rotating-affine:" + std::to_string(max_size_) + ":" + std::to_string(kind_.group) +
             ":" + std::to_string(kind_.bits);
    case RowKind::Form::foreign:
      return "kv:foreign";
  }
  return "?";
}

Mask SoloRing::make_mask(int64_t tokens, std::optional<int64_t> window) const {
  const int64_t within = window.value_or(max_size_);
  if (tokens == 1) return no_mask(1, 1, std::min(max_size_, offset_ + 1));
  const int64_t offset = std::min(max_size_ - 1, offset_);
  if (offset + tokens <= within) return causal_mask(1, tokens, offset + tokens);
  return window_mask(offset, tokens, within);
}

AttentionRead SoloRing::append(const Tokens& tokens) {
  require(!tokens.empty(), "solo ring: at least one token");
  AttentionRead read;
  read.mask = make_mask(static_cast<int64_t>(tokens.size()));
  if (tokens.size() == 1) {
    write_one(tokens[0]);
  } else {
    write_block(tokens);
    read.kernel = ReadKernel::masked_window;
  }
  read.keys = Columns({fetched()});
  return read;
}

void SoloRing::write_one(Token token) {
  auto columns = static_cast<int64_t>(columns_.size());
  if (columns < max_size_ && offset_ >= columns) {
    // After a full ring lost its newest column for good, its offset says nothing about the room.
    const int64_t room = offset_ < max_size_ ? max_size_ - offset_ : max_size_ - columns;
    index_ = columns;
    columns_.insert(columns_.end(), static_cast<size_t>(std::min<int64_t>(256, room)), kNoToken);
  }
  columns = static_cast<int64_t>(columns_.size());
  if (columns > max_size_) {
    columns_.erase(columns_.begin(), columns_.begin() + (columns - max_size_));
    index_ = max_size_;
  }
  if (index_ == max_size_) index_ = 0;
  columns_.at(static_cast<size_t>(index_)) = token;
  ++offset_;
  ++index_;
}

void SoloRing::write_block(const Tokens& tokens) {
  columns_ = temporal();
  const auto live = static_cast<int64_t>(columns_.size());
  if (live > max_size_ - 1)
    columns_.erase(columns_.begin(), columns_.begin() + (live - max_size_ + 1));
  columns_.insert(columns_.end(), tokens.begin(), tokens.end());
  index_ = static_cast<int64_t>(columns_.size());
  offset_ += static_cast<int64_t>(tokens.size());
}

Tokens SoloRing::fetched() const {
  Tokens out = columns_;
  if (offset_ < max_size_) out.resize(static_cast<size_t>(offset_));
  return out;
}

Tokens SoloRing::temporal() const {
  Tokens out = columns_;
  if (index_ == static_cast<int64_t>(columns_.size())) return out;
  if (index_ < offset_)
    std::rotate(out.begin(), out.begin() + index_, out.end());
  else
    out.resize(static_cast<size_t>(index_));
  return out;
}

void SoloRing::trim(int64_t tokens) {
  require(tokens >= 0, "trim: no negative count");
  require(is_trimmable(), "trim: a ring that has not turned over");
  const int64_t count = std::min(offset_, tokens);
  offset_ -= count;
  index_ -= count;
}

void SoloRing::trim_block(int64_t tokens) {
  require(tokens >= 0, "trim_block: no negative count");
  require(index_ == static_cast<int64_t>(columns_.size()), "trim_block: right after a block");
  const int64_t count = std::min(offset_, tokens);
  require(count <= index_, "trim_block: columns that exist");
  offset_ -= count;
  columns_.resize(static_cast<size_t>(index_ - count));
  index_ -= count;
}

int64_t reusable_prefix(int64_t common, int64_t prompt, int64_t stored, bool trimmable,
                        int64_t minimum_reusable_offset) {
  require(common >= 0 && common <= prompt && common <= stored, "reusable_prefix: a common part");
  const int64_t length = std::min(common, prompt - 1);
  if (length <= 0) return 0;
  if (stored > length && (!trimmable || length < minimum_reusable_offset)) return 0;
  return length;
}

}  // namespace gyre::oracles
