// The loops of the quantised formats over panels and columns. Included in a target region.
//
// Many columns: a segment of kTilePanels panels is unpacked once into L1 and swept by all columns,
// a few at a time. Few columns: one panel, lines unpacked straight into registers, one stream.
// Both do the same operations on every output, in the contract's order.

constexpr uint32_t kLanes = kPanelRows;
constexpr uint32_t kSegmentBlocks = kSegment / kActBlock;
constexpr uint32_t kMaxTile = kTileColumnsMax;
constexpr uint32_t kMaxCells = kMaxTile * 64;  // blocks times columns of one pass over K
constexpr int kMaxVectors = 6;

// Outputs before the first segment.
alignas(64) constexpr float kZeros[kTilePanels * kLanes] = {};

// What the columns of a tile bring to each block, [block][column].
struct Cells {
  int32_t start[2][kMaxCells + kLanes];
  float x[kMaxCells + kLanes], y[kMaxCells + kLanes];
};

// One segment of up to kTilePanels panels, unpacked.
struct Unpacked {
  alignas(64) uint8_t w[kSegmentBlocks][kTilePanels][8][64];
  float v[kSegmentBlocks][kTilePanels][kMaxVectors][kLanes];
  float ends[kTilePanels][2][kLanes];
};

struct Scratch {
  Unpacked unpacked;
  alignas(64) float out[kMaxTile][kTilePanels][kLanes];
  Cells cells;
};
static_assert(sizeof(Scratch) <= kLinearScratchBytes);

// Some columns' activations from some block on.
struct View {
  const int8_t* q;
  const float* d;
  const int32_t* start[2];
  const float *x, *y;
  size_t act_stride, cell_stride;  // columns from one block to the next

  GYRE_WORD View at(size_t blocks, size_t columns) const {
    View v = *this;
    const size_t act = blocks * act_stride + columns, cell = blocks * cell_stride + columns;
    v.q += act * kActBlock;
    v.d += act;
    v.start[0] += cell;
    v.start[1] += cell;
    v.x += cell;
    v.y += cell;
    return v;
  }
  template <class Family>
  GYRE_WORD Column column(int n) const {
    Column c = {};
    c.d = F::splat(d[n]);
    if constexpr (Family::kHasX) c.x = F::splat(x[n]);
    if constexpr (Family::kHasY) c.y = F::splat(y[n]);
    return c;
  }
};

// Fills the cells of blocks [begin, begin + blocks) and columns [first, first + n).
template <class Format>
void fill_cells(const Activations& a, uint32_t begin, uint32_t blocks, uint32_t first, uint32_t n,
                Cells& cells) {
  using Family = typename Format::Family;
  constexpr int kZero = Format::kZero - (Format::kWide && kSignedBytes ? 128 : 0);
  const I zero = I::splat(kZero), magic = I::splat(kMagicBits);
  for (uint32_t b = 0; b < blocks; ++b) {
    const int32_t* low = a.sum16 + (size_t{begin} + b) * 2 * a.stride + first;
    const float* d = a.d + (size_t{begin} + b) * a.stride + first;
    for (uint32_t c = 0; c < n; c += kLanes) {
      const size_t to = size_t{b} * n + c;
      const I sum0 = load_i(low + c), sum1 = load_i(low + a.stride + c);
      const F scale = load_f(d + c);
      if constexpr (Family::kPairs) {
        const I first_sum = Family::kChains == 2 ? sum0 : sum0 + sum1;
        store(cells.start[0] + to, magic - first_sum * zero);
        store(cells.start[1] + to, magic - sum1 * zero);
        if constexpr (Family::kHasX) store(cells.x + to, scale * to_float(sum0));
        if constexpr (Family::kHasY) store(cells.y + to, scale * to_float(sum1));
      } else {
        store(cells.start[0] + to, magic - (sum0 + sum1) * zero);
        if constexpr (Family::kHasX) store(cells.x + to, scale * F::splat(-kMagic));
        if constexpr (Family::kHasY) store(cells.y + to, scale * to_float(sum0 + sum1));
      }
    }
  }
}

// The same address, unknown to the compiler: a second load costs nothing, while a copy of the first
// one's register may take one of the dots' slots.
GYRE_WORD const int32_t* load_again(const int32_t* p) {
  asm("" : "+r"(p));
  return p;
}

// One chain of one block: u of N columns and P panels; lines(p, j) come from `source`.
template <class Format, int kChain, int P, int N, class Source>
GYRE_WORD void dot_chain(const Source& source, const F (*v)[Format::Family::kVectors],
                         const View& a, F (*u)[P]) {
  using Family = typename Format::Family;
  constexpr int kLines = 8 / Family::kChains;
  Dots<Format::kWide, Format::kMax> dots[N][P];
  GYRE_UNROLL
  for (int p = 0; p < P; ++p) {
    const int32_t* start = p == 0 ? a.start[kChain] : load_again(a.start[kChain]);
    GYRE_UNROLL
    for (int n = 0; n < N; ++n) dots[n][p].start(I::splat(start[n]));
  }
  GYRE_UNROLL
  for (int j = 0; j < kLines; ++j) {
    B w[P];
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) w[p] = source.line(p, kChain * kLines + j);
    GYRE_UNROLL
    for (int n = 0; n < N; ++n) {
      const I x = keep(splat4(a.q + n * kActBlock + 4 * (kChain * kLines + j)));
      GYRE_UNROLL
      for (int p = 0; p < P; ++p) dots[n][p].add(j, w[p], x);
    }
  }
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) {
    const Column c = a.template column<Family>(n);
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) {
      dots[n][p].finish();
      Family::template chain<kChain>(dots[n][p].sum, v[p], c, u[n][p]);
    }
  }
}

// Both chains of one block side by side: more sums in flight, none of them waits in u.
template <class Format, int P, int N, class Source>
GYRE_WORD void dot_both_chains(const Source& source, const F (*v)[Format::Family::kVectors],
                               const View& a, F (*u)[P]) {
  using Family = typename Format::Family;
  Dots<Format::kWide, Format::kMax> dots[2][N][P];
  GYRE_UNROLL
  for (int i = 0; i < 2; ++i) {
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) {
      const int32_t* start = p == 0 ? a.start[i] : load_again(a.start[i]);
      GYRE_UNROLL
      for (int n = 0; n < N; ++n) dots[i][n][p].start(I::splat(start[n]));
    }
  }
  GYRE_UNROLL
  for (int j = 0; j < 4; ++j) {
    GYRE_UNROLL
    for (int i = 0; i < 2; ++i) {
      B w[P];
      GYRE_UNROLL
      for (int p = 0; p < P; ++p) w[p] = source.line(p, 4 * i + j);
      GYRE_UNROLL
      for (int n = 0; n < N; ++n) {
        const I x = keep(splat4(a.q + n * kActBlock + 4 * (4 * i + j)));
        GYRE_UNROLL
        for (int p = 0; p < P; ++p) dots[i][n][p].add(j, w[p], x);
      }
    }
  }
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) {
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) {
      dots[0][n][p].finish();
      dots[1][n][p].finish();
      Family::template chain<0>(dots[0][n][p].sum, v[p], Column{}, u[n][p]);
      Family::template chain<1>(dots[1][n][p].sum, v[p], Column{}, u[n][p]);
    }
  }
}

// One block's part of the segment's sum s.
template <class Format, int P, int N, class Source>
GYRE_WORD void add_block(const Source& source, const View& a, F (*s)[P]) {
  using Family = typename Format::Family;
  F v[P][Family::kVectors], u[N][P];
  GYRE_UNROLL
  for (int p = 0; p < P; ++p) source.vectors(p, v[p]);
  if constexpr (Family::kChains == 2 && kChainsAtOnce) {
    dot_both_chains<Format, P, N>(source, v, a, u);
  } else {
    dot_chain<Format, 0, P, N>(source, v, a, u);
    if constexpr (Family::kChains == 2) dot_chain<Format, 1, P, N>(source, v, a, u);
  }
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) {
    const Column c = a.template column<Family>(n);
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) Family::close(u[n][p], v[p], c, s[n][p]);
  }
}

// One block's part of the segment's t.
template <class Format, int P, int N, class Source>
GYRE_WORD void add_minima(const Source& source, const View& a, F (*t)[P]) {
  using Family = typename Format::Family;
  F v[P][Family::kVectors];
  GYRE_UNROLL
  for (int p = 0; p < P; ++p) source.vectors(p, v[p]);
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) {
    const Column c = a.template column<Family>(n);
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) Family::minima(v[p], c, t[n][p]);
  }
}

template <int P, int N>
GYRE_WORD void clear(F (*s)[P]) {
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) {
    GYRE_UNROLL
    for (int p = 0; p < P; ++p) s[n][p] = F::splat(0.0f);
  }
}

// A block of an unpacked segment.
template <class Family>
struct UnpackedBlock {
  const Unpacked& u;
  uint32_t b;
  GYRE_WORD B line(int p, int j) const { return load_line(u.w[b][p][j]); }
  GYRE_WORD void vectors(int p, F* v) const {
    GYRE_UNROLL
    for (int i = 0; i < Family::kVectors; ++i) v[i] = load_f(u.v[b][p][i]);
  }
};

// The arithmetic of a sweep, whatever format the lines were unpacked from.
template <class FamilyOf, bool kWideOf, int kMaxOf>
struct SweptFormat {
  using Family = FamilyOf;
  static constexpr bool kWide = kWideOf;
  static constexpr int kMax = kMaxOf;
};

// Where a segment's sweep finds the outputs so far and where it leaves them: column n of panel p at
// n * ld + p * kLanes.
struct Outputs {
  const float* from;
  size_t from_ld;
  float* to;
  size_t to_ld;
};

// What to prefetch during a sweep: the panels' next segments, and where outputs will go (null
// before the last segment).
struct Ahead {
  const uint8_t* at[kTilePanels];
  uint32_t lines;
  const float* y;
  size_t ldy;

  // The next `share` lines of each panel and the next `columns` outputs.
  GYRE_WORD void take(uint32_t share, int panels, uint32_t columns) {
    const uint32_t n = std::min(share, lines);
    for (int p = 0; p < panels; ++p) {
      for (uint32_t l = 0; l < n; ++l) prefetch_l2(at[p] + 64 * l);
      at[p] += 64 * n;
    }
    lines -= n;
    if (y == nullptr) return;
    for (uint32_t c = 0; c < columns; ++c, y += ldy) {
      prefetch_l2(y);
      prefetch_l2(y + kTilePanels * kLanes - 1);
    }
  }
};

// One tile: N columns. Minima first, in a loop of their own: both sums at once would not fit the
// registers.
template <class Format, int P, int N>
GYRE_WORD void sweep(const Unpacked& segment, uint32_t blocks, View a, const Outputs& out) {
  using Family = typename Format::Family;
  F s[N][P], t[N][P];
  clear<P, N>(t);
  if constexpr (Family::kHasT) {
    for (uint32_t b = 0; b < blocks; ++b)
      add_minima<Format, P, N>(UnpackedBlock<Family>{segment, b}, a.at(b, 0), t);
  }
  clear<P, N>(s);
  for (uint32_t b = 0; b < blocks; ++b) {
    add_block<Format, P, N>(UnpackedBlock<Family>{segment, b}, a, s);
    a = a.at(1, 0);
  }
  GYRE_UNROLL
  for (int p = 0; p < P; ++p) {
    const F ends[2] = {load_f(segment.ends[p][0]), load_f(segment.ends[p][1])};
    GYRE_UNROLL
    for (int n = 0; n < N; ++n)
      store(
          out.to + n * out.to_ld + p * kLanes,
          Family::finish(load_f(out.from + n * out.from_ld + p * kLanes), s[n][p], t[n][p], ends));
  }
}

// What the tiles of a segment have in common.
struct Sweep {
  const Unpacked& segment;
  uint32_t blocks;
  View view;  // these three advance from tile to tile
  Outputs out;
  Ahead ahead;
};

template <class Format, int P, int N>
__attribute__((noinline)) void sweep_tiles(Sweep& sweep_of, uint32_t tiles, uint32_t share) {
  View view = sweep_of.view;
  Outputs out = sweep_of.out;
  for (uint32_t i = 0; i < tiles; ++i) {
    sweep_of.ahead.take(share, P, N);
    sweep<Format, P, N>(sweep_of.segment, sweep_of.blocks, view, out);
    view = view.at(0, N);
    out.from += N * out.from_ld;
    out.to += N * out.to_ld;
  }
  sweep_of.view = view;
  sweep_of.out = out;
}

// Tiles of two widths, as equal as can be: the wider ones first.
template <class Format, int P>
void sweep_columns(Sweep& s, uint32_t n) {
  constexpr int kMost = Format::Family::kChains == 2 ? kTileColumnsOfPairs : kTileColumns;
  const uint32_t tiles = (n + kMost - 1) / kMost, wide = n % tiles;
  const uint32_t share = (s.ahead.lines + tiles - 1) / tiles;
  for (const bool first : {true, false}) {
    const uint32_t width = n / tiles + (first ? 1 : 0), count = first ? wide : tiles - wide;
    if (count == 0) continue;
    switch (width) {
      case 1:
        sweep_tiles<Format, P, 1>(s, count, share);
        break;
      case 2:
        sweep_tiles<Format, P, 2>(s, count, share);
        break;
      case 3:
        sweep_tiles<Format, P, 3>(s, count, share);
        break;
      case 4:
        sweep_tiles<Format, P, 4>(s, count, share);
        break;
      case 5:
        sweep_tiles < Format, P, kMost<5 ? kMost : 5>(s, count, share);
        break;
      case 6:
        sweep_tiles < Format, P, kMost<6 ? kMost : 6>(s, count, share);
        break;
      default:
        sweep_tiles<Format, P, kMost>(s, count, share);
        break;
    }
  }
}

template <class Format>
void unpack_segment(const Part& part, uint32_t blocks, int p, Unpacked& out) {
  using Family = typename Format::Family;
  for (uint32_t b = 0; b < blocks; ++b) {
    B w[8];
    F v[Family::kVectors];
    Format::lines(part, static_cast<int>(b), w);
    Format::vectors(part, static_cast<int>(b), v);
    for (int j = 0; j < 8; ++j) store_line(out.w[b][p][j], w[j]);
    GYRE_UNROLL
    for (int i = 0; i < Family::kVectors; ++i) store(out.v[b][p][i], v[i]);
  }
  if constexpr (Family::kEnds != 0) {
    F ends[2];
    Format::ends(part, ends);
    GYRE_UNROLL
    for (int i = 0; i < Family::kEnds; ++i) store(out.ends[p][i], ends[i]);
  }
}

// A block straight from its panel.
template <class Format>
struct PackedBlock {
  const Part& part;
  int b;
  B w[8];
  GYRE_WORD PackedBlock(const Part& from, int block) : part(from), b(block) {
    Format::lines(part, b, w);
  }
  GYRE_WORD B line(int, int j) const { return w[j]; }
  GYRE_WORD void vectors(int, F* v) const { Format::vectors(part, b, v); }
};

// One segment of one panel; out[n] are the outputs of N columns so far.
template <class Format, int N>
GYRE_WORD void stream_segment(const Part& part, uint32_t blocks, View a, const uint8_t* ahead,
                              uint32_t ahead_lines, F* out) {
  using Family = typename Format::Family;
  F s[N][1], t[N][1];
  clear<1, N>(s);
  clear<1, N>(t);
  for (uint32_t b = 0; b < blocks; ++b) {
    for (uint32_t i = 0; i < ahead_lines; ++i) prefetch(ahead + 64 * (b * ahead_lines + i));
    const PackedBlock<Format> block(part, static_cast<int>(b));
    add_block<Format, 1, N>(block, a, s);
    if constexpr (Family::kHasT) add_minima<Format, 1, N>(block, a, t);
    a = a.at(1, 0);
  }
  F ends[2] = {};
  if constexpr (Family::kEnds != 0) Format::ends(part, ends);
  GYRE_UNROLL
  for (int n = 0; n < N; ++n) out[n] = Family::finish(out[n], s[n][0], t[n][0], ends);
}
