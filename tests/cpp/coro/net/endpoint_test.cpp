#include <penstock/net/endpoint.hpp>

#include <string>
#include <string_view>

#include <sys/un.h>

#include <gtest/gtest.h>

namespace {

using penstock::net::Endpoint;

TEST(Endpoint, RoundTripsNumericAddresses) {
    EXPECT_EQ(Endpoint::parse("127.0.0.1", 80)->to_string(), "127.0.0.1:80");
    EXPECT_EQ(Endpoint::parse("::1", 80)->to_string(), "[::1]:80");
    EXPECT_EQ(Endpoint::parse("2001:DB8:0:0::5", 65535)->to_string(), "[2001:db8::5]:65535");
    EXPECT_EQ(Endpoint::parse("::ffff:1.2.3.4", 0)->address(), "::ffff:1.2.3.4");
    EXPECT_EQ(Endpoint().to_string(), "0.0.0.0:0");
}

TEST(Endpoint, ReadsAZoneByNameAndByNumber) {
    EXPECT_EQ(Endpoint::parse("fe80::1%lo", 5)->to_string(), "[fe80::1%lo]:5");
    EXPECT_EQ(Endpoint::parse("fe80::1%1", 5), Endpoint::parse("fe80::1%lo", 5));
    EXPECT_NE(Endpoint::parse("fe80::1%1", 5), Endpoint::parse("fe80::1", 5));
    EXPECT_FALSE(Endpoint::parse("fe80::1%no-such-link", 5));
    EXPECT_FALSE(Endpoint::parse("fe80::1%", 5));
}

TEST(Endpoint, RefusesInvalidAddresses) {
    using namespace std::string_view_literals;
    for (const std::string_view text :
         {""sv, "localhost"sv, "256.1.1.1"sv, "1.2.3"sv, "1.2.3.4 "sv, ":::"sv, "127.0.0.1%lo"sv,
          "127.0.0.1\0"sv, "[::1]"sv, "::1%lo\0x"sv}) {
        EXPECT_EQ(Endpoint::parse(text, 1).error(), std::errc::invalid_argument) << text;
    }
}

TEST(Endpoint, ComparesAllParts) {
    EXPECT_EQ(Endpoint::loopback(1), *Endpoint::parse("127.0.0.1", 1));
    EXPECT_NE(Endpoint::loopback(1), Endpoint::loopback(2));
    EXPECT_NE(Endpoint::any(1), Endpoint::any_v6(1));
    EXPECT_LT(Endpoint::any_v6(9), Endpoint::loopback_v6(1));
    EXPECT_LT(Endpoint::loopback(1), Endpoint::loopback(256));
}

TEST(Endpoint, TakesOnlyIpv4AndIpv6) {
    const Endpoint v6 = Endpoint::loopback_v6(3);
    EXPECT_EQ(Endpoint::from_native(v6.native(), v6.native_size()), v6);
    EXPECT_EQ(Endpoint::from_native(v6.native(), 4).error(),
              std::errc::address_family_not_supported);
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    EXPECT_EQ(
        Endpoint::from_native(reinterpret_cast<const sockaddr*>(&local), sizeof local).error(),
        std::errc::address_family_not_supported);
    EXPECT_EQ(Endpoint::of_socket(-1).error(), std::errc::bad_file_descriptor);
}

} // namespace
