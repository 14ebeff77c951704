// One row's KV over all layers: which pages hold its positions, in which codes. Owner: a request.
//
// A step is reserve(n), convert(), write() of positions [length, length + n), reads through view(),
// then commit(m), m <= n; commit(0) takes a failed step back. Positions are absolute; page tables
// have one entry for each 64 positions from 0 on, null where no page is held.
//
// Codes. A layer whose code is bf16 (or f32) has plain pages only. Any other layer has plain bf16
// pages while a query below the row's `start` may come, and coded pages once a step reaches
// position `start`: convert() makes the codes of the past, in pages built aside, and the commit
// that ends above start gives the plain ones back. Queries below start read plain pages, queries
// from start on read every key as a code, whatever the steps were. A row whose length is exactly
// `start` may still be plain, or coded when it was truncated to it: what a query reads is the same.
//
// Anchored layers: page 0 is wide (rotated bf16), and fix_anchor() makes the mean of its keys when
// it is complete, so an anchor exists from length 64 on, coded already or not.
//
// Sharing. clone() shares every page; whoever writes first to a shared page gets a copy (reserve).
// Bytes behind the length are zero, so equal histories have equal bytes (same_bytes).
//
// Rounds (speculation). begin(), steps as usual, resolve(keep): the row is then as if it had only
// seen the kept positions. While a round is open nothing is released. An error of begin or resolve
// poisons the row: only reset() and destruction are left.
//
// Move-only; one thread at a time for all calls but write(), view(), visible(); must die before its
// pool. Other errors leave the sequence as it was; out_of_memory, context_overflow, unsupported
// (a truncation that cannot be), internal (calls in a wrong order).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "kv/layer_state.h"
#include "kv/page_table.h"
#include "kv/pool.h"
#include "kv/spec.h"

namespace gyre::kv {

enum class Round : uint8_t { idle, open, poisoned };

// What queries read of a layer; valid until the next call that is not a read or a write.
struct View {
  KvLayout layout;
  std::byte* const* pages = nullptr;
  size_t page_count = 0;              // entries of `pages`
  const std::byte* anchor = nullptr;  // anchored layers, once a position >= 64 may be stored
  std::byte* page(uint32_t position) const {
    const size_t p = position / kernels::kPagePositions;
    return p < page_count ? pages[p] : nullptr;
  }
};

// One piece of a row's state, for state files and tests.
struct StoredPart {
  size_t layer = 0;
  Part part = Part::plain;
  size_t page = 0;  // 0 for an anchor
  std::span<std::byte> bytes;
  bool shared = false;
  KvLayout layout{};  // of a page
};

class Sequence {
 public:
  // Checks the layers: sizes, windows, codes, donors (an earlier or later layer that owns its
  // place).
  static Result<Sequence> make(PagePool& pool, const SequenceSpec& spec);
  // Another row with the same past. Not in a step or a round.
  Result<Sequence> clone() const;

  uint32_t length() const { return length_; }
  uint32_t reserved() const { return reserved_; }  // positions that have pages, >= length
  uint32_t max_positions() const { return max_positions_; }
  uint32_t start() const { return start_; }
  size_t layers() const { return count_; }
  // Does the layer have pages of its own? Donor readers and recurrent layers have none.
  bool owns(size_t layer) const { return layers_[layer].owns(); }
  // The state of a recurrent layer, to advance in a step once for each token; else null.
  RecurrentState* recurrent(size_t layer) {
    return layers_[layer].recurrent ? &*layers_[layer].recurrent : nullptr;
  }
  const RecurrentState* recurrent(size_t layer) const {
    return layers_[layer].recurrent ? &*layers_[layer].recurrent : nullptr;
  }
  const LayerSpec& spec(size_t layer) const { return layers_[layer].spec; }

  // Pages for positions [length, length + n) in every layer, copies of shared pages that will be
  // written, coded pages for the past too when the step reaches the start; or nothing.
  Status reserve(uint32_t n);
  // After reserve, before the step's writes: the codes of the past, when this step is the first
  // that needs them. Over the threads when given. On an error the row is as reserve left it.
  Status convert(const kernels::AttentionOps& ops, ThreadPool* threads);
  // Stores one position of a layer that owns its place: into the plain page and the coded one,
  // where each exists. False: not finite, zeros were stored. Positions may be written in any order
  // by any threads, but on an anchored layer a step stores those below 64 first, then calls
  // fix_anchor() when it stored position 63, then stores the rest.
  bool write(const kernels::AttentionOps& ops, size_t layer, uint32_t position, const float* k,
             const float* v);
  bool anchored(size_t layer) const { return owner(layer).anchored(); }
  // Does the step [length, reserved) complete the page that a layer's anchor is made of?
  bool completes_anchor() const;
  void fix_anchor(const kernels::AttentionOps& ops, size_t layer);

  // length += n, n <= reserved - length, and the rest of the step is forgotten.
  Status commit(uint32_t n);
  // What commit would answer: nothing else can go wrong in it.
  Status can_commit(uint32_t n) const;
  // Forgets positions from `length` on. Refused (unsupported) from 1 to below
  // minimum_reusable_length().
  Status truncate(uint32_t length);
  // What truncate takes besides 0: below it, a window has moved on or a past in bf16 is gone.
  // 0: anything.
  uint32_t minimum_reusable_length() const;
  // The largest length <= at_most that truncate takes. Recurrent layers go back to checkpoints
  // only.
  uint32_t reusable_length(uint32_t at_most) const;
  // Remembers the recurrent layers' states, so that truncate can return to this length.
  Status checkpoint();
  void reset();  // forgets everything, a round or a poisoning too

  // May a round of a token and `drafts` more be opened now? Looks at the context and the budget.
  bool can_begin(uint32_t drafts) const;
  // Opens a round that writes at most drafts + 1 positions; takes all its pages.
  Status begin(uint32_t drafts);
  // Closes it with the first `keep` of the positions that were committed in it. Recurrent layers
  // replay these where not all are kept.
  using Replay = FunctionRef<bool(size_t layer, const RecurrentToken&)>;
  Status resolve(uint32_t keep, Replay replay);
  Status resolve(uint32_t keep);  // without recurrent layers, or keeping all
  Round round() const { return round_; }
  void poison() { round_ = Round::poisoned; }

  // What a query reads: one below coded_from(layer) with coded = false, others with coded = true.
  View view(size_t layer, bool coded) const;
  // The first query that reads codes: 0, `start`, or none (the largest number).
  uint32_t coded_from(size_t layer) const;
  // What the query at a position sees.
  Visible visible(size_t layer, uint32_t position) const;

  size_t bytes() const;  // of the pages held, as the pool counts them
  // What reserve(n) and convert() add to that; the largest number where the context is too small.
  size_t projected_bytes(uint32_t n) const;
  // Bytes of one more position over all layers, as stored at this length; pages and windows aside.
  size_t bytes_per_token() const;
  // Rows with equal signatures can share, merge and restore each other's state.
  std::string signature() const;

  // Plain pages, coded ones, anchors: what is there, in a fixed order.
  bool holds_plain() const { return plain_; }
  bool holds_codes() const { return codes_ == Codes::ready; }
  void for_each_part(FunctionRef<void(const StoredPart&)> body) const;
  // Makes an empty row one of `length` positions, coded or not yet, whose parts are zeros for the
  // caller to fill: what for_each_part gives then is what it gave of the row that was saved.
  Status restore(uint32_t length, bool coded);
  // Same length, same form, same bytes (what lies behind the length counts as zero).
  bool same_bytes(const Sequence& other) const;
  uint64_t digest() const;  // equal for rows with the same bytes

 private:
  // Coded pages: none; taken, but without the past's codes; with all positions.
  enum class Codes : uint8_t { none, taken, ready };
  // Pages [from, end) of a table that a step needs anew; `written`: it writes into the tail page.
  struct Want {
    bool written = false;
    size_t from = 0, end = 0;
  };
  // A page that a step takes from the pool.
  struct Need {
    size_t layer;
    Part part;
    size_t page;
    bool copy;  // of the shared page that it will replace
  };

  Sequence() = default;
  const LayerState& owner(size_t layer) const {
    const int donor = layers_[layer].spec.donor;
    return layers_[donor < 0 ? layer : static_cast<size_t>(donor)];
  }
  Status check_usable(const char* call) const;
  Want wanted(const LayerState& layer, Part part, uint32_t target) const;
  // Everything that reserving up to position `target` takes; stops at the first error.
  Status for_each_need(uint32_t target, FunctionRef<Status(const Need&)> take) const;
  Status widen_tables(uint32_t target);
  Status prepare_scratch(uint32_t target);
  Status stage(const Need& need);
  void accept(uint32_t target);
  void discard();
  void encode_page(const kernels::AttentionOps& ops, const LayerState& layer, size_t page,
                   float* row) const;
  void erase_tails();
  void settle();
  // Recurrent layers (sequence_recurrent.cc).
  Status reserve_blocks(uint32_t n);
  void settle_blocks(bool keep);
  Status begin_recurrent(uint32_t tokens);
  Status resolve_recurrent(uint32_t keep, const Replay* replay);
  Status close(uint32_t keep, const Replay* replay);
  bool same_page(const Sequence& other, size_t layer, Part part, size_t page) const;

  PagePool* pool_ = nullptr;
  std::unique_ptr<LayerState[]> layers_;
  size_t count_ = 0;
  uint32_t length_ = 0, reserved_ = 0, max_positions_ = 0, start_ = 0;
  bool has_codes_ = false;   // some layer has a code
  bool plain_ = true;        // layers with codes have plain pages
  bool dirty_tail_ = false;  // a shared page may hold another row's positions behind the length
  Codes codes_ = Codes::none;
  Round round_ = Round::idle;
  uint32_t round_from_ = 0, round_limit_ = 0;
  Array<std::byte> scratch_;          // fix_anchor's, while a step may need it
  mutable Array<PageDemand> demand_;  // can_begin's
};

}  // namespace gyre::kv
