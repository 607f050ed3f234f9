#include <penstock/ws/detail/url.hpp>

#include <string_view>
#include <system_error>

#include <gtest/gtest.h>

namespace {

using penstock::Result;
using penstock::ws::detail::parse_proxy;
using penstock::ws::detail::parse_url;
using penstock::ws::detail::Url;

TEST(WebSocketUrl, SplitsHostPortAndTarget) {
    Result<Url> url = parse_url("ws://example.org/chat?room=1");
    ASSERT_TRUE(url);
    EXPECT_FALSE(url->secure);
    EXPECT_EQ(url->host, "example.org");
    EXPECT_EQ(url->port, 80);
    EXPECT_EQ(url->authority, "example.org");
    EXPECT_EQ(url->target, "/chat?room=1");

    url = parse_url("WSS://example.org:8443?room=1");
    ASSERT_TRUE(url);
    EXPECT_TRUE(url->secure);
    EXPECT_EQ(url->port, 8443);
    EXPECT_EQ(url->authority, "example.org:8443");
    EXPECT_EQ(url->target, "/?room=1");

    url = parse_url("wss://[::1]:443");
    ASSERT_TRUE(url);
    EXPECT_EQ(url->host, "::1");
    EXPECT_EQ(url->port, 443);
    EXPECT_EQ(url->authority, "[::1]");
    EXPECT_EQ(url->target, "/");
}

TEST(WebSocketUrl, RefusesWhatIsNone) {
    for (const std::string_view text :
         {"", "ws", "ws:/x", "http://x", "ws://", "ws:///x", "ws://:80", "ws://x:0", "ws://x:65536",
          "ws://x:8a", "ws://x:-1", "ws://[::1", "ws://[]", "ws://[::1]80", "ws://me@x",
          "ws://x/#f", "ws://x/a b", "ws://x/\r\nHost: y", "ws://x\xc3\xa4"}) {
        EXPECT_EQ(parse_url(text).error(), std::errc::invalid_argument) << text;
    }
}

TEST(WebSocketUrl, TakesProxiesApart) {
    auto proxy = parse_proxy("http://proxy.example");
    ASSERT_TRUE(proxy);
    EXPECT_EQ(proxy->host, "proxy.example");
    EXPECT_EQ(proxy->port, 80);
    EXPECT_EQ(proxy->credentials, "");
    EXPECT_FALSE(proxy->secure);

    proxy = parse_proxy("https://proxy.example");
    ASSERT_TRUE(proxy);
    EXPECT_TRUE(proxy->secure);
    EXPECT_EQ(proxy->port, 443);

    proxy = parse_proxy("HTTP://us%65r:p%40ss@[::1]:3128/");
    ASSERT_TRUE(proxy);
    EXPECT_EQ(proxy->host, "::1");
    EXPECT_EQ(proxy->port, 3128);
    EXPECT_EQ(proxy->credentials, "user:p@ss");

    for (const std::string_view text :
         {"", "proxy", "https://", "socks5://proxy", "http://", "http://proxy/path",
          "http://user@proxy", "http://a:b%4@proxy", "http://a:b%zz@proxy", "http://proxy:0",
          "http://a:b@", "http://pro xy"}) {
        EXPECT_EQ(parse_proxy(text).error(), std::errc::invalid_argument) << text;
    }
}

} // namespace
