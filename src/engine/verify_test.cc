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
  verify_tiny({.biases = true, .own_head = true}, "086a9632ea9dc2dce9855563b128cc28");
}

TEST(Verify, LlamaTiedHeadRopeFactors) {
  verify_tiny({.layers = 2,
               .heads = 6,
               .kv_heads = 2,
               .head_dim = 32,
               .rope_factors = true,
               .dtypes = {DType::q4_1, DType::q8_0, DType::q5_0}},
              "7979e3d36160755fc506514f80fb6db1");
}

TEST(Verify, Gemma3) {
  verify_tiny({.architecture = "gemma3"}, "66574c342f3dbaea6ac5d3df2215ebe5");
}

TEST(Verify, Gemma3WindowOfOneAndOddWindow) {
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 1, .window = 1, .pattern = 2},
              "898244c3d2ca60521ddb332ff35785be");
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 4, .window = 67, .pattern = 4},
              "6131abf0f0a75bc7ee1ca58b30fd98c5");
}

}  // namespace
}  // namespace gyre::engine
