// What the attention texts of one instruction set share. Included in a target region, outside of
// any other namespace: attention.cc defines what is declared at the end.

// Rows and vectors of one register block: their sums, one operand and its two halves fit.
#if defined(GYRE_TARGET_avx512) || defined(GYRE_TARGET_avx512vnni)
constexpr uint32_t kBlockRows = 12, kBlockVectors = 2, kFewRows = 6, kFewRowsVectors = 4;
#elif defined(GYRE_TARGET_neon)
constexpr uint32_t kBlockRows = 5, kBlockVectors = 1, kFewRows = 2, kFewRowsVectors = 2;
#else
constexpr uint32_t kBlockRows = 6, kBlockVectors = 1, kFewRows = 2, kFewRowsVectors = 2;
#endif
static_assert(kBlockRows <= kScoreRows);
constexpr uint32_t kTile = 16;  // keys of one K tile
constexpr uint32_t kScorePairs = kOperands / 2;
constexpr uint32_t kPagePairs = kPagePositions / 2;

GYRE_WORD uint32_t least(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}
GYRE_WORD uint32_t most(uint32_t a, uint32_t b) {
  return a > b ? a : b;
}

// A run of operand pairs: word [pair][vector][16] of bf16 pairs, and each row's own pairs.
struct Pairs {
  const int32_t* words = nullptr;
  size_t pair_stride = 0, vector_stride = 0;  // in words
  const float* rows = nullptr;                // [row][kOperandStride], as f32
  const uint16_t* rows_bf16 = nullptr;        // the same, read when kNative
  uint32_t count = 0;
  const int32_t* ahead = nullptr;  // what will be read after this run: as long and as shaped
};

// Sums over a run, out[row][vector]: from +0 (fresh), or from what stands
// there (resume); add: out + the sum from +0.
enum class Start : uint8_t { fresh, add, resume };
struct DotsJob {
  Pairs run;
  float* out;
  size_t out_ld;
  uint32_t lanes;
  Start start;
};

// How many vectors to take at once of those that are left.
GYRE_WORD uint32_t vectors_at_once(uint32_t rows, uint32_t left) {
  if (rows <= kFewRows && left >= kFewRowsVectors) return kFewRowsVectors;
  return left >= kBlockVectors ? kBlockVectors : 1;
}

// Where the operands of a row from dimension d (a segment's first) on lie in work.q.
GYRE_WORD size_t operand_row(uint32_t d, uint32_t row) {
  return (size_t{d / kOperands} * kTileRows + row) * kOperandStride;
}

GYRE_WORD const int32_t* as_words(const std::byte* p) {
  return reinterpret_cast<const int32_t*>(p);
}

// The contract's operand rounding, as f32. A NaN stays one here: all of ours are made by the
// processor, whose payload doesn't carry over.
GYRE_WORD F round_bf16(F x) {
  const I b = bits(x);
  const I up = b + I::splat(0x7fff) + (shift_right<16>(b) & I::splat(1));
  return from_bits(up & I::splat(-0x10000));
}
GYRE_WORD F round_operand(F x) {
  const F rounded = round_bf16(x);
  return select(less(magnitude(rounded), F::splat(0x1p-56f)), F::splat(0.0f), rounded);
}

// The same for weights, which have no sign.
GYRE_WORD F round_weight(F x) {
  const F rounded = round_bf16(x);
  return select(less(rounded, F::splat(0x1p-56f)), F::splat(0.0f), rounded);
}

// `inside` where the row sees the key, else `outside`. key: the vector's first key.
GYRE_WORD F visible_or(Visible seen, uint32_t key, F inside, F outside) {
  if (seen.end < key + kTile)
    inside = select(first_lanes(seen.end > key ? seen.end - key : 0), inside, outside);
  if (seen.begin > key)
    inside = select(first_lanes(least(seen.begin - key, kTile)), outside, inside);
  return inside;
}

// Integers that order as floats do, and back (the same operation).
GYRE_WORD I ordered(I x) {
  return x ^ (shift_right_signed<31>(x) & I::splat(0x7fffffff));
}

GYRE_WORD float largest_lane(F x) {
  int32_t b = max_lanes(ordered(bits(x)));
  b ^= (b >> 31) & 0x7fffffff;
  float out;
  std::memcpy(&out, &b, 4);
  return out;
}

// Scores to weights, for one row: positions [begin, end) of the chunk, 16 at a time, of which it
// sees `seen`. kRounded: the weights are bf16 operands, and with kNarrow stored as such too.
struct Softmax {
  float max, sum;
};
template <bool kRounded, bool kNarrow>
GYRE_WORD Softmax softmax(float* scores, [[maybe_unused]] uint16_t* narrow, Visible seen,
                          uint32_t begin, uint32_t end, float cap) {
  const F lowest = F::splat(-__builtin_huge_valf()), zero = F::splat(0.0f);
  if (cap != 0.0f) {
    const F c = F::splat(cap);
    for (uint32_t j = begin; j < end; j += kTile)
      store(scores + j, c * tanh(load_f(scores + j) / c));
  }
  F top = lowest;
  for (uint32_t j = begin; j < end; j += kTile)
    top = max(top, visible_or(seen, j, load_f(scores + j), lowest));
  const float m = largest_lane(top);
  F lanes[4] = {zero, zero, zero, zero};
  for (uint32_t j = begin; j < end; j += kTile) {
    F p = exp(load_f(scores + j) - F::splat(m));
    if constexpr (kRounded) p = round_weight(p);
    p = visible_or(seen, j, p, zero);
    store(scores + j, p);
    if constexpr (kNarrow) store_u16(narrow + j, shift_right<16>(bits(p)));
    lanes[j / kTile % 4] = lanes[j / kTile % 4] + p;
  }
  return {m, sum_lanes((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]))};
}

// 16 rows' partials meet: the new maximum, and what each side is multiplied by.
struct Meeting {
  F max, mine, theirs;
  GYRE_WORD Meeting(F m, F n)
      : max(select(less(m, n), n, m)), mine(exp(m - max)), theirs(exp(n - max)) {}
};

// Merges the head's sink as a chunk whose only weight is 1 and whose value is 0.
GYRE_WORD float meet_sink(float* acc, float max, float sum, float sink, uint32_t dim) {
  const Meeting meet(F::splat(max), F::splat(sink));
  const F nothing = F::splat(0.0f) * meet.theirs;
  for (uint32_t d = 0; d < dim; d += kTile)
    store(acc + d, fma(load_f(acc + d), meet.mine, nothing));
  float lanes[kTile];
  store(lanes, fma(F::splat(sum), meet.mine, F::splat(1.0f) * meet.theirs));
  return lanes[0];
}

// Above the bits of the largest finite number.
GYRE_WORD bool not_finite(I largest) {
  return any(above(largest, I::splat(0x7f7fffff)));
}

// out = acc / sum; returns the bits of the largest magnitude in some lane.
GYRE_WORD I divide_row(const float* acc, float sum, uint32_t dim, float* out) {
  I largest = I::splat(0);
  for (uint32_t d = 0; d < dim; d += kTile) {
    const uint32_t n = least(kTile, dim - d);
    const F x = load_first(acc + d, n) / F::splat(sum);
    if (n == kTile) {
      largest = max(largest, bits(magnitude(x)));
    } else {
      largest = max(largest, bits(select(first_lanes(n), magnitude(x), F::splat(0.0f))));
    }
    store_first(out + d, x, n);
  }
  return largest;
}

// bf16 rows into a plain page: stores are of 2 and 4 bytes, so that threads may write neighbouring
// positions.
GYRE_WORD void put_keys(std::byte* head, uint32_t position, const float* k, uint32_t dim,
                        bool good) {
  uint16_t narrow[kTile];
  std::byte* keys = head + (size_t{position / kTile} * dim * kTile + position % kTile * 2) * 2;
  for (uint32_t d = 0; d < dim; d += kTile) {
    const uint32_t n = least(kTile, dim - d);
    const I x = shift_right<16>(bits(round_operand(load_first(k + d, n))));
    store_u16(narrow, good ? x : I::splat(0));
    for (uint32_t i = 0; i < n; i += 2)
      std::memcpy(keys + (d + i) * size_t{kTile * 2}, narrow + i, 4);
  }
}
GYRE_WORD void put_values(std::byte* head, uint32_t position, const float* v, uint32_t dim,
                          bool good) {
  uint16_t narrow[kTile];
  std::byte* values = head + (size_t{position / 2} * dim * 2 + position % 2) * 2;
  for (uint32_t d = 0; d < dim; d += kTile) {
    const uint32_t n = least(kTile, dim - d);
    const I x = shift_right<16>(bits(round_operand(load_first(v + d, n))));
    store_u16(narrow, good ? x : I::splat(0));
    for (uint32_t i = 0; i < n; ++i) std::memcpy(values + (d + i) * size_t{4}, narrow + i, 2);
  }
}

// Every value's bf16 operand is below 2^100, the limit of codes.
inline bool below_code_limit(const float* x, uint32_t n) {
  I largest = I::splat(0);
  for (uint32_t i = 0; i < n; i += kTile)
    largest = max(largest, bits(magnitude(load_first(x + i, least(kTile, n - i)))));
  return !any(above(largest, I::splat(0x717f7fff)));  // from here on it rounds to 2^100 or more
}

// What all rows of a tile see of one chunk.
struct ChunkRows {
  Visible seen[kTileRows];
  Visible hull{kChunkPositions, 0};

  ChunkRows(const AttentionTile& tile, uint32_t chunk) {
    for (uint32_t r = 0; r < tile.rows(); ++r) {
      seen[r] = tile.in_chunk(r, chunk);
      if (sees(r)) cover(hull, seen[r]);
    }
  }
  bool sees(uint32_t row) const { return seen[row].begin < seen[row].end; }
  static void cover(Visible& hull, Visible more) {
    hull.begin = least(hull.begin, more.begin);
    hull.end = most(hull.end, more.end);
  }
  // What rows [first, first + rows) see of a page, as positions in it; empty: {0, 0}.
  Visible in_page(uint32_t first, uint32_t rows, uint32_t page) const {
    Visible of{kChunkPositions, 0};
    for (uint32_t r = first; r < first + rows; ++r) {
      if (sees(r)) cover(of, seen[r]);
    }
    const uint32_t begin = most(of.begin, page * kPagePositions);
    const uint32_t end = least(of.end, (page + 1) * kPagePositions);
    if (begin >= end) return {0, 0};
    return {begin - page * kPagePositions, end - page * kPagePositions};
  }
  // Whole pages that contain the hull.
  uint32_t first_page() const { return hull.begin / kPagePositions; }
  uint32_t end_page() const { return (hull.end + kPagePositions - 1) / kPagePositions; }
};

// Fetches the next chunk's keys and values, a few lines at a time, while this one is computed: for
// tiles of many rows, whose first block would wait for each line.
struct Fetch {
  const std::byte* from[2 * kChunkPages];
  size_t lines[2 * kChunkPages];
  uint32_t ranges = 0, range = 0;
  size_t line = 0, at_once = 0;

  // The chunk is computed in `steps` steps; 0: nothing is fetched.
  Fetch(const AttentionTile& tile, uint32_t chunk, uint32_t steps) {
    if (steps == 0 || tuning().prefetch_bytes == 0) return;
    const Visible& last = tile.job->visible[tile.query(tile.rows() - 1)];
    size_t total = 0;
    for (uint32_t page = 0; page < kChunkPages; ++page) {
      const size_t at = size_t{chunk + 1} * kChunkPages + page;
      if (at * kPagePositions >= last.end || tile.job->pages[at] == nullptr) break;
      const KvLayout layout = tile.layout(chunk + 1, page);
      from[ranges] = tile.keys(chunk + 1, page);
      total += lines[ranges++] = layout.k_head_bytes() / 64;
      from[ranges] = tile.values(chunk + 1, page);
      total += lines[ranges++] = layout.v_head_bytes() / 64;
    }
    at_once = total / steps + 1;
  }
  GYRE_WORD void step() {
    for (size_t i = 0; i < at_once && range < ranges; ++i) {
      prefetch_l2(from[range] + line * 64);
      if (++line < lines[range]) continue;
      line = 0;
      ++range;
    }
  }
};

// One chunk of one tile, computed page by page: a page's K (and later its V) serves all blocks of
// rows while it is in the first cache.
struct Chunk {
  const AttentionTile& tile;
  AttentionWork& work;
  const AttentionPartial& out;
  uint32_t index;
  bool few;  // one block of rows: bound by memory, so each line read fetches one further on
  ChunkRows rows;
  Fetch fetch;

  // Blocks of `block_rows` rows and `vectors` vectors at a time.
  Chunk(const AttentionTile& t, uint32_t i, AttentionWork& w, const AttentionPartial& o,
        uint32_t few_rows, uint32_t block_rows, uint32_t vectors)
      : tile(t),
        work(w),
        out(o),
        index(i),
        few(t.rows() <= few_rows),
        rows(t, i),
        fetch(t, i,
              few ? 0
                  : (t.rows() + block_rows - 1) / block_rows *
                        (kChunkPositions + kChunkPages * t.job->layout.v_dim) / (vectors * kTile)) {
    for (uint32_t r = 0; r < tile.rows(); ++r) out.sum[r] = 0.0f;
  }
  const std::byte* page(uint32_t p) const {
    return tile.job->pages[size_t{index} * kChunkPages + p];
  }
  bool empty() const { return rows.hull.begin >= rows.hull.end; }
  bool fetches() const {
    const KvLayout& layout = tile.job->layout;
    return few && layout.k_dim == layout.v_dim && tuning().prefetch_bytes != 0;
  }
  // From the first byte of a page's K to that of its V; from V to the K of the next chunk's page.
  // They are as long where both sides have one code, and about as long otherwise. 0: no fetching.
  ptrdiff_t ahead_of_keys(uint32_t p) const {
    return fetches() ? tile.values(index, p) - tile.keys(index, p) : 0;
  }
  ptrdiff_t ahead_of_values(uint32_t p) const {
    const size_t next = size_t{index + 1} * kChunkPages + p;
    const Visible& last = tile.job->visible[tile.query(tile.rows() - 1)];
    if (!fetches() || next * kPagePositions >= last.end || tile.job->pages[next] == nullptr)
      return 0;
    return tile.keys(index + 1, p) - tile.values(index, p);
  }

  // All rows' weights, 0 up to the ends of the pages; and zeros where the values are summed.
  template <bool kRounded, bool kNarrow>
  GYRE_WORD void weights() {
    for (uint32_t r = 0; r < tile.rows(); ++r) {
      float* o = out.out + size_t{r} * out.ld;
      for (uint32_t d = 0; d < tile.job->layout.v_dim; d += kTile) store(o + d, F::splat(0.0f));
      const Softmax found = softmax<kRounded, kNarrow>(
          work.scores + size_t{r} * kOperandStride, work.p_bf16 + size_t{r} * kOperandStride,
          rows.seen[r], rows.first_page() * kPagePositions, rows.end_page() * kPagePositions,
          tile.job->softcap);
      if (!rows.sees(r)) continue;
      out.max[r] = found.max;
      out.sum[r] = found.sum;
    }
  }
};

// ---- Defined in attention.cc ----

// The dots of 1, kBlockVectors or kFewRowsVectors whole vectors (vectors_at_once), or of the first
// job.lanes of one vector.
void pair_dots(bool native, uint32_t rows, uint32_t vectors, const DotsJob& job);
void part_dots(bool native, uint32_t rows, const DotsJob& job);
void merge_partials(uint32_t rows, uint32_t v_dim, const AttentionPartial& next,
                    AttentionPartial& total);
void finish_rows(const AttentionTile& tile, AttentionPartial& total);

// ---- Defined in attention_affine.cc and attention_turbo.cc ----

extern const AttentionKernel affine_attention_kernel;
bool store_affine(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
                  const float* v);
// [0] and [1] as attention_ops. The store takes rotated bf16 layouts too.
extern const AttentionKernel turbo_attention_kernel[2];
bool store_turbo(const KvLayout& layout, std::byte* page, uint32_t position, const float* k,
                 const float* v, const std::byte* anchor);
