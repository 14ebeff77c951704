#include "kernels/kv_page.h"

#include <cstring>

#include "kernels/codes/bit_stream.h"
#include "numerics/half.h"

namespace gyre::kernels {
namespace {

constexpr uint32_t kBlock = 32;       // values that the planes of a coded row are laid out by
constexpr uint32_t kMaxCoded = 1024;  // of a head

// Bits [shift, shift + width) of a byte of the head hold the bits of code `index` from `low` on.
struct Piece {
  size_t byte;
  uint32_t shift, width, index, low;
};

// The place of value e of a block of 32, in a plane before which `before` bits a value come; byte
// counts from the block's begin.
Piece k_piece(CodeKind kind, uint32_t before, uint32_t width, uint32_t key, uint32_t e) {
  if (kind == CodeKind::affine) {  // words of 4 bytes, of values 4 apart
    const uint32_t per = 8 / width, word = e / 4;
    return {((before + word / per) * size_t{16} + key) * 4 + e % 4, word % per * width, width, e,
            before};
  }
  const uint32_t per = 16 / width, pair = e / 2, bit = pair % per * width;  // words of 2 halves
  return {((before + pair / per) * size_t{16} + key) * 4 + e % 2 * 2 + bit / 8, bit % 8, width, e,
          before};
}
Piece v_piece(CodeKind kind, uint32_t before, uint32_t width, uint32_t position, uint32_t e) {
  if (kind == CodeKind::affine) {
    const uint32_t lanes = 4 * width;
    return {size_t{before} * 16 + e % lanes * 4 + position % 4, e / lanes * width, width, e,
            before};
  }
  const uint32_t lanes = 2 * width, bit = e / lanes * width;
  return {size_t{before} * 8 + e % lanes * 4 + position % 2 * 2 + bit / 8, bit % 8, width, e,
          before};
}

// What of a row lies where: codes by pieces, and runs of whole bytes (a turbo row's last dim % 32
// values, scales and factors).
struct Rows {
  Side side;
  RowCode code;
  uint32_t dim;

  uint32_t positions() const {  // that share a block's lines
    return side == Side::k ? 16 : code.kind == CodeKind::affine ? 4 : 2;
  }
  uint32_t blocks() const { return dim / kBlock; }
  size_t code_bytes() const { return size_t{dim} * code.bits / 8; }
  size_t block_bytes() const { return size_t{positions()} * kBlock * code.bits / 8; }
  // Where the codes of the positions that share lines with `position` begin.
  size_t lines(uint32_t position) const {
    const size_t row = side == Side::k ? code.row_bytes(dim) : code_bytes();
    return position / positions() * positions() * row;
  }

  template <class F>
  void for_pieces(uint32_t position, F&& each) const {
    const Planes parts = planes(code.bits);
    for (uint32_t b = 0; b < blocks(); ++b) {
      for (uint32_t e = 0; e < kBlock; ++e) {
        uint32_t before = 0;
        for (uint32_t p = 0; p < parts.count; before += parts.width[p++]) {
          Piece piece = side == Side::k
                            ? k_piece(code.kind, before, parts.width[p], position % 16, e)
                            : v_piece(code.kind, before, parts.width[p], position, e);
          piece.byte += lines(position) + b * block_bytes();
          piece.index += b * kBlock;
          each(piece);
        }
      }
    }
  }

  // each(byte in the head, byte in the row, count)
  template <class F>
  void for_runs(uint32_t position, F&& each) const {
    const size_t tail = (dim % kBlock) * size_t{code.bits} / 8;
    if (tail != 0)
      each(lines(position) + blocks() * block_bytes() + position % positions() * tail,
           blocks() * size_t{kBlock} * code.bits / 8, tail);
    // The factors: after the codes of the tile of 16 keys, or of all values.
    const uint32_t shared = side == Side::k ? 16 : kPagePositions, at = position % shared;
    const size_t begin = (side == Side::k ? lines(position) : 0) + size_t{shared} * code_bytes();
    const uint32_t groups = code.groups(dim);
    if (code.kind == CodeKind::affine) {
      for (uint32_t g = 0; g < groups; ++g) {
        const size_t cell = begin + (size_t{g} * shared + at) * 4;
        each(cell, code_bytes() + 2 * g, size_t{2});
        each(cell + 2, code_bytes() + 2 * (groups + g), size_t{2});
      }
      return;
    }
    if (groups == 0) return each(begin + at * size_t{4}, code_bytes(), size_t{4});
    for (uint32_t g = 0; g < groups; ++g)
      each(begin + (size_t{g} * shared + at) * 2, code_bytes() + 2 * g, size_t{2});
  }
};

void erase_row(const Rows& rows, std::byte* head, uint32_t position) {
  rows.for_pieces(position, [&](const Piece& piece) { head[piece.byte] = std::byte{0}; });
  rows.for_runs(position,
                [&](size_t at, size_t, size_t count) { std::memset(head + at, 0, count); });
}

template <class Cell, class Index>
void erase_cells(std::byte* head, uint32_t position, uint32_t dim, Index index) {
  for (uint32_t d = 0; d < dim; ++d) reinterpret_cast<Cell*>(head)[index(position, d, dim)] = {};
}

void erase_head(Side side, const RowCode& code, uint32_t dim, std::byte* head, uint32_t position) {
  const auto index = side == Side::k ? k_index : v_index;
  switch (code.kind) {
    case CodeKind::bf16:
      return erase_cells<uint16_t>(head, position, dim, index);
    case CodeKind::f32:
      return erase_cells<float>(head, position, dim, index);
    default:
      return erase_row({side, code, dim}, head, position);
  }
}

float load_cell(const RowCode& code, const std::byte* head, size_t index) {
  if (code.kind == CodeKind::f32) return reinterpret_cast<const float*>(head)[index];
  return bf16_to_f32(reinterpret_cast<const uint16_t*>(head)[index]);
}

}  // namespace

void put_row(Side side, const RowCode& code, uint32_t dim, std::byte* head, uint32_t position,
             const std::byte* row) {
  const Rows rows{side, code, dim};
  erase_row(rows, head, position);
  rows.for_pieces(position, [&](const Piece& piece) {
    const uint32_t value = get_code(row, piece.index, code.bits) >> piece.low;
    head[piece.byte] |= static_cast<std::byte>((value & ((1u << piece.width) - 1)) << piece.shift);
  });
  rows.for_runs(position, [&](size_t at, size_t from, size_t count) {
    std::memcpy(head + at, row + from, count);
  });
}

void get_row(Side side, const RowCode& code, uint32_t dim, const std::byte* head, uint32_t position,
             std::byte* row) {
  const Rows rows{side, code, dim};
  std::memset(row, 0, code.row_bytes(dim));
  rows.for_pieces(position, [&](const Piece& piece) {
    const uint32_t value =
        std::to_integer<uint32_t>(head[piece.byte]) >> piece.shift & ((1u << piece.width) - 1);
    put_code(row, piece.index, code.bits, value << piece.low);
  });
  rows.for_runs(position, [&](size_t at, size_t to, size_t count) {
    std::memcpy(row + to, head + at, count);
  });
}

KvLayout KvLayout::wide() const {
  KvLayout out = *this;
  out.code = kBf16Code;
  out.code.rotated = true;
  return out;
}

size_t KvLayout::anchor_bytes() const {
  return code.anchored ? size_t{2} * kv_heads * k_dim : 0;
}

void load_position(const KvLayout& layout, const std::byte* page, uint32_t position_in_page,
                   float* k, float* v) {
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    const std::byte* keys = page + h * layout.k_head_bytes();
    const std::byte* values = page + layout.v_offset() + h * layout.v_head_bytes();
    for (uint32_t d = 0; d < layout.k_dim; ++d)
      *k++ = load_cell(layout.code.k, keys, k_index(position_in_page, d, layout.k_dim));
    for (uint32_t d = 0; d < layout.v_dim; ++d)
      *v++ = load_cell(layout.code.v, values, v_index(position_in_page, d, layout.v_dim));
  }
}

void erase_positions(const KvLayout& layout, std::byte* page, uint32_t first, uint32_t end) {
  for (uint32_t h = 0; h < layout.kv_heads; ++h) {
    for (uint32_t p = first; p < end; ++p) {
      erase_head(Side::k, layout.code.k, layout.k_dim, page + h * layout.k_head_bytes(), p);
      erase_head(Side::v, layout.code.v, layout.v_dim,
                 page + layout.v_offset() + h * layout.v_head_bytes(), p);
    }
  }
}

void make_anchor(const KvLayout& anchored, const std::byte* wide_page0, std::byte* anchor) {
  const KvLayout wide = anchored.wide();
  for (uint32_t h = 0; h < wide.kv_heads; ++h) {
    const auto* keys = reinterpret_cast<const uint16_t*>(wide_page0 + h * wide.k_head_bytes());
    for (uint32_t d = 0; d < wide.k_dim; ++d, anchor += 2) {
      float lanes[kPagePositions];
      for (uint32_t p = 0; p < kPagePositions; ++p)
        lanes[p] = bf16_to_f32(keys[k_index(p, d, wide.k_dim)]);
      for (uint32_t width = kPagePositions / 2; width > 0; width /= 2) {
        for (uint32_t l = 0; l < width; ++l) lanes[l] = lanes[l] + lanes[l + width];
      }
      put_u16(anchor, f32_to_bf16_operand(lanes[0] * (1.0f / kPagePositions)));
    }
  }
}

Status check_layout(const KvLayout& layout, const std::string& what) {
  const LayerCode& code = layout.code;
  GYRE_TRY(check_row(code.k, layout.k_dim, what + ": K"));
  GYRE_TRY(check_row(code.v, layout.v_dim, what + ": V"));
  const bool coded = code.k.kind == CodeKind::affine || code.k.kind == CodeKind::turbo;
  const bool grouped = code.k.kind == CodeKind::turbo && code.k.group != 0;
  if (code.k.kind != code.v.kind ||
      (code.k.kind == CodeKind::turbo && grouped != (code.v.group != 0)))
    return fail(ErrorCode::unsupported, what + ": codes of K and V", "of two kinds", "one kind");
  if (code.anchored != grouped || (code.rotated && code.k.kind != CodeKind::bf16))
    return fail(ErrorCode::unsupported, what + ": code",
                code.anchored  ? "an anchor"
                : code.rotated ? "rotated"
                               : "a turbo group",
                "an anchor with grouped turbo codes, and rotated rows in bf16 only");
  if (coded && (layout.k_dim > kMaxCoded || layout.v_dim > kMaxCoded || layout.v_dim == 0))
    return fail(ErrorCode::unsupported, what + ": head sizes",
                std::to_string(layout.k_dim) + " and " + std::to_string(layout.v_dim),
                "1 to 1024 for coded rows");
  return {};
}

}  // namespace gyre::kernels
