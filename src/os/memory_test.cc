#include "os/memory.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/memory.h"

namespace gyre::os {
namespace {

TEST(Pages, RoundedAlignedZeroedAndWritable) {
  for (const auto huge : {Pages::Huge::no, Pages::Huge::yes}) {
    auto pages = Pages::make(Pages::kStep + 1, huge, "test");
    ASSERT_TRUE(pages);
    EXPECT_EQ(pages->size(), 2 * Pages::kStep);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pages->data()) % Pages::kStep, 0u);
    EXPECT_TRUE(std::all_of(pages->span().begin(), pages->span().end(),
                            [](std::byte b) { return b == std::byte{0}; }));
    std::fill(pages->span().begin(), pages->span().end(), std::byte{7});

    const std::byte* place = pages->data();
    Pages other = *std::move(pages);
    Pages third;
    third = std::move(other);
    EXPECT_EQ(third.data(), place);
    EXPECT_EQ(other.size(), 0u);
    EXPECT_EQ(third.span()[2 * Pages::kStep - 1], std::byte{7});
  }
  EXPECT_EQ(Pages::make(0, Pages::Huge::no, "none")->size(), 0u);
  EXPECT_EQ(Pages::make(Pages::kStep, Pages::Huge::no, "one")->size(), Pages::kStep);
}

TEST(Pages, RefusesWhatCannotBe) {
  for (const size_t bytes : {~size_t{0}, ~size_t{0} - Pages::kStep, size_t{1} << 62}) {
    auto pages = Pages::make(bytes, Pages::Huge::yes, "KV pool");
    ASSERT_FALSE(pages);
    EXPECT_EQ(pages.error().code, ErrorCode::out_of_memory);
    EXPECT_EQ(pages.error().text, "KV pool: " + std::to_string(bytes) + " bytes");
  }
  fail_allocation_after(1);
  EXPECT_TRUE(Pages::make(1, Pages::Huge::no, "a"));
  EXPECT_EQ(Pages::make(1, Pages::Huge::no, "b").error().code, ErrorCode::out_of_memory);
  EXPECT_TRUE(Pages::make(1, Pages::Huge::no, "c"));
}

}  // namespace
}  // namespace gyre::os
