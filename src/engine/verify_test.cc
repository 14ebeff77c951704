// The contract's matrix on small random models whose matrices have all weight formats.
#include "engine/verify.h"

#include <gtest/gtest.h>

#include "engine/tiny_models.h"
#include "os/temporary.h"

namespace gyre::engine {
namespace {

// The digests are the same for every compiler, build type, sanitizer and machine: a changed one is
// a changed contract (docs/contract.md), whatever the reason.
using Digests = std::vector<std::pair<std::string, std::string>>;
void verify_tiny(TinySpec spec, const Digests& digests) {
  auto folder = os::TemporaryFolder::make("gyre-tiny");
  EXPECT_TRUE(folder.ok());
  VerifySettings settings;
  settings.quick = true;
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
  EXPECT_EQ(report->digests, digests);
}

TEST(Verify, Llama) {
  verify_tiny({.biases = true, .own_head = true},
              {{"bf16", "b8d6a64bacee46fc0b3c8e64466efa60"},
               {"kv8", "d0d98ccc718c5bddedb2223b1ae965cb"},
               {"kv4", "e843b7e63c9bfa8f4fb30368e10190f6"},
               {"kv4-g32", "8d9e2eb21094dff6598ce2469fb122a4"},
               {"config", "f4b05a1deb11694a92358f0f74d34be6"},
               {"turbo-k8v4", "c395807dba6034a903598e626b8629b8"},
               {"turbo-k8v3", "e33c5db55f190c0352675c07ea2863db"},
               {"anchor-k4v4", "35c76efa62dd9d89dc7aed9a9fe56f3a"},
               {"kv8-start100", "2d3b041d9e0dc39e1ff7af3caeef9eed"},
               {"turbo-k8v4-start64", "7757719fe17eac257738a2387058d23b"},
               {"anchor-k4v4-start130", "c33313c97141e0f10104715f7b818c27"}});
}

TEST(Verify, LlamaTiedHeadRopeFactors) {
  verify_tiny({.layers = 2,
               .heads = 6,
               .kv_heads = 2,
               .head_dim = 32,
               .rope_factors = true,
               .dtypes = {DType::q4_1, DType::q8_0, DType::q5_0}},
              {{"bf16", "1095ef6822658fa54dda5ef58f653eba"},
               {"kv4-g32", "2a4225a5e781fab037d1b78494d3776c"},
               {"config", "a8cbdfe5cdf4608b93293535b091913a"},
               {"turbo-k8v4", "78d0eb291f3d679c8c1fb84e9e91d375"},
               {"turbo-k8v3", "829bc03e445b8c3e4aa4be17df7448c9"},
               {"anchor-k4v4", "1ba4d8e00e3fac6568ebf8721f39c119"},
               {"turbo-k8v4-start64", "6b7a101bcd7b83d0c95f46516328b25e"},
               {"anchor-k4v4-start130", "aed5587c78286891c113c6e974ca423d"}});
}

TEST(Verify, Gemma3) {
  verify_tiny({.architecture = "gemma3"},
              {{"bf16", "4b7d9f500ef226c2d4b87c057898a644"},
               {"kv8", "21090ace9099340e2c96592a34d1544f"},
               {"kv4", "3a8d61c357ebbdde479fbd8169c5e7e4"},
               {"kv4-g32", "fb66f99a6d3c721bacc00c8c197e2611"},
               {"config", "9ac38fdbcd93d867068f77bcb0fceeda"},
               {"turbo-k8v4", "606ff010f1a6ebe6eec9dbbbe4ad3200"},
               {"turbo-k8v3", "036acbd981fd719596862c4881417bd8"},
               {"anchor-k4v4", "f2c7a355862e8b3b14303ef24102a7d1"},
               {"kv8-start100", "97e27eb781fe34aa42c73cdf7a54f08d"},
               {"turbo-k8v4-start64", "b420093b1ff498b332592eb8974a0740"},
               {"anchor-k4v4-start130", "ed2f7205bcacf3417540d9812d22e656"}});
}

TEST(Verify, Gemma3WindowOfOneAndOddWindow) {
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 1, .window = 1, .pattern = 2},
              {{"bf16", "ec2acd87ed49e2b23d98aa1d45b6d9e5"},
               {"kv8", "8fc8e2bbc4c776a79a252aa4570a6f53"},
               {"kv4", "a198b15846925a51acb5f600d906a96b"},
               {"kv4-g32", "696a77b4d48f3dad17061ad1a8a208e7"},
               {"config", "6a70eb389284ce04e04ab5a96d2427ee"},
               {"turbo-k8v4", "cac80d4b82e64a4e26793485a57a8dc3"},
               {"turbo-k8v3", "777b9c164aef7324b1b89b8031286b6b"},
               {"anchor-k4v4", "737bc7dec53638912cd271260e6695fc"},
               {"kv8-start100", "e0955809b7df07abf3558ae1d251c91c"},
               {"turbo-k8v4-start64", "ee0ee7071b83c5c86e9f9bf7ee327c34"},
               {"anchor-k4v4-start130", "9efa0c6a439cbbf910bf45e2e8fe1eea"}});
  verify_tiny({.architecture = "gemma3", .layers = 4, .kv_heads = 4, .window = 67, .pattern = 4},
              {{"bf16", "fff8ef22d4d96277acbc4f7e5e8db4ce"},
               {"kv8", "aff55d741286d817a8baecf5ab6217c0"},
               {"kv4", "8f8e9c9a6ae15227cabfc8efd1c6981e"},
               {"kv4-g32", "4503ab8e8a7f262d3719113526016643"},
               {"config", "85aefae2a6ab258484374b9e2722c224"},
               {"turbo-k8v4", "5993f7b751b6c2d5cbcba0f1deafacb0"},
               {"turbo-k8v3", "5f79eba581cf53829d1afc35378359e3"},
               {"anchor-k4v4", "e28450f26d01a4d74244209b325e16ea"},
               {"kv8-start100", "e70c2bd5ad429749f704f3eeb8c60eba"},
               {"turbo-k8v4-start64", "c09b873f05ec17e54616920c29b468d8"},
               {"anchor-k4v4-start130", "9fea5db91c2cf5925ec390876129fe3e"}});
}

// One scheme alone; what the model cannot have is refused, or left out with its reason.
TEST(Verify, OneSchemeAndRefusedOnes) {
  auto folder = os::TemporaryFolder::make("gyre-tiny");
  VerifySettings settings;
  settings.quick = true;
  settings.load.path = folder->path() + "/tiny.gguf";
  TinySpec spec{.layers = 2, .heads = 4, .kv_heads = 2, .head_dim = 32, .dtypes = {DType::q8_0}};
  ASSERT_TRUE(TinyModel(std::move(spec)).write(settings.load.path).ok());
  settings.scheme = *kv::KvScheme::parse("kv4-g32-start90", nullptr);
  const auto one = verify(settings);
  ASSERT_TRUE(one.ok()) << one.error().text;
  EXPECT_TRUE(one->ok());
  ASSERT_EQ(one->digests.size(), 1u);
  EXPECT_EQ(one->digests[0].first, "kv4-g32-start90");
  settings.scheme = *kv::KvScheme::parse("kv4", nullptr);
  const auto refused = verify(settings);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "kv4: layer 0: K: group: 64, expected a divisor of the head size 32");
}

}  // namespace
}  // namespace gyre::engine
