#include <penstock/stream/bytes.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace {

using penstock::Bytes;
using penstock::MutableBytes;

static_assert(!std::is_convertible_v<const std::string&, MutableBytes>);
static_assert(!std::is_convertible_v<std::string_view, MutableBytes>);
static_assert(!std::is_convertible_v<std::vector<int>&, Bytes>);
static_assert(std::is_convertible_v<std::span<const std::byte>, Bytes>);
static_assert(std::is_convertible_v<std::span<std::byte>, MutableBytes>);

TEST(Bytes, ViewALiteralWithoutItsZeroAndAWholeArray) {
    EXPECT_EQ(Bytes("text").size(), 4U);
    const std::array<char, 4> array{'t', 'e', 'x', 0};
    EXPECT_EQ(Bytes(array).size(), 4U);
    char buffer[4] = {};
    EXPECT_EQ(Bytes(buffer).size(), 4U);
    EXPECT_EQ(MutableBytes(buffer).size(), 4U);
}

TEST(Bytes, ViewTheirSource) {
    std::string text = "text";
    const MutableBytes room(text);
    room[0] = std::byte{'n'};
    EXPECT_EQ(text, "next");
    const Bytes bytes(text);
    EXPECT_EQ(static_cast<const void*>(bytes.data()), text.data());
    EXPECT_EQ(Bytes(text.data(), 2).size(), 2U);
    EXPECT_TRUE(Bytes().empty());
    EXPECT_TRUE(MutableBytes().empty());
}

} // namespace
