#include "numerics/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace gyre::numerics {
namespace {

// Known answers published with Random123 (tests/kat_vectors, philox4x32, 10 rounds).
TEST(Philox, PublishedKnownAnswers) {
  constexpr uint32_t ones = 0xffffffffu;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AddressIsMappedAsDocumented) {
  const PhiloxCounter words = philox4x32({0x55667788, 0x11223344, 7, 9}, {0xddeeff00, 0x99aabbcc});
  EXPECT_EQ(random_bits(0x99aabbccddeeff00, 7, 0x1122334455667788, 9),
            words[0] | uint64_t{words[1]} << 32);
}

TEST(Philox, EveryPartOfTheAddressMatters) {
  std::set<uint64_t> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
    for (uint32_t choice : {0u, 1u})
      for (uint64_t position : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32})
        for (uint32_t draw : {0u, 1u}) seen.insert(random_bits(seed, choice, position, draw));
  EXPECT_EQ(seen.size(), 36u);
}

}  // namespace
}  // namespace gyre::numerics
