// The integer dots of attention over affine pages: scores over 16 keys to a vector, values over 16
// dimensions. Included in attention_affine.cc, inside its unnamed namespace.

// Rows and vectors of one register block.
#if defined(GYRE_TARGET_avx512) || defined(GYRE_TARGET_avx512vnni)
constexpr uint32_t kRowsAtOnce = 6, kVectorsAtOnce = 2, kFew = 3, kFewVectors = 4;
#else
constexpr uint32_t kRowsAtOnce = 3, kVectorsAtOnce = 1, kFew = 1, kFewVectors = 2;
#endif
static_assert(kRowsAtOnce <= kWeightRows);
constexpr uint32_t kQBlock = 32, kBlockWords = kQBlock / 4, kSegmentBlocks = kOperands / kQBlock;
constexpr uint32_t kLine = 64;

// Bytes of 16 keys by 32 dimensions, unpacked.
constexpr size_t kBlockBytes = size_t{kBlockWords} * kLine;

GYRE_WORD uint32_t at_once(uint32_t rows, uint32_t left) {
  if (rows <= kFew && left >= kFewVectors) return kFewVectors;
  return left >= kVectorsAtOnce ? kVectorsAtOnce : 1;
}

// ---- Scores ----

struct ScoreJob {
  const std::byte* lines;   // [vector][block][8][16][4]: codes
  size_t tile_stride;       // from one vector of keys to the next
  const std::byte* params;  // [vector][group][16]: bf16 scale, bf16 bias
  size_t params_stride;
  const int8_t* q;  // of the first row
  const float *scale, *sum;
  const int32_t* start;
  size_t cells;                // from row to row of the three above
  uint32_t blocks, per_group;  // of 32 dimensions
  float* scores;
  ptrdiff_t ahead;  // from a line to what is to be prefetched; 0: nothing
};

template <bool kWide>
GYRE_WORD B code_line(const std::byte* p) {
  const B line = as_bytes(load_i(reinterpret_cast<const int32_t*>(p)));
  if constexpr (kWide && kSignedBytes) return line ^ B::splat(0x80);
  return line;
}

// t = the group's sum over its blocks of fma(scale of q, integer dot, t).
template <uint32_t kRows, uint32_t kVectors, bool kWide>
GYRE_WORD void group_dots(const ScoreJob& job, uint32_t block, F (&t)[kRows][kVectors]) {
  for (uint32_t i = 0; i < job.per_group; ++i, ++block) {
    Dots<kWide, kWide ? 255 : 127> dot[kRows][kVectors];
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v)
        dot[r][v].start(I::splat(kWide ? job.start[r * job.cells + block] : 0));
    }
    const std::byte* lines = job.lines + block * kBlockBytes;
    const int8_t* q = job.q + (size_t{block / kSegmentBlocks} * kTileRows * kCodeStride +
                               block % kSegmentBlocks * kQBlock);
#pragma GCC unroll 8
    for (uint32_t w = 0; w < kBlockWords; ++w) {
      B line[kVectors];
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v) {
        const std::byte* p = lines + v * job.tile_stride + w * kLine;
        if (job.ahead != 0) prefetch(p + job.ahead);
        line[v] = code_line<kWide>(p);
      }
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
        const I x = splat4(q + r * kCodeStride + w * 4);
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) dot[r][v].add(static_cast<int>(w), line[v], x);
      }
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const F d = F::splat(job.scale[r * job.cells + block]);
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v) {
        dot[r][v].finish();
        t[r][v] = fma(d, to_float(dot[r][v].sum), t[r][v]);
      }
    }
  }
}

template <uint32_t kRows, uint32_t kVectors, bool kWide>
void score_block(const ScoreJob& job) {
  for (uint32_t segment = 0; segment < job.blocks; segment += kSegmentBlocks) {
    F s[kRows][kVectors];
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t v = 0; v < kVectors; ++v) s[r][v] = F::splat(0.0f);
    }
    const uint32_t end = least(job.blocks, segment + kSegmentBlocks);
    for (uint32_t block = segment; block < end; block += job.per_group) {
      F t[kRows][kVectors];
#pragma GCC unroll 8
      for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
        for (uint32_t v = 0; v < kVectors; ++v) t[r][v] = F::splat(0.0f);
      }
      group_dots<kRows, kVectors, kWide>(job, block, t);
      const uint32_t group = block / job.per_group;
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v) {
        const I pair = load_i(as_words(job.params + v * job.params_stride + group * kLine));
        const F scale = low_of_pair(pair), bias = high_of_pair(pair);
#pragma GCC unroll 8
        for (uint32_t r = 0; r < kRows; ++r) {
          const F u = F::splat(job.sum[r * job.cells + group]);
          s[r][v] = fma(bias, u, fma(scale, t[r][v], s[r][v]));
        }
      }
    }
    for (uint32_t r = 0; r < kRows; ++r) {
      for (uint32_t v = 0; v < kVectors; ++v) {
        float* out = job.scores + r * kOperandStride + v * kTile;
        store(out, segment == 0 ? s[r][v] : load_f(out) + s[r][v]);
      }
    }
  }
}

// ---- Values ----

struct ValueJob {
  const std::byte* lines;  // [word of 4 positions][dimension][4]: codes
  size_t word_stride;
  const int8_t* weights;  // [row][64], from the first word on
  uint32_t words;
  const float* scale;    // [row]
  const int32_t* start;  // [row]
  float* out;            // [row][out_ld]: becomes fma(scale, integer dot, out)
  size_t out_ld;
  ptrdiff_t ahead;
};

template <uint32_t kRows, uint32_t kVectors, bool kWide>
void value_block(const ValueJob& job) {
  Dots<kWide, kWide ? 255 : 127> dot[kRows][kVectors];
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v) dot[r][v].start(I::splat(job.start[r]));
  }
  const std::byte* lines = job.lines;
  const int8_t* weights = job.weights;
  for (uint32_t w = 0; w < job.words; ++w, lines += job.word_stride, weights += 4) {
    B line[kVectors];
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v) {
      if (job.ahead != 0) prefetch(lines + v * kLine + job.ahead);
      line[v] = code_line<kWide>(lines + v * kLine);
    }
#pragma GCC unroll 8
    for (uint32_t r = 0; r < kRows; ++r) {
      const I x = splat4(weights + r * kPagePositions);
#pragma GCC unroll 4
      for (uint32_t v = 0; v < kVectors; ++v)
        dot[r][v].add(static_cast<int>(w % kBlockWords), line[v], x);
    }
  }
#pragma GCC unroll 8
  for (uint32_t r = 0; r < kRows; ++r) {
    const F d = F::splat(job.scale[r]);
#pragma GCC unroll 4
    for (uint32_t v = 0; v < kVectors; ++v) {
      float* out = job.out + r * job.out_ld + v * kTile;
      dot[r][v].finish();
      store(out, fma(d, to_float(dot[r][v].sum), load_f(out)));
    }
  }
}

// ---- By the number of rows and vectors ----

template <class Job, template <uint32_t, uint32_t, bool> class Block, uint32_t kVectors,
          uint32_t kMaxRows, bool kWide>
struct Table {
  void (*of_rows[kMaxRows])(const Job&);
  template <uint32_t... kIndex>
  static constexpr Table make(std::integer_sequence<uint32_t, kIndex...>) {
    return {{Block<kIndex + 1, kVectors, kWide>::run...}};
  }
};
template <uint32_t kRows, uint32_t kVectors, bool kWide>
struct ScoreBlock {
  static constexpr void (*run)(const ScoreJob&) = score_block<kRows, kVectors, kWide>;
};
template <uint32_t kRows, uint32_t kVectors, bool kWide>
struct ValueBlock {
  static constexpr void (*run)(const ValueJob&) = value_block<kRows, kVectors, kWide>;
};
template <class Job, template <uint32_t, uint32_t, bool> class Block, uint32_t kVectors,
          uint32_t kMaxRows, bool kWide>
constexpr auto kTable = Table<Job, Block, kVectors, kMaxRows, kWide>::make(
    std::make_integer_sequence<uint32_t, kMaxRows>());

template <class Job, template <uint32_t, uint32_t, bool> class Block, bool kWide>
void run_block(uint32_t rows, uint32_t vectors, const Job& job) {
  if (vectors == kFewVectors && rows <= kFew)
    return kTable<Job, Block, kFewVectors, kFew, kWide>.of_rows[rows - 1](job);
  if (vectors == kVectorsAtOnce)
    return kTable<Job, Block, kVectorsAtOnce, kRowsAtOnce, kWide>.of_rows[rows - 1](job);
  kTable<Job, Block, 1, kRowsAtOnce, kWide>.of_rows[rows - 1](job);
}
// Only where bytes are signed do codes of 8 bits need a text of their own.
template <class Job, template <uint32_t, uint32_t, bool> class Block>
GYRE_WORD void run_block(bool wide, uint32_t rows, uint32_t vectors, const Job& job) {
  if constexpr (kSignedBytes) {
    if (wide) return run_block<Job, Block, true>(rows, vectors, job);
  }
  run_block<Job, Block, false>(rows, vectors, job);
}
