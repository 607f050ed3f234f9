// Redirects (RFC 9110, section 15.4) of http::Client.

#include <penstock/http/client.hpp>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "coro/http_client/scripted_server.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::AsyncGenerator;
using penstock::run;
using penstock::Task;
using penstock::http::BearerToken;
using penstock::http::Client;
using penstock::http::ClientError;
using penstock::http::ClientOptions;
using penstock::http::FetchedResponse;
using penstock::http::Method;
using penstock::http::RequestBody;
using penstock::http::Status;
using penstock::testing::answering;
using penstock::testing::expect;
using penstock::testing::ReceivedRequest;
using penstock::testing::ScriptedServer;
using penstock::testing::ServedConnection;
using penstock::testing::Watchdog;
using penstock::testing::with_server;

/// Redirects "/301/next" to "/next", and tells any other request.
Task<> redirect(ServedConnection& connection, ReceivedRequest request) {
    const std::string& target = request.target;
    if (target.size() > 4 && target[4] == '/') {
        (void)co_await connection.respond(std::stoi(target.substr(1, 3)), "moved",
                                          "Location: " + target.substr(4) + "\r\n");
    } else {
        (void)co_await connection.respond(200, request.method + " " + target + " [" + request.body +
                                                   "] " + request.field("content-type"));
    }
}

template <typename Body> void with_redirects(Body body) {
    const Watchdog watchdog;
    run(with_server(answering(redirect), std::move(body)));
}

TEST(HttpClientRedirect, KeepsOrChangesTheMethod) {
    with_redirects([](const ScriptedServer& server) -> Task<> {
        Client client;
        const auto follow = [&](Method method, const char* status) -> Task<std::string> {
            const bool has_body = method == Method::post || method == Method::put;
            const FetchedResponse response = expect(
                co_await client.fetch({.url = server.url + "/" + status + "/x",
                                       .method = method,
                                       .headers = {{"Content-Type", "text/a"}},
                                       .body = has_body ? RequestBody("body") : RequestBody()}));
            EXPECT_EQ(response.redirects, 1U);
            EXPECT_EQ(response.url, server.url + "/x");
            co_return response.body;
        };
        for (const char* status : {"301", "302", "303", "307", "308"}) {
            EXPECT_EQ(co_await follow(Method::get, status),
                      std::string_view(status) == "303" ? "GET /x [] (none)" : "GET /x [] text/a");
            EXPECT_EQ(co_await follow(Method::head, status), "");
        }
        for (const char* status : {"301", "302", "303"}) {
            EXPECT_EQ(co_await follow(Method::post, status), "GET /x [] (none)") << status;
        }
        for (const char* status : {"307", "308"}) {
            EXPECT_EQ(co_await follow(Method::post, status), "POST /x [body] text/a") << status;
        }
        for (const char* status : {"301", "302", "307", "308"}) {
            EXPECT_EQ(co_await follow(Method::put, status), "PUT /x [body] text/a") << status;
            EXPECT_EQ(co_await follow(Method::delete_, status), "DELETE /x [] text/a") << status;
        }
        EXPECT_EQ(co_await follow(Method::put, "303"), "GET /x [] (none)");
        EXPECT_EQ(co_await follow(Method::delete_, "303"), "GET /x [] (none)");
        EXPECT_EQ(server.connections, 1U);
    });
}

TEST(HttpClientRedirect, HasALimit) {
    with_redirects([](const ScriptedServer& server) -> Task<> {
        Client client(ClientOptions{.redirects = 2});
        EXPECT_EQ(expect(co_await client.get(server.url + "/301/302/x")).redirects, 2U);
        const auto circle = co_await client.get(server.url + "/301/302/303/x");
        EXPECT_EQ(circle.error(), ClientError::too_many_redirects);
        const FetchedResponse first = expect(
            co_await client.fetch({.url = server.url + "/301/x", .redirects = std::size_t{0}}));
        EXPECT_EQ(first.status, Status::moved_permanently);
        EXPECT_EQ(first.headers.find("Location"), "/x");
        EXPECT_EQ(first.body, "moved");
        // Not a redirect that is followed.
        EXPECT_EQ(expect(co_await client.get(server.url + "/304/x")).status, Status::not_modified);
    });
}

AsyncGenerator<std::string> text(std::string text) {
    co_yield std::move(text);
}

TEST(HttpClientRedirect, RepeatsABodyThatCanBeRepeated) {
    with_redirects([](const ScriptedServer& server) -> Task<> {
        Client client;
        const auto make = [] { return text("again"); };
        EXPECT_EQ(
            expect(co_await client.post(server.url + "/307/308/x", RequestBody::repeatable(make)))
                .body,
            "POST /x [again] (none)");
        const auto once =
            co_await client.post(server.url + "/307/x", RequestBody::generated(text("once")));
        EXPECT_EQ(once.error(), ClientError::body_not_repeatable);
        EXPECT_EQ(expect(co_await client.post(server.url + "/303/x",
                                              RequestBody::generated(text("once"))))
                      .body,
                  "GET /x [] (none)");
    });
}

TEST(HttpClientRedirect, KeepsCredentialsFromOtherHosts) {
    const Watchdog watchdog;
    const auto tell = [](ServedConnection& connection, ReceivedRequest request) -> Task<> {
        if (request.target.starts_with("/to/")) {
            (void)co_await connection.respond(302, {},
                                              "Location: " + request.target.substr(4) + "\r\n");
        } else {
            (void)co_await connection.respond(200, request.field("authorization") + "|" +
                                                       request.field("cookie") + "|" +
                                                       request.field("x-own"));
        }
    };
    run(with_server(answering(tell), [&](const ScriptedServer& server) -> Task<> {
        co_await with_server(answering(tell), [&](const ScriptedServer& other) -> Task<> {
            Client client;
            const auto ask = [&](std::string target) -> Task<std::string> {
                co_return expect(
                    co_await client.fetch({.url = server.url + "/to/" + target,
                                           .headers = {{"Cookie", "c"}, {"X-Own", "o"}},
                                           .credentials = BearerToken{"t"}}))
                    .body;
            };
            EXPECT_EQ(co_await ask("/here"), "Bearer t|c|o");
            EXPECT_EQ(co_await ask(server.url + "/here"), "Bearer t|c|o");
            EXPECT_EQ(co_await ask(other.url + "/there"), "(none)|(none)|o");
            EXPECT_EQ(co_await ask(other.url + "/to/" + server.url + "/back"), "(none)|(none)|o");
            const auto field = co_await client.get(server.url + "/to/" + other.url + "/there",
                                                   {{"Authorization", "Basic x"}});
            EXPECT_EQ(expect(field).body, "(none)|(none)|(none)");
        });
    }));
}

TEST(HttpClientRedirect, RefusesOtherSchemes) {
    const Watchdog watchdog;
    run(with_server(answering([](ServedConnection& connection, ReceivedRequest request) -> Task<> {
                        (void)co_await connection.respond(
                            302, {}, "Location: " + request.target.substr(1) + "\r\n");
                    }),
                    [](const ScriptedServer& server) -> Task<> {
                        Client client;
                        EXPECT_EQ((co_await client.get(server.url + "/file:///etc/passwd")).error(),
                                  ClientError::unsupported_scheme);
                        EXPECT_EQ((co_await client.get(server.url + "/http://")).error(),
                                  ClientError::invalid_url);
                    }));
}

} // namespace
