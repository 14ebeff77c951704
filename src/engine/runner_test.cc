// The seams between rooms, and what happens when something goes wrong, on small random models.
#include "engine/runner.h"

#include <gtest/gtest.h>

#include <cstring>

#include "engine/generate.h"
#include "engine/score.h"
#include "engine/tiny_models.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

class RunnerTest : public testing::Test {
 protected:
  RunnerTest() : folder_(std::move(*os::TemporaryFolder::make("gyre-runner"))) {}

  std::string path(const char* name = "tiny.gguf") const { return folder_.path() + "/" + name; }

  std::unique_ptr<Loaded> load(TinySpec spec, int threads = 2) {
    EXPECT_TRUE(TinyModel(std::move(spec)).write(path()).ok());
    auto loaded = Loaded::open({.path = path(), .threads = threads});
    EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().text);
    return loaded ? std::move(*loaded) : nullptr;
  }

  static std::vector<TokenId> ids(uint32_t count) {
    std::vector<TokenId> out(count);
    for (uint32_t i = 0; i < count; ++i)
      out[i] = static_cast<TokenId>(numerics::random_bits(7, 0, i, 0) % TinyModel::kVocabulary);
    return out;
  }

  os::TemporaryFolder folder_;
};

std::unique_ptr<Runner> make_runner(Loaded& loaded, RunnerSettings settings = {}) {
  auto runner = Runner::make(loaded, settings);
  EXPECT_TRUE(runner.ok()) << (runner ? "" : runner.error().text);
  return std::move(*runner);
}

// A request's input is a list of spans: token ids, and ready embedding rows.
TEST_F(RunnerTest, EmbeddingSpansContinueTokens) {
  const auto loaded = load({});
  models::Model& model = loaded->model();
  const uint32_t dim = model.info().dim, n = 40, split = 13;
  const std::vector<TokenId> tokens = ids(n);
  auto embeddings = loaders::open_weights(path());
  const uint64_t shape[] = {TinyModel::kVocabulary, dim};
  const TensorView table = *(*embeddings)->tensor("token_embd.weight", shape);
  std::vector<float> ready(size_t{n - split} * dim);
  for (uint32_t i = split; i < n; ++i)
    quant::decode_row(table.dtype, table.data + tokens[i] * row_bytes(table.dtype, dim),
                      &ready[size_t{i - split} * dim], dim);

  kv::PagePool pool(0);
  std::vector<float> hidden[2];
  for (int variant = 0; variant < 2; ++variant) {
    auto step = nn::Step::make(loaded->backend(), model.shape(), n, 1, 256);
    auto row = kv::Sequence::make(pool, {model.places(), 256});
    ASSERT_TRUE(step.ok() && row.ok());
    std::vector<nn::Span> spans(1);
    spans[0].tokens = tokens;
    if (variant == 1) {
      spans[0].tokens = std::span(tokens).first(split);
      spans.push_back({{}, ready.data(), n - split, 0xabc});
    }
    const nn::RowInput input{&*row, spans, 0};
    hidden[variant].resize(size_t{n} * dim);
    step->want_hidden(3, hidden[variant].data());
    ASSERT_TRUE(step->begin({&input, 1}).ok());
    ASSERT_TRUE(model.forward(*step).ok());
    ASSERT_TRUE(step->row_is_finite(0));
  }
  EXPECT_EQ(std::memcmp(hidden[0].data(), hidden[1].data(), hidden[0].size() * 4), 0);
  EXPECT_NE(hidden[0][0], hidden[0][dim]);
}

// forward() can hand out any layer's rows; the last layer's are the step's own.
TEST_F(RunnerTest, HiddenRowsOfAnyLayer) {
  const auto loaded = load({});
  models::Model& model = loaded->model();
  kv::PagePool pool(0);
  auto step = nn::Step::make(loaded->backend(), model.shape(), 8, 1, 64);
  auto row = kv::Sequence::make(pool, {model.places(), 64});
  const std::vector<TokenId> tokens = ids(8);
  const nn::Span span{tokens};
  const nn::RowInput input{&*row, {&span, 1}, 0};
  std::vector<float> last(8 * model.info().dim);
  step->want_hidden(static_cast<int>(model.info().layers) - 1, last.data());
  ASSERT_TRUE(step->begin({&input, 1}).ok());
  ASSERT_TRUE(model.forward(*step).ok());
  EXPECT_EQ(std::memcmp(last.data(), step->x(0), last.size() * 4), 0);
}

TEST_F(RunnerTest, RefusesAdapterSlotsThatDoNotExist) {
  const auto loaded = load({});
  kv::PagePool pool(0);
  auto step = nn::Step::make(loaded->backend(), loaded->model().shape(), 8, 1, 64);
  auto row = kv::Sequence::make(pool, {loaded->model().places(), 64});
  const std::vector<TokenId> tokens = ids(2);
  const nn::Span span{tokens};
  const nn::RowInput input{&*row, {&span, 1}, 3};
  const Status refused = step->begin({&input, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "adapter slot: 3, expected 0");
}

TEST_F(RunnerTest, TokenIdsAndContextAreChecked) {
  const auto loaded = load({.context = 300});
  const auto runner = make_runner(*loaded);
  auto row = runner->open_row();
  std::vector<TokenId> tokens = ids(10);
  tokens[4] = static_cast<TokenId>(TinyModel::kVocabulary);
  RowTokens step{&*row, tokens};
  Status refused = runner->step({&step, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "token id: 320, expected 0 to 319");
  EXPECT_EQ(row->length(), 0u);
  const std::vector<TokenId> fits = ids(290), more = ids(11);
  step.tokens = fits;
  ASSERT_TRUE(runner->step({&step, 1}).ok());
  step.tokens = more;
  refused = runner->step({&step, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::context_overflow);
  EXPECT_EQ(refused.error().text, "positions of a row: 301, expected at most 300");
  EXPECT_EQ(row->length(), 290u);
}

// A row that meets an Inf ends alone: its neighbours keep their bits.
TEST_F(RunnerTest, NonFiniteRowEndsAlone) {
  const auto loaded = load({.dtypes = {DType::f32}});
  models::Model& model = loaded->model();
  const uint32_t dim = model.info().dim;
  const std::vector<TokenId> tokens = ids(30);
  std::vector<float> broken(size_t{5} * dim, 1.0f);
  broken[dim + 3] = INFINITY;
  kv::PagePool pool(0);
  std::vector<float> rows[2];
  for (int variant = 0; variant < 2; ++variant) {
    auto step = nn::Step::make(loaded->backend(), model.shape(), 64, 2, 64);
    auto good = kv::Sequence::make(pool, {model.places(), 64});
    auto bad = kv::Sequence::make(pool, {model.places(), 64});
    const nn::Span text{tokens}, image{{}, broken.data(), 5, 1};
    const nn::RowInput inputs[] = {{&*good, {&text, 1}, 0}, {&*bad, {&image, 1}, 0}};
    ASSERT_TRUE(step->begin({inputs, variant == 0 ? 1u : 2u}).ok());
    ASSERT_TRUE(model.forward(*step).ok());
    EXPECT_TRUE(step->row_is_finite(0));
    if (variant == 1) {
      EXPECT_FALSE(step->row_is_finite(1));
    }
    rows[variant].assign(step->x(0), step->x(0) + size_t{30} * dim);
  }
  EXPECT_EQ(std::memcmp(rows[0].data(), rows[1].data(), rows[0].size() * 4), 0);
}

TEST_F(RunnerTest, ScoreDoesNotDependOnChunks) {
  const auto loaded = load({.architecture = "gemma3"});
  const std::vector<TokenId> tokens = ids(230);
  const auto runner = make_runner(*loaded);
  const auto whole = score(*runner, tokens, {.chunk = 512});
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->logprobs.size(), 229u);
  EXPECT_GT(whole->perplexity, 1.0);
  for (const uint32_t chunk : {1u, 7u, 64u}) {
    const auto other = score(*runner, tokens, {.chunk = chunk});
    ASSERT_TRUE(other.ok());
    EXPECT_EQ(other->digest, whole->digest) << chunk;
    EXPECT_EQ(other->logprobs, whole->logprobs);
  }
  EXPECT_EQ(runner->pages().bytes_in_use(), 0u);
}

TEST_F(RunnerTest, GenerateIsReproducible) {
  const auto loaded = load({});
  const std::vector<TokenId> prompt = ids(20);
  GenerateSettings settings;
  settings.max_new_tokens = 60;
  settings.ignore_eos = true;
  settings.sampler.temperature = 1.0f;
  settings.sampler.seed = 42;
  std::vector<TokenId> first;
  for (const uint32_t chunk : {512u, 3u}) {
    const auto runner = make_runner(*loaded);
    settings.chunk = chunk;
    const auto out = generate(*runner, prompt, settings);
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->finish_reason, "length");
    EXPECT_EQ(out->ids.size(), 60u);
    if (first.empty()) first = out->ids;
    EXPECT_EQ(out->ids, first);
  }
  settings.sampler.seed = 43;
  const auto runner = make_runner(*loaded);
  EXPECT_NE(generate(*runner, prompt, settings)->ids, first);
  EXPECT_FALSE(generate(*runner, {}, settings).ok());
}

// Every allocation in turn fails: an error each time, nothing lost, nothing leaked.
TEST_F(RunnerTest, FailedAllocationsAreErrors) {
  TinySpec spec{.layers = 2, .dtypes = {DType::q8_0}};
  ASSERT_TRUE(TinyModel(spec).write(path()).ok());
  const std::vector<TokenId> tokens = ids(130);
  std::string expected;
  uint32_t failures = 0, successes_in_a_row = 0;
  // A failure that only an estimate needed (how much memory there is) is no error; so the end is
  // where many in a row succeed.
  for (long n = 0; successes_in_a_row < 20; ++n) {
    ASSERT_LT(n, 1000);
    fail_allocation_after(n);
    const auto attempt = [&]() -> Result<std::string> {
      GYRE_ASSIGN(const std::unique_ptr<Loaded> loaded,
                  Loaded::open({.path = path(), .threads = 1}));
      GYRE_ASSIGN(const std::unique_ptr<Runner> runner, Runner::make(*loaded, {.max_tokens = 64}));
      GYRE_ASSIGN(const Score result, score(*runner, tokens, {.chunk = 64}));
      return result.digest;
    }();
    fail_allocation_after(-1);
    if (attempt.ok()) {
      ++successes_in_a_row;
      if (expected.empty()) expected = *attempt;
      EXPECT_EQ(*attempt, expected);
    } else {
      ++failures;
      successes_in_a_row = 0;
      EXPECT_EQ(attempt.error().code, ErrorCode::out_of_memory) << attempt.error().text;
    }
  }
  EXPECT_GT(failures, 20u);
}

TEST_F(RunnerTest, PackCacheIsCheckedAndRewritten) {
  ASSERT_TRUE(TinyModel({}).write(path()).ok());
  const LoadSettings settings{.path = path(), .threads = 2, .pack_cache = path("cache")};
  const auto digest = [&](bool expect_cache) -> std::string {
    auto loaded = Loaded::open(settings);
    EXPECT_TRUE(loaded.ok()) << (loaded ? "" : loaded.error().text);
    if (!loaded) return {};
    EXPECT_EQ((*loaded)->model().weights().from_cache(), expect_cache);
    return score(*make_runner(**loaded), ids(50), {})->digest;
  };
  if (kernels::available_isas().size() == 1) GTEST_SKIP() << "the reference does not pack";
  const std::string packed = digest(false);
  EXPECT_EQ(digest(true), packed);
  // One flipped bit in the cache: noticed, packed anew.
  const std::string file = models::pack_cache_files(path("cache")).at(0);
  std::string bytes = *os::read_file(file, size_t{1} << 30);
  bytes[bytes.size() / 2] ^= 4;
  ASSERT_TRUE(os::write_file_atomically(file, std::as_bytes(std::span(bytes))).ok());
  EXPECT_EQ(digest(false), packed);
  EXPECT_EQ(digest(true), packed);
}

TEST_F(RunnerTest, UnwritablePackCacheIsAnError) {
  ASSERT_TRUE(TinyModel({}).write(path()).ok());
  if (kernels::available_isas().size() == 1) GTEST_SKIP() << "the reference does not pack";
  const auto refused = Loaded::open({.path = path(), .pack_cache = path()});  // a file
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::io);
}

}  // namespace
}  // namespace gyre::engine
