#include <penstock/http/cookie.hpp>

#include <penstock/http/server.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::SetCookie;
using penstock::testing::exchange;
using penstock::testing::with_server;

/// "name=value;" of each cookie.
std::string read(const std::vector<http::Field>& fields) {
    std::string text;
    for (const http::Cookie& cookie : http::cookies(http::Fields(fields))) {
        text.append(cookie.name).append("=").append(cookie.value).append(";");
    }
    return text;
}

std::string read(std::string_view value) {
    return read({{.name = "cookie", .value = value}});
}

/// Why a cookie is refused. Empty if it is not.
std::string refusal(const std::function<void(SetCookie&)>& change) {
    SetCookie cookie{.name = "a", .value = "b"};
    change(cookie);
    try {
        (void)cookie.to_string();
    } catch (const std::invalid_argument& error) {
        return error.what();
    }
    return {};
}

TEST(Cookies, AreReadInTheirOrder) {
    EXPECT_EQ(read("b=1; a=2;b=3"), "b=1;a=2;b=3;");
    EXPECT_EQ(read({{.name = "Cookie", .value = "a=1"},
                    {.name = "Other", .value = "b=2"},
                    {.name = "COOKIE", .value = "c=3"}}),
              "a=1;c=3;");
}

TEST(Cookies, NothingIsRefusedOrDecoded) {
    EXPECT_EQ(read(" a = 1 ;; ;\t"), "a=1;");
    EXPECT_EQ(read("alone; =x; b=c=d; e="), "=alone;=x;b=c=d;e=;");
    EXPECT_EQ(read("a=\"q s\"; b=%41+; c=\xFF"), "a=\"q s\";b=%41+;c=\xFF;");
    EXPECT_EQ(read(""), "");
    EXPECT_EQ(read(std::vector<http::Field>()), "");
}

TEST(Cookies, TheFirstOfANameIsFound) {
    const std::vector<http::Field> storage{{.name = "Cookie", .value = "A=0; a=1"},
                                           {.name = "Cookie", .value = "a=2; b="}};
    const http::Fields fields(storage);
    EXPECT_EQ(http::find_cookie(fields, "a"), "1");
    EXPECT_EQ(http::find_cookie(fields, "b"), "");
    EXPECT_EQ(http::find_cookie(fields, "c"), std::nullopt);
}

TEST(SetCookies, AllAttributesAreWritten) {
    EXPECT_EQ((SetCookie{.name = "a", .value = "b"}).to_string(), "a=b");
    const SetCookie whole{.name = "a",
                          .value = "b=/+",
                          .path = "/x",
                          .domain = "example.org",
                          .expires = std::chrono::sys_days(std::chrono::year(2031) / 1 / 2) + 3h,
                          .max_age = 60s,
                          .secure = true,
                          .http_only = true,
                          .same_site = http::SameSite::none,
                          .partitioned = true};
    EXPECT_EQ(whole.to_string(),
              "a=b=/+; Expires=Thu, 02 Jan 2031 03:00:00 GMT; Max-Age=60; Domain=example.org; "
              "Path=/x; Secure; HttpOnly; SameSite=None; Partitioned");
    EXPECT_EQ(whole.removal().to_string(),
              "a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=0; Domain=example.org; Path=/x; "
              "Secure; HttpOnly; SameSite=None; Partitioned");
    EXPECT_EQ((SetCookie{.name = "a", .value = "b", .same_site = http::SameSite::lax}).to_string(),
              "a=b; SameSite=Lax");
    EXPECT_EQ(
        (SetCookie{.name = "a", .value = "b", .same_site = http::SameSite::strict}).to_string(),
        "a=b; SameSite=Strict");
}

TEST(SetCookies, WhatWouldBeAnotherFieldOrAttributeIsRefused) {
    for (const char* name : {"", "a b", "a=b", "a;", "a\r\n", "\"a\"", "\xC3\xA4"}) {
        EXPECT_NE(refusal([&](SetCookie& cookie) { cookie.name = name; }), "") << name;
    }
    for (const char* value : {"a b", "a;Path=/", "a,b", "\"a\"", "a\\b", "a\r\nX: 1", "\xC3\xA4"}) {
        EXPECT_NE(refusal([&](SetCookie& cookie) { cookie.value = value; }), "") << value;
    }
    for (const char* path : {"x", "/a;b", "/a b", "/\r\n"}) {
        EXPECT_NE(refusal([&](SetCookie& cookie) { cookie.path = path; }), "") << path;
    }
    for (const char* domain : {".example.org", "a;b", "a b", "a\n"}) {
        EXPECT_NE(refusal([&](SetCookie& cookie) { cookie.domain = domain; }), "") << domain;
    }
}

TEST(SetCookies, WhatBrowsersIgnoreIsRefused) {
    EXPECT_EQ(refusal([](SetCookie& cookie) { cookie.value = std::string(4095, 'x'); }), "");
    EXPECT_NE(refusal([](SetCookie& cookie) { cookie.value = std::string(4096, 'x'); }), "");
    EXPECT_NE(refusal([](SetCookie& cookie) { cookie.path = "/" + std::string(1024, 'x'); }), "");
    EXPECT_EQ(refusal([](SetCookie& cookie) { cookie.same_site = http::SameSite::none; }),
              "the cookie \"a\" has SameSite::none and must be secure");
    EXPECT_EQ(refusal([](SetCookie& cookie) { cookie.partitioned = true; }),
              "the cookie \"a\" is partitioned and must be secure");
}

TEST(SetCookies, PrefixesOfNamesHoldInAnyCase) {
    for (const char* name : {"__Secure-a", "__SECURE-a", "__secure-"}) {
        EXPECT_NE(refusal([&](SetCookie& cookie) { cookie.name = name; }), "") << name;
        EXPECT_EQ(refusal([&](SetCookie& cookie) {
                      cookie.name = name;
                      cookie.secure = true;
                  }),
                  "");
    }
    const auto with = [](const char* path, const char* domain, bool secure) {
        return refusal([&](SetCookie& cookie) {
            cookie = {.name = "__hOST-a", .value = "b", .path = path, .domain = domain};
            cookie.secure = secure;
        });
    };
    EXPECT_EQ(with("/", "", true), "");
    EXPECT_NE(with("/", "", false), "");
    EXPECT_NE(with("", "", true), "");
    EXPECT_NE(with("/x", "", true), "");
    EXPECT_NE(with("/", "a.org", true), "");
}

TEST(SetCookies, EachIsAFieldOfItsOwn) {
    http::Server server;
    server.get("/", [](http::Request& request, http::Response& response) {
        const std::string seen(http::find_cookie(request.fields(), "n").value_or("none"));
        http::set_cookie(response, {.name = "n", .value = seen});
        http::set_cookie(response, {.name = "m", .value = "2", .http_only = true});
    });
    std::string answer;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        answer =
            co_await exchange(endpoint, "GET / HTTP/1.1\r\nHost: a\r\nCookie: x=1; n=7\r\n\r\n");
    });
    EXPECT_NE(answer.find("Set-Cookie: n=7\r\nSet-Cookie: m=2; HttpOnly\r\n"), std::string::npos)
        << answer;
}

} // namespace
