// Tests only: small random models as GGUF files, with every weight format among their matrices.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "loaders/gguf_writer.h"
#include "numerics/philox.h"
#include "os/file.h"
#include "quant/rows.h"

namespace gyre::engine {

struct TinySpec {
  std::string architecture = "llama";  // or "gemma3"
  uint32_t layers = 6, dim = 256, heads = 4, kv_heads = 2, head_dim = 64, ffn = 512;
  uint32_t context = 2048, window = 24, pattern = 3;
  bool biases = false, own_head = false, rope_factors = false;
  std::vector<DType> dtypes{std::begin(kAllDTypes), std::end(kAllDTypes)};  // taken in turn
  uint64_t seed = 1;
};

class TinyModel {
 public:
  explicit TinyModel(TinySpec spec) : spec_(std::move(spec)) {}

  Status write(const std::string& path) {
    tokenizer();
    hyper();
    weights();
    GYRE_ASSIGN(const std::vector<std::byte> file, writer_.finish());
    return os::write_file_atomically(path, file);
  }
  static constexpr uint32_t kVocabulary = 320;

 private:
  void tokenizer() {
    std::vector<std::string> tokens;
    std::vector<float> scores;
    std::vector<int32_t> types;
    auto add = [&](std::string token, float score, int32_t type) {
      tokens.push_back(std::move(token));
      scores.push_back(score);
      types.push_back(type);
    };
    constexpr int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;
    add("<unk>", 0, kUnknown);
    add("<s>", 0, kControl);
    add("</s>", 0, kControl);
    for (int b = 0; b < 256; ++b) {
      char name[8];
      std::snprintf(name, sizeof name, "<0x%02X>", b);
      add(name, 0, kByte);
    }
    for (char c = 'a'; c <= 'z'; ++c) add(std::string(1, c), -10.0f, kNormal);
    add("\xe2\x96\x81", -11.0f, kNormal);
    add("th", -1.0f, kNormal);
    add("the", -2.0f, kNormal);
    add("\xe2\x96\x81the", -3.0f, kNormal);
    while (tokens.size() < kVocabulary) add("w" + std::to_string(tokens.size()), -20.0f, kNormal);
    writer_.add("general.architecture", spec_.architecture);
    writer_.add("tokenizer.ggml.model", "llama");
    writer_.add_array("tokenizer.ggml.tokens", std::span<const std::string>(tokens));
    writer_.add_array("tokenizer.ggml.scores", std::span<const float>(scores));
    writer_.add_array("tokenizer.ggml.token_type", std::span<const int32_t>(types));
    writer_.add("tokenizer.ggml.bos_token_id", uint32_t{1});
    writer_.add("tokenizer.ggml.eos_token_id", uint32_t{2});
    writer_.add("tokenizer.ggml.add_bos_token", true);
  }

  void hyper() {
    const std::string p = spec_.architecture + ".";
    writer_.add(p + "block_count", spec_.layers);
    writer_.add(p + "embedding_length", spec_.dim);
    writer_.add(p + "attention.head_count", spec_.heads);
    writer_.add(p + "attention.head_count_kv", spec_.kv_heads);
    writer_.add(p + "attention.key_length", spec_.head_dim);
    writer_.add(p + "attention.value_length", spec_.head_dim);
    writer_.add(p + "feed_forward_length", spec_.ffn);
    writer_.add(p + "context_length", spec_.context);
    writer_.add(p + "attention.layer_norm_rms_epsilon", 1e-6f);
    if (spec_.architecture != "gemma3") return;
    writer_.add(p + "attention.sliding_window", spec_.window);
    writer_.add(p + "attention.sliding_window_pattern", spec_.pattern);
  }

  void weights() {
    matrix("token_embd.weight", kVocabulary, spec_.dim);
    if (spec_.own_head) matrix("output.weight", kVocabulary, spec_.dim);
    vector("output_norm.weight", spec_.dim, 1.0f);
    if (spec_.rope_factors) vector("rope_freqs.weight", spec_.head_dim / 2, 2.0f);
    const uint32_t q = spec_.heads * spec_.head_dim, kv = spec_.kv_heads * spec_.head_dim;
    for (uint32_t l = 0; l < spec_.layers; ++l) {
      const std::string b = "blk." + std::to_string(l) + ".";
      linear(b + "attn_q", q, spec_.dim);
      linear(b + "attn_k", kv, spec_.dim);
      linear(b + "attn_v", kv, spec_.dim);
      linear(b + "attn_output", spec_.dim, q);
      linear(b + "ffn_gate", spec_.ffn, spec_.dim);
      linear(b + "ffn_up", spec_.ffn, spec_.dim);
      linear(b + "ffn_down", spec_.dim, spec_.ffn);
      vector(b + "attn_norm.weight", spec_.dim, 1.0f);
      vector(b + "ffn_norm.weight", spec_.dim, 1.0f);
      if (spec_.architecture != "gemma3") continue;
      vector(b + "attn_q_norm.weight", spec_.head_dim, 1.0f);
      vector(b + "attn_k_norm.weight", spec_.head_dim, 1.0f);
      vector(b + "post_attention_norm.weight", spec_.dim, 1.0f);
      vector(b + "post_ffw_norm.weight", spec_.dim, 1.0f);
    }
  }

  void linear(const std::string& name, uint32_t rows, uint32_t cols) {
    matrix(name + ".weight", rows, cols);
    if (spec_.biases) vector(name + ".bias", rows, 0.0f);
  }

  // Uniform in (-1, 1).
  float random() {
    const uint64_t bits = numerics::random_bits(spec_.seed, 0, counter_++, 0);
    return static_cast<float>(static_cast<double>(bits) / 0x1p63 - 1.0);
  }

  void matrix(const std::string& name, uint32_t rows, uint32_t cols) {
    DType dtype = spec_.dtypes[matrices_++ % spec_.dtypes.size()];
    if (cols % info(dtype).block != 0) dtype = DType::q8_0;
    std::vector<float> row(cols);
    const size_t stride = row_bytes(dtype, cols);
    std::vector<std::byte>& bytes = storage_.emplace_back(stride * rows);
    const float scale = 1.7f / std::sqrt(static_cast<float>(cols));
    for (uint32_t r = 0; r < rows; ++r) {
      for (float& x : row) x = scale * random();
      quant::encode_row(dtype, row.data(), bytes.data() + r * stride, cols);
    }
    writer_.add_tensor(name, dtype, {rows, cols}, bytes);
  }

  void vector(const std::string& name, uint32_t n, float middle) {
    std::vector<std::byte>& bytes = storage_.emplace_back(n * sizeof(float));
    for (uint32_t i = 0; i < n; ++i) {
      const float x = middle + 0.3f * random();
      std::memcpy(&bytes[i * sizeof(float)], &x, sizeof x);
    }
    writer_.add_tensor(name, DType::f32, {n}, bytes);
  }

  TinySpec spec_;
  loaders::GgufWriter writer_;
  std::deque<std::vector<std::byte>> storage_;
  uint64_t counter_ = 0;
  size_t matrices_ = 0;
};

}  // namespace gyre::engine
