#include <penstock/codec/http/target.hpp>

#include <string_view>

#include <gtest/gtest.h>

namespace {

using namespace penstock::codec::http;

TEST(HttpTarget, IsSplitInEachForm) {
    const Target origin = split_target("/a/b?c=d?e");
    EXPECT_EQ(origin.path, "/a/b");
    EXPECT_EQ(origin.query, "c=d?e");
    EXPECT_EQ(origin.authority, "");
    const Target absolute = split_target("http://example.org:80/a?b");
    EXPECT_EQ(absolute.path, "/a");
    EXPECT_EQ(absolute.query, "b");
    EXPECT_EQ(absolute.authority, "example.org:80");
    EXPECT_EQ(split_target("http://example.org").path, "/");
    EXPECT_EQ(split_target("http://example.org?q").query, "q");
    EXPECT_EQ(split_target("*").path, "*");
    EXPECT_EQ(split_target("example.org:443").authority, "example.org:443");
    EXPECT_EQ(split_target("/a://b").path, "/a://b");
}

TEST(HttpTarget, TellsValidEncoding) {
    EXPECT_TRUE(is_percent_encoded("/a%20b%C3%a4"));
    EXPECT_FALSE(is_percent_encoded("/a%2"));
    EXPECT_FALSE(is_percent_encoded("/a%"));
    EXPECT_FALSE(is_percent_encoded("/a%zz"));
    EXPECT_FALSE(is_percent_encoded("/a%00"));
}

TEST(HttpTarget, IsDecoded) {
    EXPECT_EQ(percent_decode("a%20b+c%2Fd"), "a b+c/d");
    EXPECT_EQ(percent_decode("a%20b+c", Plus::space), "a b c");
    EXPECT_EQ(percent_decode("%zz%4"), "%zz%4");
    EXPECT_TRUE(decodes_to("%61b", "ab"));
    EXPECT_FALSE(decodes_to("%61b", "a"));
    EXPECT_FALSE(decodes_to("a", "ab"));
}

TEST(HttpTarget, HasParameters) {
    constexpr std::string_view query = "a=1&b=x+y%26&&c&%64=4&a=2&e=";
    EXPECT_EQ(find_parameter(query, "a"), "1");
    EXPECT_EQ(find_parameter(query, "b"), "x y&");
    EXPECT_EQ(find_parameter(query, "c"), "");
    EXPECT_EQ(find_parameter(query, "d"), "4");
    EXPECT_EQ(find_parameter(query, "e"), "");
    EXPECT_EQ(find_parameter(query, "f"), std::nullopt);
    EXPECT_EQ(find_parameter(query, ""), std::nullopt);
    EXPECT_EQ(find_parameter("", "a"), std::nullopt);
}

} // namespace
