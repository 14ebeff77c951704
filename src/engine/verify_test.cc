// The contract's matrix on small random models whose matrices have all weight formats.
#include "engine/verify.h"

#include <gtest/gtest.h>

#include "engine/tiny_models.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

// The digests are the same for every compiler, build type, sanitizer and machine: a changed one is
// a changed contract (docs/contract.md), whatever the reason.
void verify_tiny(TinySpec spec, const std::string& digest) {
  auto folder = os::TemporaryFolder::make("gyre-tiny");
  EXPECT_TRUE(folder.ok());
  VerifySettings settings;
  settings.load.path = folder->path() + "/tiny.gguf";
  const Status written = TinyModel(std::move(spec)).write(settings.load.path);
  EXPECT_TRUE(written.ok()) << written.error().text;
  auto report = verify(settings);
  ASSERT_TRUE(report.ok()) << report.error().text;
  for (const VerifyAxis& axis : report->axes) {
    EXPECT_TRUE(axis.exercised) << axis.name << ": " << axis.evidence;
    EXPECT_TRUE(axis.equal) << axis.name << ": " << axis.evidence;
  }
  EXPECT_TRUE(report->ok());
  EXPECT_GE(report->positions, 220u);
  EXPECT_EQ(report->digest, digest);
}

TEST(Verify, Llama) {
  verify_tiny({.biases = true, .own_head = true}, "cd92e9a504b4c6c2624ee5320665d950");
}

TEST(Verify, LlamaTiedHeadRopeFactors) {
  verify_tiny({.layers = 2,
               .heads = 6,
               .kv_heads = 2,
               .head_dim = 32,
               .rope_factors = true,
               .dtypes = {DType::q4_1, DType::q8_0, DType::q5_0}},
              "b1d527ede3f34b8ccb4f76e343f09a13");
}

TEST(Verify, Gemma3) {
  verify_tiny({.architecture = "gemma3"}, "73f54a42080f9e968711862a931b941d");
}

TEST(Verify, Gemma3WindowOfOneAndOddWindow) {
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 1, .window = 1, .pattern = 2},
              "d27a107fda61fcd5ab09883096e72d34");
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 4, .window = 67, .pattern = 4},
              "328661d69c2dcf479ea940a936f0654a");
}

}  // namespace
}  // namespace gyre::engine
