#include "nn/layers.h"

#include <algorithm>
#include <cstring>

namespace gyre::nn {
namespace {

// Prepares rows source(token)[k] as step.input; `make` computes the row first.
template <class MakeRow>
void prepare_rows(Step& step, uint32_t k, uint32_t forms, MakeRow make) {
  const Backend& backend = step.backend();
  step.input = step.activations.shape(step.tokens(), k);
  step.input.f32 = step.normed(0);
  step.input.ld = step.shape().max_k();
  step.for_tokens([&](uint32_t t) {
    make(t, step.normed(t));
    backend.linear->prepare(step.normed(0), step.input.ld, t, t + 1, forms, step.input,
                            step.not_finite());
  });
}

}  // namespace

uint32_t input_forms(std::initializer_list<Linear> consumers) {
  uint32_t forms = 0;
  for (const Linear& linear : consumers) forms |= kernels::act_form(linear.weight->dtype());
  return forms;
}

Status embed(Step& step, const kernels::Matrix& table, float scale) {
  const uint32_t dim = step.shape().dim;
  for (size_t r = 0; r < step.rows().size(); ++r) {
    uint32_t t = step.first_token(r);
    for (const Span& span : step.rows()[r].spans) {
      for (const TokenId id : span.tokens) {
        if (id < 0 || static_cast<uint32_t>(id) >= table.rows())
          return fail(ErrorCode::usage, "token id", std::to_string(id),
                      "0 to " + std::to_string(table.rows() - 1));
        step.token_id(t++) = id;
      }
      if (!span.tokens.empty()) continue;  // ready rows are taken as they are
      std::memcpy(step.x(t), span.embeddings, size_t{span.count()} * dim * sizeof(float));
      for (uint32_t i = 0; i < span.count(); ++i) step.token_id(t++) = -1;
    }
  }
  step.for_tokens([&](uint32_t t) {
    if (step.token_id(t) < 0) return;
    kernels::matrix_row(table, static_cast<uint32_t>(step.token_id(t)), step.x(t));
    if (scale != 1.0f) step.backend().rows->scale(step.x(t), scale, dim, step.x(t));
  });
  return {};
}

void norm_input(Step& step, const Norm& norm, uint32_t forms) {
  const uint32_t dim = step.shape().dim;
  prepare_rows(step, dim, forms, [&](uint32_t t, float* out) {
    step.backend().rows->rms_norm(step.x(t), norm.weight, norm.eps, dim, out);
  });
}

void multiply(Step& step, std::initializer_list<Product> products) {
  kernels::LinearJob jobs[8];
  size_t count = 0;
  for (const Product& p : products)
    jobs[count++] = {p.linear.weight, p.y, p.ldy, p.linear.bias, p.add_to_y};
  kernels::run_linear(*step.backend().linear, *step.backend().pool, {jobs, count}, step.input);
}

void add_normed_branch(Step& step, const Norm& norm) {
  const uint32_t dim = step.shape().dim;
  const kernels::RowOps& rows = *step.backend().rows;
  step.for_tokens([&](uint32_t t) {
    rows.rms_norm(step.branch(t), norm.weight, norm.eps, dim, step.branch(t));
    rows.add(step.x(t), step.branch(t), dim, step.x(t));
  });
}

namespace {

// Rows whose step stores position 63 of an anchored layer and positions behind it: these wait for
// the anchor.
bool waits_for_anchor(const kv::Sequence& sequence, uint32_t layer, uint32_t position) {
  return position >= kernels::kPagePositions && sequence.anchored(layer) &&
         sequence.completes_anchor();
}

void store(Step& step, uint32_t layer, uint32_t token) {
  kv::Sequence& sequence = *step.rows()[step.row_of(token)].kv;
  if (!sequence.write(*step.backend().attention, layer, step.position(token), step.k(token),
                      step.v(token)))
    step.not_finite()[token] = 1;
}

void fix_anchors(Step& step, uint32_t layer) {
  bool waiting = false;
  for (const RowInput& row : step.rows()) {
    if (!row.kv->anchored(layer) || !row.kv->completes_anchor()) continue;
    row.kv->fix_anchor(*step.backend().attention, layer);
    waiting = true;
  }
  if (!waiting) return;
  step.for_tokens([&](uint32_t t) {
    if (waits_for_anchor(*step.rows()[step.row_of(t)].kv, layer, step.position(t)))
      store(step, layer, t);
  });
}

// The queries of a row that read one code.
void add_job(Step& step, const AttentionLayer& layer, size_t row, bool coded, uint32_t first,
             uint32_t count) {
  if (count == 0) return;
  const kv::View view = step.rows()[row].kv->view(layer.layer, coded);
  kernels::AttentionJob job;
  job.layout = view.layout;
  job.pages = view.pages;
  job.anchor = view.anchor;
  job.queries = count;
  job.q_heads = layer.heads;
  job.q = step.q(first);
  job.q_ld = step.shape().q_dim;
  job.q_scale = layer.scale;
  job.softcap = layer.softcap;
  job.sinks = layer.sinks;
  job.visible = &step.visible[first];
  job.out = step.attended(first);
  job.out_ld = step.shape().attention_dim;
  job.not_finite = step.not_finite() + first;
  step.attention_jobs.push_back(job);
}

}  // namespace

void attend(Step& step, const AttentionLayer& layer, uint32_t forms) {
  const Backend& backend = step.backend();
  const kernels::RowOps& rows = *backend.rows;
  const kernels::KvLayout& kv = layer.kv;
  const uint32_t q_head = kv.k_dim;
  auto head_norms = [&](float* x, uint32_t heads, const Norm& norm) {
    if (norm.weight == nullptr) return;
    for (uint32_t h = 0; h < heads; ++h)
      rows.rms_norm(x + size_t{h} * q_head, norm.weight, norm.eps, q_head, x + size_t{h} * q_head);
  };
  step.for_tokens([&](uint32_t t) {
    const uint32_t position = step.position(t);
    const kv::Sequence& sequence = *step.rows()[step.row_of(t)].kv;
    step.visible[t] = sequence.visible(layer.layer, position);
    const float *cosine = nullptr, *sine = nullptr;
    if (layer.rope != nullptr)
      cosine = layer.rope->cosine(position), sine = layer.rope->sine(position);
    auto place = [&](float* x, uint32_t heads, const Norm& norm) {
      head_norms(x, heads, norm);
      if (layer.rope == nullptr) return;
      rows.rope(x, heads, q_head, layer.rope->spec().pairs, layer.rope->spec().style, cosine, sine);
    };
    place(step.q(t), layer.heads, layer.q_norm);
    if (!layer.owns_kv) return;
    place(step.k(t), kv.kv_heads, layer.k_norm);
    if (!waits_for_anchor(sequence, layer.layer, position)) store(step, layer.layer, t);
  });
  if (layer.owns_kv) fix_anchors(step, layer.layer);

  step.attention_jobs.clear();
  for (size_t r = 0; r < step.rows().size(); ++r) {
    const uint32_t first = step.first_token(r), count = step.token_count(r);
    const uint32_t from = step.rows()[r].kv->coded_from(layer.layer);
    const uint32_t position = count == 0 ? 0 : step.position(first);
    const uint32_t plain = from <= position ? 0 : std::min(count, from - position);
    add_job(step, layer, r, false, first, plain);
    add_job(step, layer, r, true, first + plain, count - plain);
  }
  kernels::run_attention(*backend.attention, *backend.pool, step.attention_jobs,
                         step.attention_scratch);

  step.input = step.activations.shape(step.tokens(), layer.heads * kv.v_dim);
  step.input.f32 = step.attended(0);
  step.input.ld = step.shape().attention_dim;
  kernels::run_prepare(*backend.linear, *backend.pool, step.attended(0), step.input.ld, forms,
                       step.input, step.not_finite());
}

void gate_input(Step& step, kernels::Activation act, uint32_t forms) {
  const uint32_t ffn = step.shape().ffn;
  prepare_rows(step, ffn, forms, [&](uint32_t t, float* out) {
    step.backend().rows->glu(act, step.gate(t), step.up(t), ffn, out);
  });
}

void head_logits(Step& step, const Norm& norm, const Linear& head, float cap, const float* x,
                 uint32_t count, float* logits, uint8_t* not_finite) {
  const Backend& backend = step.backend();
  const uint32_t dim = step.shape().dim, vocabulary = head.weight->rows();
  const uint32_t forms = input_forms({head});
  for (uint32_t begin = 0; begin < count; begin += step.max_tokens()) {
    const uint32_t n = std::min(step.max_tokens(), count - begin);
    kernels::Activations input = step.activations.shape(n, dim);
    input.f32 = step.normed(0);
    input.ld = step.shape().max_k();
    for (uint32_t i = 0; i < n; ++i)
      backend.rows->rms_norm(x + size_t{begin + i} * dim, norm.weight, norm.eps, dim,
                             step.normed(i));
    kernels::run_prepare(*backend.linear, *backend.pool, step.normed(0), input.ld, forms, input,
                         not_finite + begin);
    float* y = logits + size_t{begin} * vocabulary;
    const kernels::LinearJob job{head.weight, y, vocabulary, head.bias, false};
    kernels::run_linear(*backend.linear, *backend.pool, {&job, 1}, input);
    backend.pool->run(n, [&](size_t i, int) {
      float* row = y + i * vocabulary;
      if (cap > 0.0f) backend.rows->softcap(row, cap, vocabulary, row);
      if (!backend.rows->all_finite(row, vocabulary)) not_finite[begin + i] = 1;
    });
  }
}

}  // namespace gyre::nn
