#include "kv/sequence.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace gyre::kv {
namespace {

using kernels::kPagePositions;

size_t pages_for(uint64_t positions) {
  return (positions + kPagePositions - 1) / kPagePositions;
}

// The first position that a query at `position` or later can see.
uint32_t first_seen(const LayerSpec& spec, uint32_t position) {
  if (spec.place == Place::full || position < spec.window) return 0;
  return position - spec.window + 1;
}

Status check_layer(std::span<const LayerSpec> layers, size_t index) {
  const LayerSpec& spec = layers[index];
  const std::string what = "KV layer " + std::to_string(index);
  if (spec.donor >= 0) {
    const auto donor = static_cast<size_t>(spec.donor);
    if (donor >= layers.size() || layers[donor].donor >= 0)
      return fail(ErrorCode::bad_file, what + ": donor", std::to_string(donor),
                  "a layer that owns its KV");
    return {};
  }
  if (spec.place == Place::sliding && spec.window == 0)
    return fail(ErrorCode::bad_file, what + ": window", "0", "at least 1");
  constexpr uint32_t kMost = 1u << 16;
  const KvLayout& layout = spec.layout;
  if (layout.kv_heads == 0 || layout.kv_heads > kMost || layout.k_dim == 0 ||
      layout.k_dim > kMost || layout.k_dim % 2 != 0 || layout.v_dim > kMost ||
      layout.v_dim % 2 != 0)
    return fail(ErrorCode::bad_file, what,
                std::to_string(layout.kv_heads) + " heads of " + std::to_string(layout.k_dim) +
                    " and " + std::to_string(layout.v_dim),
                "even dimensions up to 65536");
  return {};
}

}  // namespace

Result<Sequence> Sequence::make(PagePool& pool, std::span<const LayerSpec> layers,
                                uint32_t max_positions) {
  if (max_positions > std::numeric_limits<int32_t>::max())
    return fail(ErrorCode::context_overflow, "context", std::to_string(max_positions),
                "below 2^31 positions");
  for (size_t i = 0; i < layers.size(); ++i) GYRE_TRY(check_layer(layers, i));
  Sequence made;
  made.layers_.reset(allocation_must_fail() ? nullptr : new (std::nothrow) Layer[layers.size()]);
  if (made.layers_ == nullptr) return fail(ErrorCode::out_of_memory, "KV sequence");
  for (size_t i = 0; i < layers.size(); ++i) made.layers_[i].spec = layers[i];
  made.pool_ = &pool;
  made.count_ = layers.size();
  made.max_positions_ = max_positions;
  return made;
}

// Room in the table for `pages` pages.
Status Sequence::widen(Layer& layer, size_t pages) {
  if (pages <= layer.table.size()) return {};
  const size_t size = std::max<size_t>({pages, 2 * layer.table.size(), 16});
  GYRE_ASSIGN(auto table, Array<std::byte*>::make(size, "KV page table"));
  std::unique_ptr<PageRef[]> refs(allocation_must_fail() ? nullptr
                                                         : new (std::nothrow) PageRef[size]);
  if (refs == nullptr) return fail(ErrorCode::out_of_memory, "KV page table");
  for (size_t p = layer.first; p < layer.end; ++p) {
    table[p] = layer.table[p];
    refs[p] = std::move(layer.refs[p]);
  }
  layer.table = std::move(table);
  layer.refs = std::move(refs);
  return {};
}

void Sequence::drop(Layer& layer, size_t first, size_t end) {
  for (size_t p = first; p < end; ++p) {
    layer.table[p] = nullptr;
    layer.refs[p].reset();
  }
}

Status Sequence::reserve(uint32_t n) {
  const uint64_t wanted = uint64_t{length_} + n;
  if (wanted > max_positions_)
    return fail(ErrorCode::context_overflow, "positions", std::to_string(wanted),
                "at most " + std::to_string(max_positions_));
  if (wanted <= reserved_) return {};
  const size_t pages = pages_for(wanted);
  for (size_t i = 0; i < count_; ++i) {
    if (owns(i)) GYRE_TRY(widen(layers_[i], pages));
  }
  // What is added stays outside [first, end) until everything is there.
  size_t layer = 0, page = 0;
  Status status;
  for (; layer < count_ && status.ok(); ++layer) {
    Layer& of = layers_[layer];
    if (!owns(layer)) continue;
    for (page = of.end; page < pages && status.ok(); ++page) {
      auto ref = pool_->allocate(of.spec.layout.page_bytes());
      if (!ref.ok()) {
        status = std::move(ref).error();
        break;
      }
      of.refs[page] = std::move(*ref);
      of.table[page] = of.refs[page].data();
    }
  }
  for (size_t i = 0; i < count_; ++i) {
    if (!owns(i)) continue;
    Layer& of = layers_[i];
    if (status.ok()) {
      of.end = std::max(of.end, pages);
    } else {
      drop(of, of.end, std::max(of.end, pages));
    }
  }
  if (status.ok()) reserved_ = static_cast<uint32_t>(wanted);
  return status;
}

Status Sequence::commit(uint32_t n) {
  if (n > reserved_ - length_)
    return fail(ErrorCode::internal, "commit", std::to_string(n),
                "at most the " + std::to_string(reserved_ - length_) + " reserved positions");
  length_ += n;
  for (size_t i = 0; i < count_; ++i) {
    if (!owns(i)) continue;
    Layer& of = layers_[i];
    const size_t keep = std::min<size_t>(first_seen(of.spec, length_) / kPagePositions, of.end);
    if (keep <= of.first) continue;
    drop(of, of.first, keep);
    of.first = keep;
  }
  return {};
}

uint32_t Sequence::minimum_length() const {
  uint32_t most = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (!owns(i) || layers_[i].first == 0) continue;
    const uint64_t kept = layers_[i].first * kPagePositions;
    most = std::max(most, static_cast<uint32_t>(kept + layers_[i].spec.window - 1));
  }
  return most;
}

Status Sequence::truncate(uint32_t length) {
  if (length > length_)
    return fail(ErrorCode::internal, "truncate", std::to_string(length),
                "at most the length, " + std::to_string(length_));
  if (length == 0) {
    reset();
    return {};
  }
  if (length < minimum_length())
    return fail(ErrorCode::unsupported, "truncate", std::to_string(length),
                "at least " + std::to_string(minimum_length()) +
                    ": a sliding layer has released what is before");
  const size_t pages = pages_for(length);
  for (size_t i = 0; i < count_; ++i) {
    if (!owns(i)) continue;
    Layer& of = layers_[i];
    // A window of 1 may have released every page before `length`.
    const size_t end = std::max(pages, of.first);
    if (end >= of.end) continue;
    drop(of, end, of.end);
    of.end = end;
  }
  length_ = length;
  reserved_ = length;
  return {};
}

void Sequence::reset() {
  for (size_t i = 0; i < count_; ++i) {
    if (!owns(i)) continue;
    drop(layers_[i], layers_[i].first, layers_[i].end);
    layers_[i].first = layers_[i].end = 0;
  }
  length_ = reserved_ = 0;
}

std::byte* Sequence::page(size_t layer, uint32_t position) const {
  const Layer& of = owner(layer);
  const size_t p = position / kPagePositions;
  return p < of.end && p >= of.first ? of.table[p] : nullptr;
}

Visible Sequence::visible(size_t layer, uint32_t position) const {
  return {first_seen(owner(layer).spec, position), position + 1};
}

size_t Sequence::bytes() const {
  size_t total = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (owns(i))
      total += (layers_[i].end - layers_[i].first) *
               PagePool::page_cost(layers_[i].spec.layout.page_bytes());
  }
  return total;
}

size_t Sequence::projected_bytes(uint32_t n) const {
  const size_t pages = pages_for(uint64_t{length_} + n);
  size_t total = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (owns(i) && pages > layers_[i].end)
      total += (pages - layers_[i].end) * PagePool::page_cost(layers_[i].spec.layout.page_bytes());
  }
  return total;
}

}  // namespace gyre::kv
