// The contract's matrix on small random models whose matrices have all weight formats.
#include "engine/verify.h"

#include <gtest/gtest.h>

#include "engine/tiny_models.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

VerifyReport verify_tiny(TinySpec spec) {
  auto folder = os::TemporaryFolder::make("gyre-tiny");
  EXPECT_TRUE(folder.ok());
  VerifySettings settings;
  settings.load.path = folder->path() + "/tiny.gguf";
  const Status written = TinyModel(std::move(spec)).write(settings.load.path);
  EXPECT_TRUE(written.ok()) << written.error().text;
  auto report = verify(settings);
  EXPECT_TRUE(report.ok()) << report.error().text;
  if (!report) return {};
  for (const VerifyAxis& axis : report->axes) {
    EXPECT_TRUE(axis.exercised) << axis.name << ": " << axis.evidence;
    EXPECT_TRUE(axis.equal) << axis.name << ": " << axis.evidence;
  }
  EXPECT_TRUE(report->ok());
  EXPECT_GE(report->positions, 220u);
  return *report;
}

TEST(Verify, Llama) {
  verify_tiny({.biases = true, .own_head = true});
}

TEST(Verify, LlamaTiedHeadRopeFactors) {
  verify_tiny({.layers = 2,
               .heads = 6,
               .kv_heads = 2,
               .head_dim = 32,
               .rope_factors = true,
               .dtypes = {DType::q4_1, DType::q8_0, DType::q5_0}});
}

TEST(Verify, Gemma3) {
  verify_tiny({.architecture = "gemma3"});
}

TEST(Verify, Gemma3WindowOfOneAndOddWindow) {
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 1, .window = 1, .pattern = 2});
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 4, .window = 67, .pattern = 4});
}

}  // namespace
}  // namespace gyre::engine
