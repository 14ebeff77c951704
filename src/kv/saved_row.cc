#include "kv/saved_row.h"

#include <cstring>

namespace gyre::kv {
namespace {

using kernels::erase_positions;
using kernels::kPagePositions;

StatePartKind kind_of(Part part) {
  switch (part) {
    case Part::plain:
      return StatePartKind::plain_page;
    case Part::coded:
      return StatePartKind::coded_page;
    case Part::recurrent:
      return StatePartKind::recurrent;
    default:
      return StatePartKind::anchor;
  }
}

StateLabel label_of(const RowOwner& owner, const Sequence& row) {
  return {owner.model, owner.scheme, row.signature(), kContractVersion};
}

// The page that holds the last position, when it holds others behind it.
bool is_tail(const StoredPart& part, uint32_t length) {
  return is_page(part.part) && part.page == length / kPagePositions && length % kPagePositions != 0;
}

// Before anything is allocated: the pages of the layers that keep everything are in the file, so
// that what they take was paid for in bytes of the file.
Status check_pages(const StateFile& file, const Sequence& blank) {
  Array<uint64_t> pages;
  GYRE_ASSIGN(pages, Array<uint64_t>::make(blank.layers(), "pages of a saved row"));
  const size_t end = pages_for(file.length());
  for (const StatePart& part : file.parts()) {
    const std::string what = file.name() + ": " + std::string(state_part_name(part.kind)) + " " +
                             std::to_string(part.index) + " of layer " + std::to_string(part.layer);
    if (part.layer >= blank.layers() ||
        (part.kind == StatePartKind::recurrent ? blank.recurrent(part.layer) == nullptr
                                               : !blank.owns(part.layer)))
      return fail(ErrorCode::bad_file, what, {}, "a layer that owns its state");
    if (part.kind != StatePartKind::plain_page && part.kind != StatePartKind::coded_page) continue;
    KvLayout layout = blank.spec(part.layer).layout;
    const bool has_code = blank.coded_from(part.layer) != UINT32_MAX;
    if ((part.kind == StatePartKind::coded_page) != (has_code && file.coded()) || part.index >= end)
      return fail(ErrorCode::bad_file, what, {}, "a part of a row of its length and codes");
    if (!file.coded() && has_code) layout.code = kBf16Code;
    // Page 0 of an anchored layer has its own size; read() compares it.
    const bool first_anchored = layout.code.anchored && part.index == 0;
    if (!first_anchored && part.bytes.size() != layout.page_bytes())
      return fail(ErrorCode::bad_file, what, std::to_string(part.bytes.size()) + " bytes",
                  std::to_string(layout.page_bytes()));
    ++pages[part.layer];
  }
  for (size_t i = 0; i < blank.layers(); ++i) {
    if (blank.owns(i) && blank.spec(i).place == Place::full && pages[i] != end)
      return fail(ErrorCode::bad_file, file.name() + ": layer " + std::to_string(i),
                  std::to_string(pages[i]) + " pages", std::to_string(end));
  }
  return {};
}

// What save_row and pack_row write: views of the row's pages, and copies of the last ones.
class RowPicture {
 public:
  Status make(const Sequence& row, const RowOwner& owner, std::span<const int32_t> tokens,
              std::string_view note) {
    if (row.round() != Round::idle || row.reserved() != row.length())
      return fail(ErrorCode::internal, "save", "a row in a step or a round", "a row between steps");
    size_t count = 0, tail_bytes = 0;
    row.for_each_part([&](const StoredPart& part) {
      ++count;
      if (is_tail(part, row.length())) tail_bytes += part.bytes.size();
    });
    GYRE_ASSIGN(parts_, Array<StatePart>::make(count, "parts of a state file"));
    GYRE_ASSIGN(tails_, Array<std::byte>::make(tail_bytes, "last pages of a state file"));
    size_t at = 0;
    std::byte* tail = tails_.data();
    row.for_each_part([&](const StoredPart& part) {
      std::span<const std::byte> bytes = part.bytes;
      if (is_tail(part, row.length())) {
        // A shared page may hold another row's positions behind this row's length.
        std::memcpy(tail, bytes.data(), bytes.size());
        erase_positions(part.layout, tail, row.length() % kPagePositions, kPagePositions);
        bytes = {tail, bytes.size()};
        tail += bytes.size();
      }
      parts_[at++] = {static_cast<uint32_t>(part.layer), kind_of(part.part),
                      static_cast<uint32_t>(part.page), bytes};
    });
    contents_ = {label_of(owner, row), row.length(), row.start(), row.holds_codes(), tokens, note,
                 parts_.span()};
    return {};
  }
  const StateContents& contents() const { return contents_; }

 private:
  Array<StatePart> parts_;
  Array<std::byte> tails_;
  StateContents contents_;
};

}  // namespace

Status save_row(const std::string& path, const Sequence& row, const RowOwner& owner,
                std::span<const int32_t> tokens, std::string_view note) {
  RowPicture picture;
  GYRE_TRY(picture.make(row, owner, tokens, note));
  return write_state_file(path, picture.contents());
}

Result<Array<std::byte>> pack_row(const Sequence& row, const RowOwner& owner,
                                  std::span<const int32_t> tokens, std::string_view note) {
  RowPicture picture;
  GYRE_TRY(picture.make(row, owner, tokens, note));
  return pack_state(picture.contents());
}

Result<Sequence> load_row(const StateFile& file, const RowOwner& owner, const Sequence& blank) {
  GYRE_TRY(file.expect(label_of(owner, blank)));
  if (file.start() != blank.start())
    return fail(ErrorCode::bad_file, file.name() + ": start", std::to_string(file.start()),
                std::to_string(blank.start()));
  GYRE_TRY(check_pages(file, blank));
  GYRE_ASSIGN(Sequence row, blank.clone());
  GYRE_TRY(row.restore(file.length(), file.coded()));
  size_t at = 0;
  Status status;
  row.for_each_part([&](const StoredPart& part) {
    const size_t index = at++;
    if (!status.ok()) return;
    if (index >= file.parts().size()) {
      status = fail(ErrorCode::bad_file, file.name() + ": parts",
                    std::to_string(file.parts().size()), "more");
      return;
    }
    const StatePart& found = file.parts()[index];
    if (found.layer != part.layer || found.kind != kind_of(part.part) || found.index != part.page ||
        found.bytes.size() != part.bytes.size()) {
      status = fail(ErrorCode::bad_file, file.name() + ": part " + std::to_string(index),
                    std::string(state_part_name(found.kind)) + " " + std::to_string(found.index) +
                        " of layer " + std::to_string(found.layer),
                    std::string(state_part_name(kind_of(part.part))) + " " +
                        std::to_string(part.page) + " of layer " + std::to_string(part.layer));
      return;
    }
    status = file.read_part(index, part.bytes.data());
  });
  GYRE_TRY(std::move(status));
  if (at != file.parts().size())
    return fail(ErrorCode::bad_file, file.name() + ": parts", std::to_string(file.parts().size()),
                std::to_string(at));
  return row;
}

}  // namespace gyre::kv
