// What a row's recurrent layers do in its steps, rounds and cuts.
#include <string>

#include "kv/sequence.h"

namespace gyre::kv {

// A block for each recurrent layer to work in, or for none more than before.
Status Sequence::reserve_blocks(uint32_t n) {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    if (!of.recurrent) continue;
    const bool fresh = of.recurrent->projected_bytes() != 0;
    if (Status status = of.recurrent->reserve(n); !status.ok()) {
      settle_blocks(false);
      return status;
    }
    of.fresh_block = of.fresh_block || fresh;
  }
  return {};
}

// The end of a step: the blocks that it took are kept or given back.
void Sequence::settle_blocks(bool keep) {
  for (size_t i = 0; i < count_; ++i) {
    LayerState& of = layers_[i];
    if (of.fresh_block && !keep) of.recurrent->drop_spare();
    of.fresh_block = false;
  }
}

Status Sequence::begin_recurrent(uint32_t tokens) {
  for (size_t i = 0; i < count_; ++i) {
    if (layers_[i].recurrent) GYRE_TRY(layers_[i].recurrent->begin(tokens));
  }
  return {};
}

Status Sequence::resolve_recurrent(uint32_t keep, const Replay* replay) {
  for (size_t i = 0; i < count_; ++i) {
    if (!layers_[i].recurrent) continue;
    if (replay == nullptr && keep != 0 && keep != length_ - round_from_)
      return fail(ErrorCode::internal, "resolve", std::to_string(keep),
                  "a replay for the recurrent layers");
    GYRE_TRY(layers_[i].recurrent->resolve(keep, [&](const RecurrentToken& token) {
      return replay != nullptr && (*replay)(i, token);
    }));
  }
  return {};
}

Status Sequence::checkpoint() {
  GYRE_TRY(check_usable("checkpoint"));
  if (round_ == Round::open || reserved_ != length_)
    return fail(ErrorCode::internal, "checkpoint", round_ == Round::open ? "a round" : "a step",
                "a row between steps");
  for (size_t i = 0; i < count_; ++i) {
    if (!layers_[i].recurrent) continue;
    Status status = layers_[i].recurrent->checkpoint();
    for (size_t j = 0; !status.ok() && j < i; ++j) {
      if (layers_[j].recurrent) layers_[j].recurrent->drop_checkpoint(length_);
    }
    GYRE_TRY(std::move(status));
  }
  return {};
}

}  // namespace gyre::kv
