// What a row holds, to count, to save and to compare.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "kv/sequence.h"

namespace gyre::kv {
namespace {

using kernels::kPagePositions;

std::string code_name(const kernels::RowCode& code) {
  static constexpr const char* kNames[] = {"bf16", "f32", "affine", "turbo"};
  std::string out = kNames[static_cast<size_t>(code.kind)];
  if (code.kind == kernels::CodeKind::bf16 || code.kind == kernels::CodeKind::f32) return out;
  out += std::to_string(code.bits);
  return code.group == 0 ? out : out + "g" + std::to_string(code.group);
}

std::string layer_name(const LayerSpec& spec) {
  if (spec.donor >= 0) return "donor" + std::to_string(spec.donor);
  if (spec.place == Place::recurrent) {
    const RecurrentShape& shape = spec.recurrent;
    return "recurrent/" + std::to_string(shape.taps) + "x" + std::to_string(shape.conv_dim) + "+" +
           std::to_string(shape.heads) + "x" + std::to_string(shape.v_dim) + "x" +
           std::to_string(shape.k_dim);
  }
  const KvLayout& layout = spec.layout;
  return (spec.place == Place::full ? "full" : "sliding" + std::to_string(spec.window)) + "/" +
         std::to_string(layout.kv_heads) + "x" + std::to_string(layout.k_dim) + "+" +
         std::to_string(layout.v_dim) + "/" + (layout.code.anchored ? "anchored-" : "") +
         code_name(layout.code.k) + "+" + code_name(layout.code.v);
}

}  // namespace

size_t Sequence::bytes() const {
  size_t total = 0;
  for_each_part([&](const StoredPart& part) {
    if (part.part != Part::recurrent) total += PagePool::page_cost(part.bytes.size());
  });
  for (size_t i = 0; i < count_; ++i)  // with spare blocks, snapshots and inputs of a round
    total += layers_[i].recurrent ? layers_[i].recurrent->bytes() : 0;
  return total;
}

size_t Sequence::bytes_per_token() const {
  size_t total = 0;
  for (size_t i = 0; i < count_; ++i) {
    if (!layers_[i].owns()) continue;
    const Part part = layers_[i].has_code() && !plain_ ? Part::coded : Part::plain;
    total += layers_[i].part_bytes(part, 1) / kPagePositions;
  }
  return total;
}

std::string Sequence::signature() const {
  std::string out = "kv:start" + std::to_string(has_codes_ ? start_ : 0);
  for (size_t i = 0; i < count_;) {
    const std::string name = layer_name(layers_[i].spec);
    size_t end = i + 1;
    while (end < count_ && layer_name(layers_[end].spec) == name) ++end;
    out += ":" + std::to_string(end - i) + "*" + name;
    i = end;
  }
  return out;
}

void Sequence::for_each_part(FunctionRef<void(const StoredPart&)> body) const {
  for (size_t i = 0; i < count_; ++i) {
    const LayerState& of = layers_[i];
    if (of.recurrent && of.recurrent->length() != 0) {
      const auto image = of.recurrent->image();
      body({i,
            Part::recurrent,
            0,
            {const_cast<std::byte*>(image.data()), image.size()},
            of.recurrent->shared(),
            {}});
    }
    if (!of.owns()) continue;
    for (const Part part : {Part::plain, Part::coded}) {
      const PageTable& table = of.table(part);
      for (size_t p = table.first(); p < table.end(); ++p)
        body({i,
              part,
              p,
              {table.page(p), of.part_bytes(part, p)},
              table.shared(p),
              of.layout(part, p)});
    }
    if (of.anchor)
      body({i,
            Part::anchor,
            0,
            {of.anchor.data(), of.part_bytes(Part::anchor, 0)},
            of.anchor.holders() > 1,
            {}});
  }
}

Status Sequence::restore(uint32_t length, bool coded) {
  GYRE_TRY(check_usable("restore"));
  if (reserved_ != 0 || round_ == Round::open)
    return fail(ErrorCode::internal, "restore", std::to_string(reserved_), "an empty row");
  if (length == 0) return {};
  if (has_codes_ ? (coded ? length < start_ : length > start_ || start_ == 0) : coded)
    return fail(ErrorCode::bad_file, "state of " + std::to_string(length) + " positions",
                coded ? "coded" : "not coded", "codes from position " + std::to_string(start_));
  // Pages as after a step to `length`: a window holds only what its next query sees.
  if (length > max_positions_)
    return fail(ErrorCode::context_overflow, "positions", std::to_string(length),
                "at most " + std::to_string(max_positions_));
  const bool codes = has_codes_ && coded;
  Status status;
  for (size_t i = 0; i < count_ && status.ok(); ++i) {
    LayerState& of = layers_[i];
    if (of.recurrent) status = of.recurrent->restore_zeros(length);
    if (!of.owns()) continue;
    const Part part = codes && of.has_code() ? Part::coded : Part::plain;
    const size_t end = pages_for(length);
    const size_t first = std::min<size_t>(of.first_seen(length) / kPagePositions, end);
    status = of.table(part).widen(first, end);
    for (size_t p = first; p < end && status.ok(); ++p) status = stage({i, part, p, false});
    if (status.ok() && of.anchored() && length >= kPagePositions)
      status = stage({i, Part::anchor, 0, false});
  }
  if (!status.ok()) {
    discard();
    reset();
    return status;
  }
  accept(0);
  for (size_t i = 0; i < count_; ++i) layers_[i].anchor_fixed = bool{layers_[i].anchor};
  length_ = reserved_ = length;
  plain_ = !codes;
  codes_ = codes ? Codes::ready : Codes::none;
  return {};
}

bool Sequence::same_page(const Sequence& other, size_t layer, Part part, size_t page) const {
  const std::byte* a = layers_[layer].table(part).page(page);
  const std::byte* b = other.layers_[layer].table(part).page(page);
  const size_t bytes = layers_[layer].part_bytes(part, page);
  const uint32_t from = length_ % kPagePositions;
  if (page != length_ / kPagePositions || from == 0 || (!dirty_tail_ && !other.dirty_tail_))
    return std::memcmp(a, b, bytes) == 0;
  const KvLayout layout = layers_[layer].layout(part, page);
  std::vector<std::byte> mine(a, a + bytes), theirs(b, b + bytes);
  kernels::erase_positions(layout, mine.data(), from, kPagePositions);
  kernels::erase_positions(layout, theirs.data(), from, kPagePositions);
  return mine == theirs;
}

bool Sequence::same_bytes(const Sequence& other) const {
  if (signature() != other.signature() || length_ != other.length_ || plain_ != other.plain_ ||
      codes_ != other.codes_)
    return false;
  for (size_t i = 0; i < count_; ++i) {
    const LayerState &a = layers_[i], &b = other.layers_[i];
    for (const Part part : {Part::plain, Part::coded}) {
      const PageTable &mine = a.table(part), &theirs = b.table(part);
      if (mine.first() != theirs.first() || mine.end() != theirs.end()) return false;
      for (size_t p = mine.first(); p < mine.end(); ++p)
        if (!same_page(other, i, part, p)) return false;
    }
    if (bool{a.anchor} != bool{b.anchor}) return false;
    if (a.recurrent && !a.recurrent->same_bytes(*b.recurrent)) return false;
    if (a.anchor &&
        std::memcmp(a.anchor.data(), b.anchor.data(), a.part_bytes(Part::anchor, 0)) != 0)
      return false;
  }
  return true;
}

uint64_t Sequence::digest() const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&hash](const void* data, size_t n) {
    for (size_t i = 0; i < n; ++i)
      hash = (hash ^ static_cast<const uint8_t*>(data)[i]) * 0x100000001b3;
  };
  const uint32_t form[] = {length_, plain_, static_cast<uint32_t>(codes_)};
  add(form, sizeof form);
  for_each_part([&](const StoredPart& part) {
    const uint64_t name[] = {part.layer, static_cast<uint64_t>(part.part), part.page};
    add(name, sizeof name);
    std::vector<std::byte> bytes(part.bytes.begin(), part.bytes.end());
    if (dirty_tail_ && is_page(part.part) && part.page == length_ / kPagePositions)
      kernels::erase_positions(layers_[part.layer].layout(part.part, part.page), bytes.data(),
                               length_ % kPagePositions, kPagePositions);
    add(bytes.data(), bytes.size());
  });
  return hash;
}

}  // namespace gyre::kv
