// Unpacking affine codes of 2 to 6 bits into the form of 8 bits (docs/formats/kv.md). Included in
// attention_affine.cc, inside its unnamed namespace.

// Bits [kAt, kAt + kWidth) of each byte, moved to bit kLow.
template <uint32_t kWidth, uint32_t kAt, uint32_t kLow>
GYRE_WORD B part(I x) {
  constexpr uint8_t kMask = static_cast<uint8_t>(((1u << kWidth) - 1) << kLow);
  if constexpr (kAt > kLow) return as_bytes(shift_right<kAt - kLow>(x)) & B::splat(kMask);
  if constexpr (kAt < kLow) return as_bytes(shift_left<kLow - kAt>(x)) & B::splat(kMask);
  return as_bytes(x) & B::splat(kMask);
}

// One line of a plane of keys: 8 / kWidth words of dimensions.
template <uint32_t kWidth, uint32_t kLow, uint32_t... kPart>
GYRE_WORD void key_line(I x, B* out, std::integer_sequence<uint32_t, kPart...>) {
  if constexpr (kLow == 0) {
    ((out[kPart] = part<kWidth, kPart * kWidth, kLow>(x)), ...);
  } else {
    ((out[kPart] = out[kPart] | part<kWidth, kPart * kWidth, kLow>(x)), ...);
  }
}
template <uint32_t kWidth, uint32_t kLow>
GYRE_WORD void key_plane(const std::byte* lines, ptrdiff_t ahead, B* out) {
  constexpr uint32_t kWords = 8 / kWidth;
#pragma GCC unroll 4
  for (uint32_t l = 0; l < kWidth; ++l, lines += 64) {
    if (ahead != 0) prefetch(lines + ahead);
    key_line<kWidth, kLow>(load_i(as_words(lines)), out + l * kWords,
                           std::make_integer_sequence<uint32_t, kWords>());
  }
}

// A tile of 16 keys: [block of 32 dimensions][8][16][4].
template <uint32_t kBits>
void unpack_key_tile(const std::byte* from, uint32_t blocks, ptrdiff_t ahead, std::byte* to) {
  constexpr Planes kPlanes = planes(kBits);
  for (uint32_t b = 0; b < blocks; ++b, from += kBits * 64, to += 8 * 64) {
    B line[8];
    key_plane<kPlanes.width[0], 0>(from, ahead, line);
    if constexpr (kPlanes.count == 2)
      key_plane<kPlanes.width[1], kPlanes.width[0]>(from + kPlanes.width[0] * 64, ahead, line);
#pragma GCC unroll 8
    for (uint32_t w = 0; w < 8; ++w) store_line(to + w * 64, line[w]);
  }
}

GYRE_WORD void unpack_keys(uint32_t bits, const std::byte* from, uint32_t blocks, ptrdiff_t ahead,
                           std::byte* to) {
  switch (bits) {
    case 2:
      return unpack_key_tile<2>(from, blocks, ahead, to);
    case 3:
      return unpack_key_tile<3>(from, blocks, ahead, to);
    case 4:
      return unpack_key_tile<4>(from, blocks, ahead, to);
    case 5:
      return unpack_key_tile<5>(from, blocks, ahead, to);
    default:
      return unpack_key_tile<6>(from, blocks, ahead, to);
  }
}

alignas(64) constexpr int32_t kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// A plane of 4 positions by 32 dimensions: 4 * kWidth words, which 4 / kWidth times hold the bits
// of 16 dimensions, and of the next 16.
template <uint32_t kWidth, uint32_t kLow>
GYRE_WORD void value_plane(const std::byte* from, B& first, B& second) {
  constexpr uint8_t kMask = (1u << kWidth) - 1;
  I x;
  if constexpr (kWidth == 4) {
    x = load_i(as_words(from));
  } else {
    const I lane = load_i(kLane);
    x = shift_right(repeat<16 * kWidth>(from),
                    kWidth == 2 ? shift_left<1>(shift_right<3>(lane)) : shift_right<2>(lane));
  }
  const B low = as_bytes(x) & B::splat(kMask);
  const B high = as_bytes(shift_right<4>(x)) & B::splat(kMask);
  if constexpr (kLow == 0) {
    first = low;
    second = high;
  } else {
    first = first | as_bytes(shift_left<kLow>(as_int(low)));
    second = second | as_bytes(shift_left<kLow>(as_int(high)));
  }
}

// Words [begin, end) of 4 positions: [word][dimension][4].
template <uint32_t kBits>
void unpack_value_words(const std::byte* from, uint32_t dim, uint32_t begin, uint32_t end,
                        ptrdiff_t ahead, std::byte* to) {
  constexpr Planes kPlanes = planes(kBits);
  constexpr size_t kBlockBytes = size_t{kBits} * 16;
  const size_t first = size_t{begin} * (dim / 32), last = size_t{end} * (dim / 32);
  from += first * kBlockBytes;
  to += first * 128;
  for (size_t b = first; b < last; ++b, from += kBlockBytes, to += 128) {
    if (ahead != 0) prefetch(from + ahead);
    B low, high;
    value_plane<kPlanes.width[0], 0>(from, low, high);
    if constexpr (kPlanes.count == 2)
      value_plane<kPlanes.width[1], kPlanes.width[0]>(from + kPlanes.width[0] * 16, low, high);
    store_line(to, low);
    store_line(to + 64, high);
  }
}

GYRE_WORD void unpack_values(uint32_t bits, const std::byte* from, uint32_t dim, uint32_t begin,
                             uint32_t end, ptrdiff_t ahead, std::byte* to) {
  switch (bits) {
    case 2:
      return unpack_value_words<2>(from, dim, begin, end, ahead, to);
    case 3:
      return unpack_value_words<3>(from, dim, begin, end, ahead, to);
    case 4:
      return unpack_value_words<4>(from, dim, begin, end, ahead, to);
    case 5:
      return unpack_value_words<5>(from, dim, begin, end, ahead, to);
    default:
      return unpack_value_words<6>(from, dim, begin, end, ahead, to);
  }
}
