// A row of random K, V and Q, attention over it, and the comparison of one instruction set with the
// reference: shared by attention_test.cc and cpu/selfcheck_main.cc (arm64 without GoogleTest).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/rows.h"

namespace gyre::kernels::check {

using Floats = std::vector<float>;

struct Shape {
  uint32_t kv_heads = 1, group = 1, k_dim = 64, v_dim = 64;
  uint32_t length = 300;  // positions that have K and V
  uint32_t window = 0;    // 0: all
  float softcap = 0;
  bool sinks = false;
  LayerCode code = kBf16Code;
  uint32_t seed = 1;
  float spread = 1;  // of the scores
};

// K, V and Q of one row, and its pages in shuffled places.
class Row {
 public:
  explicit Row(const Shape& shape, Isa store = Isa::scalar) : shape_(shape) {
    layout_ = {shape.kv_heads, shape.k_dim, shape.v_dim, shape.code};
    std::mt19937 random(shape.seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](Floats& x, size_t n) {
      x.resize(n);
      for (float& v : x) v = normal(random);
    };
    fill(k_, size_t{shape.length} * shape.kv_heads * shape.k_dim);
    fill(v_, size_t{shape.length} * shape.kv_heads * shape.v_dim);
    fill(q_, size_t{shape.length} * heads() * shape.k_dim);
    fill(sinks_, heads());
    place(shape.seed);
    for (uint32_t t = 0; t < shape.length; ++t) put(t, store);
    for (uint32_t t = 0; t < shape.length; ++t)
      visible_.push_back({shape.window == 0 || t < shape.window ? 0 : t + 1 - shape.window, t + 1});
  }

  void place(uint32_t seed) {
    const size_t count = (shape_.length + kPagePositions - 1) / kPagePositions;
    const size_t stride = std::max(layout_.page_bytes(), page_layout(0).page_bytes());
    memory_ = *Array<std::byte>::make(count * stride, "test pages");
    anchor_.assign(layout_.anchor_bytes(), std::byte{0});
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    pages_.clear();
    for (size_t p : order) pages_.push_back(memory_.data() + p * stride);
  }

  KvLayout page_layout(size_t page) const {
    return layout_.code.anchored && page == 0 ? layout_.wide() : layout_;
  }

  // Positions in any order, but the first 64 of an anchored row before others.
  bool put(uint32_t t, Isa isa) {
    const size_t page = t / kPagePositions;
    const bool good = attention_ops(isa).store(page_layout(page), pages_[page], t % kPagePositions,
                                               &k_[size_t{t} * shape_.kv_heads * shape_.k_dim],
                                               &v_[size_t{t} * shape_.kv_heads * shape_.v_dim],
                                               page == 0 ? nullptr : anchor());
    if (layout_.code.anchored && t == kPagePositions - 1)
      make_anchor(layout_, pages_[0], anchor_.data());
    return good;
  }

  const std::byte* anchor() const { return anchor_.empty() ? nullptr : anchor_.data(); }

  // Queries [begin, end) as one job; out and flags have room for all of the row's queries.
  AttentionJob job(uint32_t begin, uint32_t end, Floats& out, std::vector<uint8_t>& flags) {
    AttentionJob job;
    job.layout = layout_;
    job.pages = pages_.data();
    job.anchor = anchor();
    job.queries = end - begin;
    job.q_heads = heads();
    job.q_ld = size_t{heads()} * shape_.k_dim;
    job.q = q_.data() + begin * job.q_ld;
    job.q_scale = 1.7f * shape_.spread / std::sqrt(static_cast<float>(shape_.k_dim));
    job.softcap = shape_.softcap;
    job.sinks = shape_.sinks ? sinks_.data() : nullptr;
    job.visible = visible_.data() + begin;
    job.out_ld = size_t{heads()} * shape_.v_dim;
    out.resize(shape_.length * job.out_ld);
    flags.resize(shape_.length);
    job.out = out.data() + begin * job.out_ld;
    job.not_finite = flags.data() + begin;
    return job;
  }

  uint32_t heads() const { return shape_.kv_heads * shape_.group; }
  const Shape& shape() const { return shape_; }
  size_t out_ld() const { return size_t{heads()} * shape_.v_dim; }

  Shape shape_;
  KvLayout layout_;
  Floats k_, v_, q_, sinks_;
  Array<std::byte> memory_;
  std::vector<std::byte*> pages_;
  std::vector<std::byte> anchor_;
  std::vector<Visible> visible_;
};

// Runs the queries of a row in blocks of `block`, each block a job, all jobs in one call.
inline Floats attend(Row& row, const AttentionOps& ops, int threads = 1, uint32_t begin = 0,
                     uint32_t end = ~0u, uint32_t block = ~0u,
                     std::vector<uint8_t>* flags_out = nullptr) {
  end = std::min(end, row.shape().length);
  ThreadPool pool(threads);
  AttentionScratch scratch;
  (void)scratch.reserve(threads, row.heads(), std::max(row.shape().k_dim, row.shape().v_dim),
                        row.shape().length);
  Floats out;
  std::vector<uint8_t> flags;
  row.job(0, 0, out, flags);
  std::vector<AttentionJob> jobs;
  for (uint32_t q = begin; q < end;) {
    const uint32_t next = block < end - q ? q + block : end;
    jobs.push_back(row.job(q, next, out, flags));
    q = next;
  }
  run_attention(ops, pool, jobs, scratch);
  if (flags_out != nullptr) *flags_out = flags;
  return out;
}

inline LayerCode affine_code(uint32_t k_bits, uint32_t v_bits, uint32_t k_group, uint32_t v_group) {
  return {{CodeKind::affine, k_bits, k_group}, {CodeKind::affine, v_bits, v_group}, false, false};
}
inline LayerCode turbo_code(uint32_t k_bits, uint32_t v_bits) {
  return {{CodeKind::turbo, k_bits, 0}, {CodeKind::turbo, v_bits, 0}, false, false};
}
inline LayerCode anchored_code(uint32_t k_bits, uint32_t v_bits) {
  return {
      {CodeKind::turbo, k_bits, kTurboGroup}, {CodeKind::turbo, v_bits, kTurboGroup}, false, true};
}
inline std::string code_name(const KvLayout& layout) {
  const RowCode& k = layout.code.k;
  const std::string kind = layout.code.rotated          ? "wide"
                           : layout.code.anchored       ? "anchored"
                           : k.kind == CodeKind::affine ? "affine"
                           : k.kind == CodeKind::turbo  ? "turbo"
                                                        : "plain";
  return kind + " k" + std::to_string(k.bits) + " v" + std::to_string(layout.code.v.bits) + " g" +
         std::to_string(k.group) + ", heads of " + std::to_string(layout.k_dim) + " and " +
         std::to_string(layout.v_dim);
}

// Every code: all bits of both sides, groups, and head sizes with short tails and groups.
inline std::vector<Shape> coded_shapes() {
  std::vector<Shape> out;
  uint32_t seed = 1000;
  const auto add = [&](uint32_t k_dim, uint32_t v_dim, const LayerCode& code) {
    Shape shape;
    shape.kv_heads = 1 + seed % 2;
    shape.group = 1 + seed % 5;
    shape.k_dim = k_dim;
    shape.v_dim = v_dim;
    shape.length = 200 + seed % 3 * 97;
    shape.window = seed % 4 == 0 ? 70 : 0;
    shape.softcap = seed % 7 == 0 ? 4.0f : 0.0f;
    shape.sinks = seed % 3 == 0;
    shape.code = code;
    shape.seed = seed++;
    out.push_back(shape);
  };
  constexpr uint32_t kBits[] = {2, 3, 4, 5, 6, 8};
  for (uint32_t i = 0; i < 6; ++i) {
    const uint32_t bits = kBits[i], other = kBits[(i + 1) % 6];
    for (uint32_t group : {32u, 64u, 128u}) {
      const uint32_t next = group == 128 ? 32 : 2 * group;
      add(128, 256, affine_code(bits, other, group, next));
      if (group <= 64) add(64, 320, affine_code(other, bits, group, 64));
      if (group == 32) add(96, 96, affine_code(bits, bits, group, group));
    }
    for (uint32_t dim : {40u, 64u, 80u, 96u, 128u, 256u, 320u}) {
      add(dim, dim == 80 ? 72 : dim, turbo_code(bits, other));
      add(dim, dim == 80 ? 72 : dim, anchored_code(other, bits));
    }
  }
  return out;
}

// One row's pages and answers by the reference, for comparisons with several instruction sets.
// Briefly: few queries, for emulators.
class Answers {
 public:
  explicit Answers(const Shape& shape, bool briefly = false) : want_(shape) {
    for (const Queries& q : kQueries) {
      if (briefly && q.count > 5) break;
      answers_.push_back(attend(want_, attention_ops(Isa::scalar), 1, shape.length - q.count));
    }
  }
  // "" or what differs: K and V as stored, and attention over them by blocks of queries.
  std::string differ(Isa isa, const AttentionOps& ops) const {
    Row got(want_.shape(), isa);
    const std::string name = "attention over " + code_name(got.layout_);
    if (std::memcmp(want_.memory_.data(), got.memory_.data(), got.memory_.size()) != 0)
      return name + ": pages";
    for (size_t i = 0; i < answers_.size(); ++i) {
      const Queries& q = kQueries[i];
      const Floats out = attend(got, ops, 2, got.shape().length - q.count, ~0u, q.block);
      if (std::memcmp(answers_[i].data(), out.data(), out.size() * sizeof(float)) != 0)
        return name + ", " + std::to_string(q.count) + " queries";
    }
    return "";
  }

 private:
  struct Queries {
    uint32_t count, block;
  };
  static constexpr Queries kQueries[] = {{1, 1}, {5, 2}, {30, ~0u}};
  Row want_;
  std::vector<Floats> answers_;
};

// "" or what differs, of one instruction set.
inline std::string compare_attention(Isa isa) {
  const Shape shapes[] = {
      {1, 3, 64, 64, 300, 0, 0, false, kBf16Code, 1},
      {2, 4, 128, 128, 530, 100, 0, true, kBf16Code, 2},
      {1, 1, 256, 256, 270, 0, 20.0f, false, kBf16Code, 3},
      {1, 2, 64, 64, 600, 0, 0, false, kBf16Code, 6, 5.0f},
      {1, 8, 512, 96, 261, 5, 0, false, kBf16Code, 4},
      {3, 1, 34, 6, 100, 0, 0, false, kBf16Code, 5},
  };
  for (const Shape& shape : shapes) {
    const std::string different = Answers(shape).differ(isa, attention_ops(isa));
    if (!different.empty()) return different;
  }
  for (const Shape& shape : coded_shapes()) {
    const std::string different = Answers(shape, true).differ(isa, attention_ops(isa));
    if (!different.empty()) return different;
  }
  return "";
}

// All results of the row operators for one length, one after the other.
inline Floats all_row_operators(const RowOps& ops, uint32_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.1f, 3.0f);
  Floats x(n), w(n), b(n), y(n), out;
  for (Floats* row : {&x, &w, &b}) {
    for (float& v : *row) v = normal(random);
  }
  const auto keep = [&] { out.insert(out.end(), y.begin(), y.end()); };
  ops.rms_norm(x.data(), w.data(), 1e-6f, n, y.data()), keep();
  ops.rms_norm(x.data(), nullptr, 1e-5f, n, y.data()), keep();
  ops.layer_norm(x.data(), w.data(), b.data(), 1e-5f, n, y.data()), keep();
  ops.layer_norm(x.data(), w.data(), nullptr, 1e-5f, n, y.data()), keep();
  for (Activation act : {Activation::silu, Activation::gelu_tanh, Activation::gelu_erf,
                         Activation::gelu_quick, Activation::relu, Activation::identity})
    ops.glu(act, x.data(), w.data(), n, y.data()), keep();
  ops.add(x.data(), w.data(), n, y.data()), keep();
  ops.scale(x.data(), 0.3f, n, y.data()), keep();
  ops.softcap(x.data(), 2.5f, n, y.data()), keep();
  y = x;  // in place
  ops.rms_norm(y.data(), w.data(), 1e-6f, n, y.data()), keep();
  for (RopeStyle style : {RopeStyle::halves, RopeStyle::adjacent})
    ops.rope(y.data(), 1, n, n / 2, style, w.data(), b.data()), keep();
  return out;
}

// "" or the length for which some row operator differs.
inline std::string compare_rows(Isa isa) {
  for (uint32_t n :
       {1, 2, 3, 15, 16, 17, 31, 48, 63, 64, 65, 100, 127, 128, 129, 191, 576, 640, 1000}) {
    const Floats a = all_row_operators(row_ops(Isa::scalar), n, n);
    const Floats b = all_row_operators(row_ops(isa), n, n);
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) != 0)
      return "row operators of " + std::to_string(n);
  }
  return "";
}

}  // namespace gyre::kernels::check
