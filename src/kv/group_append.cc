// Steps of a group: pages for all rows or none, writes, bound reads.
#include <algorithm>
#include <atomic>

#include "kv/group.h"

namespace gyre::kv {

using kernels::AttentionJob;
using kernels::kPagePositions;

Append::~Append() {
  if (group_ != nullptr) group_->forget_step();
}

Sequence& Append::sequence(uint32_t token) const {
  return *group_->rows_[row_of_[token]].sequence;
}

uint32_t Append::position(uint32_t token) const {
  return sequence(token).length() + token - first_[row_of_[token]];
}

// Positions behind page 0 are coded against the anchor that page 0 gives.
bool Append::waits_for_anchor(size_t layer, uint32_t token) const {
  const Sequence& row = sequence(token);
  return row.anchored(layer) && row.completes_anchor() && position(token) >= kPagePositions;
}

bool Append::write(size_t layer, const float* k, const float* v, uint8_t* not_finite) {
  const kernels::AttentionOps& ops = *group_->tools_.attention;
  const KvLayout& layout = group_->blank_.spec(layer).layout;
  const size_t k_row = size_t{layout.kv_heads} * layout.k_dim;
  const size_t v_row = size_t{layout.kv_heads} * layout.v_dim;
  std::atomic<bool> finite = true;
  const auto store = [&](bool waiting) {
    group_->tools_.threads->run(tokens(), [&](size_t index, int) {
      const auto token = static_cast<uint32_t>(index);
      if (waits_for_anchor(layer, token) != waiting) return;
      if (sequence(token).write(ops, layer, position(token), k + token * k_row, v + token * v_row))
        return;
      finite.store(false, std::memory_order_relaxed);
      if (not_finite != nullptr) not_finite[token] = 1;
    });
  };
  store(false);
  bool waiting = false;
  for (size_t r = 0; r < group_->count_; ++r) {
    Sequence& row = *group_->rows_[r].sequence;
    if (tokens(r) == 0 || !row.anchored(layer) || !row.completes_anchor()) continue;
    row.fix_anchor(ops, layer);
    waiting = true;
  }
  if (waiting) store(true);
  return finite;
}

bool Append::advance(size_t layer, const float* inputs, GroupMixer mixer, uint8_t* not_finite) {
  const size_t width = group_->blank_.spec(layer).recurrent.input_floats;
  std::atomic<bool> finite = true;
  group_->tools_.threads->run(group_->count_, [&](size_t r, int) {
    RecurrentState& state = *group_->rows_[r].sequence->recurrent(layer);
    for (uint32_t token = first_[r]; token < first_[r + 1]; ++token) {
      if (state.advance(inputs + token * width,
                        [&](const RecurrentToken& pass) { return mixer(token, pass); }))
        continue;
      finite.store(false, std::memory_order_relaxed);
      if (not_finite != nullptr) not_finite[token] = 1;
    }
  });
  return finite;
}

void Append::read(size_t layer, const GroupQueries& queries) {
  size_t jobs = 0;
  const auto add = [&](const Sequence& row, bool coded, uint32_t first, uint32_t count) {
    if (count == 0) return;
    const View view = row.view(layer, coded);
    AttentionJob job;
    job.layout = view.layout;
    job.pages = view.pages;
    job.anchor = view.anchor;
    job.queries = count;
    job.q_heads = queries.heads;
    job.q = queries.q + first * queries.q_ld;
    job.q_ld = queries.q_ld;
    job.q_scale = queries.scale;
    job.softcap = queries.softcap;
    job.sinks = queries.sinks;
    job.visible = &visible_[first];
    job.out = queries.out + first * queries.out_ld;
    job.out_ld = queries.out_ld;
    job.not_finite = queries.not_finite == nullptr ? nullptr : queries.not_finite + first;
    jobs_[jobs++] = job;
  };
  for (size_t r = 0; r < group_->count_; ++r) {
    const Sequence& row = *group_->rows_[r].sequence;
    const uint32_t first = first_[r], count = tokens(r), from = row.length();
    for (uint32_t i = 0; i < count; ++i) visible_[first + i] = row.visible(layer, from + i);
    const uint32_t coded_from = row.coded_from(layer);
    const uint32_t plain = coded_from <= from ? 0 : std::min(count, coded_from - from);
    add(row, false, first, plain);
    add(row, true, first + plain, count - plain);
  }
  kernels::run_attention(*group_->tools_.attention, *group_->tools_.threads, {jobs_.data(), jobs},
                         *group_->tools_.scratch);
}

Status Append::commit() {
  KvGroup& group = *group_;
  // Nothing here allocates: what is refused is a step that was not written in full, of any row.
  for (size_t r = 0; r < group.count_; ++r) {
    if (tokens(r) != 0) GYRE_TRY(group.rows_[r].sequence->can_commit(tokens(r)));
  }
  for (size_t r = 0; r < group.count_; ++r) {
    if (tokens(r) != 0) GYRE_TRY(group.rows_[r].sequence->commit(tokens(r)));
  }
  group.in_step_ = false;
  group_ = nullptr;
  return {};
}

void KvGroup::forget_step() {
  for (size_t r = 0; r < count_; ++r) (void)rows_[r].sequence->commit(0);
  in_step_ = false;
}

Status KvGroup::lay_out(Append& step, std::span<const uint32_t> counts) const {
  constexpr uint64_t kMostTokens = uint64_t{1} << 31;
  uint64_t total = 0;
  for (size_t r = 0; r < count_; ++r) {
    total += counts[r];
    if (total > kMostTokens)
      return fail(ErrorCode::context_overflow, "tokens of a step", std::to_string(total),
                  "at most " + std::to_string(kMostTokens));
  }
  GYRE_ASSIGN(step.first_, Array<uint32_t>::make(count_ + 1, "tokens of a step"));
  GYRE_ASSIGN(step.row_of_, Array<uint32_t>::make(total, "rows of a step"));
  GYRE_ASSIGN(step.visible_, Array<kernels::Visible>::make(total, "visibility"));
  GYRE_ASSIGN(step.jobs_, Array<AttentionJob>::make(2 * count_, "attention jobs"));
  uint32_t at = 0;
  for (size_t r = 0; r < count_; ++r) {
    step.first_[r] = at;
    std::fill_n(step.row_of_.data() + at, counts[r], static_cast<uint32_t>(r));
    at += counts[r];
  }
  step.first_[count_] = at;
  return {};
}

Result<Append> KvGroup::append_window(std::span<const uint32_t> counts) {
  GYRE_TRY(expect_between_steps("append"));
  if (counts.size() != count_)
    return fail(ErrorCode::internal, "append", std::to_string(counts.size()) + " counts",
                std::to_string(count_) + " rows");
  Append step(*this);  // from here on, leaving takes every row back
  in_step_ = true;
  GYRE_TRY(lay_out(step, counts));
  for (size_t r = 0; r < count_; ++r) {
    if (counts[r] == 0) continue;
    GYRE_TRY(rows_[r].sequence->reserve(counts[r]));
    GYRE_TRY(rows_[r].sequence->convert(*tools_.attention, tools_.threads));
  }
  return step;
}

Result<Append> KvGroup::append_decode() {
  GYRE_ASSIGN(auto ones, Array<uint32_t>::make(count_, "tokens of a step"));
  std::fill_n(ones.data(), count_, 1u);
  return append_window(ones.span());
}

Status KvGroup::append_committed(std::span<const uint32_t> counts,
                                 FunctionRef<Status(Append& step, uint32_t offset)> body) {
  GYRE_TRY(check_count(counts, "append_committed"));
  GYRE_ASSIGN(auto now, Array<uint32_t>::make(count_, "tokens of a step"));
  uint32_t most = 0;
  for (size_t r = 0; r < count_; ++r) most = std::max(most, counts[r]);
  for (uint32_t offset = 0; offset < most; ++offset) {
    for (size_t r = 0; r < count_; ++r) now[r] = counts[r] > offset;
    GYRE_ASSIGN(Append step, append_window(now.span()));
    GYRE_TRY(body(step, offset));
    GYRE_TRY(step.commit());
  }
  return {};
}

}  // namespace gyre::kv
