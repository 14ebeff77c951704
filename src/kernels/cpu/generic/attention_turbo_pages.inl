// Turbo codes to codebook values, in the form of a bf16 page (docs/formats/kv.md). Included in
// attention_turbo.cc, inside its unnamed namespace. A code's index stands in each half of a lane.

template <uint32_t kBits>
GYRE_WORD I book_values(const TurboTable& table, I index) {
  if constexpr (kBits <= 4 && !kLooksUpWords) {
    const B both = as_bytes(index | shift_left<8>(index));
    return (as_int(look_up(table.low, both)) & I::splat(0x00ff00ff)) |
           (as_int(look_up(table.high, both)) & I::splat(static_cast<int32_t>(0xff00ff00u)));
  } else {
    return look_up_pairs<kBits>(table.value, index);
  }
}

// Bits [kAt, kAt + kWidth) of each half, moved to bit kLow.
template <uint32_t kWidth, uint32_t kAt, uint32_t kLow>
GYRE_WORD I index_part(I x) {
  constexpr int32_t kMask = static_cast<int32_t>((((1u << kWidth) - 1) << kLow) * 0x00010001u);
  if constexpr (kAt > kLow) return shift_right<kAt - kLow>(x) & I::splat(kMask);
  if constexpr (kAt < kLow) return shift_left<kLow - kAt>(x) & I::splat(kMask);
  return x & I::splat(kMask);
}

template <uint32_t kWidth, uint32_t kLow, uint32_t... kPart>
GYRE_WORD void index_line(I x, I* out, std::integer_sequence<uint32_t, kPart...>) {
  if constexpr (kLow == 0) {
    ((out[kPart] = index_part<kWidth, kPart * kWidth, kLow>(x)), ...);
  } else {
    ((out[kPart] = out[kPart] | index_part<kWidth, kPart * kWidth, kLow>(x)), ...);
  }
}
template <uint32_t kWidth, uint32_t kLow>
GYRE_WORD void index_plane(const std::byte* lines, ptrdiff_t ahead, I* out) {
  constexpr uint32_t kPairs = 16 / kWidth;
#pragma GCC unroll 8
  for (uint32_t l = 0; l < kWidth; ++l, lines += 64) {
    if (ahead != 0) prefetch(lines + ahead);
    index_line<kWidth, kLow>(load_i(as_words(lines)), out + l * kPairs,
                             std::make_integer_sequence<uint32_t, kPairs>());
  }
}

// The codebooks of a row: of its whole groups, and of a last short one, from value `last_from` on.
struct Books {
  const TurboTable *whole, *last;
  uint32_t last_from;
  Books(const RowCode& code, uint32_t dim) {
    const uint32_t group = code.group == 0 ? dim : code.group;
    last_from = dim / group * group;
    whole = &turbo_table(least(group, dim), code.bits);
    last = last_from < dim ? &turbo_table(dim - last_from, code.bits) : whole;
  }
  const TurboTable& of(uint32_t value) const { return value < last_from ? *whole : *last; }
};

// The last dim % 32 values of 16 keys, or of 2 positions: a bit stream for each.
// word[pair of values][16] or word[value]: `stride` words from one pair or value to the next.
void unpack_key_tail(const TurboTable& table, uint32_t bits, const std::byte* from, uint32_t dim,
                     int32_t* to) {
  const uint32_t count = dim % 32;
  auto* cells = reinterpret_cast<uint16_t*>(to);
  for (uint32_t key = 0; key < kTile; ++key, from += count * bits / 8) {
    for (uint32_t d = 0; d < count; ++d)
      cells[d / 2 * 32 + key * 2 + d % 2] = table.value[get_code(from, d, bits)];
  }
}
void unpack_value_tail(const TurboTable& table, uint32_t bits, const std::byte* from, uint32_t dim,
                       int32_t* to) {
  const uint32_t count = dim % 32;
  auto* cells = reinterpret_cast<uint16_t*>(to);
  for (uint32_t p = 0; p < 2; ++p, from += count * bits / 8) {
    for (uint32_t d = 0; d < count; ++d) cells[d * 2 + p] = table.value[get_code(from, d, bits)];
  }
}

// A tile of 16 keys: [pair of dimensions][16][2].
template <uint32_t kBits>
void unpack_key_tile(const Books& books, const std::byte* from, uint32_t dim, ptrdiff_t ahead,
                     int32_t* to) {
  constexpr Planes kPlanes = planes(kBits);
  for (uint32_t d = 0; d + 32 <= dim; d += 32, from += kBits * 64, to += 16 * kTile) {
    const TurboTable& table = books.of(d);
    I index[16];
    index_plane<kPlanes.width[0], 0>(from, ahead, index);
    if constexpr (kPlanes.count == 2)
      index_plane<kPlanes.width[1], kPlanes.width[0]>(from + kPlanes.width[0] * 64, ahead, index);
#pragma GCC unroll 16
    for (uint32_t i = 0; i < 16; ++i) store(to + i * kTile, book_values<kBits>(table, index[i]));
  }
  if (dim % 32 != 0) unpack_key_tail(books.of(dim - 1), kBits, from, dim, to);
}

// A plane of 2 positions by 32 dimensions: 2 * kWidth words, which 8 / kWidth times hold the bits
// of 16 dimensions, and of the next 16.
template <uint32_t kWidth, uint32_t kLow>
GYRE_WORD void value_plane(const std::byte* from, I& first, I& second) {
  const I mask = I::splat(static_cast<int32_t>(((1u << kWidth) - 1) * 0x00010001u));
  I x;
  if constexpr (kWidth == 8) {
    x = load_i(as_words(from));
  } else {
    // lane / (2 * kWidth) * kWidth: half of the lane, without the bits below kWidth.
    const I lane = load_i(kLane);
    const I shift = shift_right<1>(lane) & I::splat(static_cast<int32_t>(8 - kWidth));
    x = shift_right(repeat<8 * kWidth>(from), shift);
  }
  const I low = x & mask, high = shift_right<8>(x) & mask;
  if constexpr (kLow == 0) {
    first = low;
    second = high;
  } else {
    first = first | shift_left<kLow>(low);
    second = second | shift_left<kLow>(high);
  }
}

// Pairs [begin, end) of positions: [pair][dimension][2].
template <uint32_t kBits>
void unpack_value_pairs(const Books& books, const std::byte* from, uint32_t dim, uint32_t begin,
                        uint32_t end, ptrdiff_t ahead, int32_t* to) {
  constexpr Planes kPlanes = planes(kBits);
  constexpr size_t kBlockBytes = size_t{kBits} * 8;
  from += begin * (size_t{2} * dim * kBits / 8);
  to += size_t{begin} * dim;
  for (uint32_t pair = begin; pair < end; ++pair) {
    for (uint32_t d = 0; d + 32 <= dim; d += 32, from += kBlockBytes, to += 32) {
      if (ahead != 0) prefetch(from + ahead);
      const TurboTable& table = books.of(d);
      I low, high;
      value_plane<kPlanes.width[0], 0>(from, low, high);
      if constexpr (kPlanes.count == 2)
        value_plane<kPlanes.width[1], kPlanes.width[0]>(from + kPlanes.width[0] * 8, low, high);
      store(to, book_values<kBits>(table, low));
      store(to + kTile, book_values<kBits>(table, high));
    }
    if (const uint32_t count = dim % 32; count != 0) {
      unpack_value_tail(books.of(dim - 1), kBits, from, dim, to);
      from += 2 * (count * size_t{kBits} / 8);
      to += count;
    }
  }
}

GYRE_WORD void unpack_keys(const Books& books, uint32_t bits, const std::byte* from, uint32_t dim,
                           ptrdiff_t ahead, int32_t* to) {
  switch (bits) {
    case 2:
      return unpack_key_tile<2>(books, from, dim, ahead, to);
    case 3:
      return unpack_key_tile<3>(books, from, dim, ahead, to);
    case 4:
      return unpack_key_tile<4>(books, from, dim, ahead, to);
    case 5:
      return unpack_key_tile<5>(books, from, dim, ahead, to);
    case 6:
      return unpack_key_tile<6>(books, from, dim, ahead, to);
    default:
      return unpack_key_tile<8>(books, from, dim, ahead, to);
  }
}

GYRE_WORD void unpack_values(const Books& books, uint32_t bits, const std::byte* from, uint32_t dim,
                             uint32_t begin, uint32_t end, ptrdiff_t ahead, int32_t* to) {
  switch (bits) {
    case 2:
      return unpack_value_pairs<2>(books, from, dim, begin, end, ahead, to);
    case 3:
      return unpack_value_pairs<3>(books, from, dim, begin, end, ahead, to);
    case 4:
      return unpack_value_pairs<4>(books, from, dim, begin, end, ahead, to);
    case 5:
      return unpack_value_pairs<5>(books, from, dim, begin, end, ahead, to);
    case 6:
      return unpack_value_pairs<6>(books, from, dim, begin, end, ahead, to);
    default:
      return unpack_value_pairs<8>(books, from, dim, begin, end, ahead, to);
  }
}
