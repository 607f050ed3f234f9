// What a handler learns about its request beside the message: its name, its time, its connection.

#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/time_limit.hpp>
#include <penstock/http/server.hpp>
#include <penstock/task/sleep.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::chain;
using http::Request;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::with_server;

std::string get(const std::string& fields = "") {
    return "GET / HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
}

/// The names that a server gives to these requests of one connection.
std::vector<std::string> ids(const std::string& requests, http::ServerOptions options = {}) {
    http::Server server(std::move(options));
    std::vector<std::string> found;
    server.get("/", [&](Request& request, Response& /*response*/) {
        found.emplace_back(request.id());
        EXPECT_EQ(found.back(), request.id());
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        (void)co_await exchange(endpoint, requests);
    });
    return found;
}

TEST(RequestContext, EachRequestHasANameOfItsOwn) {
    const std::vector<std::string> found = ids(get() + get() + get("X-Request-Id: mine\r\n"));
    ASSERT_EQ(found.size(), 3);
    for (const std::string& each : found) {
        EXPECT_EQ(each.size(), 32);
        EXPECT_EQ(each.find_first_not_of("0123456789abcdef"), std::string::npos);
        EXPECT_EQ(std::ranges::count(found, each), 1);
    }
}

TEST(RequestContext, ANameIsTakenFromAFieldThatIsTrusted) {
    const std::vector<std::string> found = ids(
        get("X-Trace: a-1.b/2=\r\n") + get() + get("X-Trace: " + std::string(129, 'a') + "\r\n") +
            get("X-Trace: a b\r\n") + get("X-Trace: a\"\r\n"),
        {.request_id_field = "X-Trace"});
    ASSERT_EQ(found.size(), 5);
    EXPECT_EQ(found[0], "a-1.b/2=");
    for (std::size_t i = 1; i < found.size(); ++i) {
        EXPECT_EQ(found[i].size(), 32) << i;
    }
}

TEST(RequestContext, TheDeadlineIsThatOfTheStrictestFilter) {
    http::Server server;
    std::vector<std::optional<std::chrono::steady_clock::time_point>> deadlines;
    const auto note = [&](Request& request, Response& /*response*/) {
        deadlines.push_back(request.deadline());
    };
    server.get("/none", note);
    server.get("/", chain(http::TimeLimit(1h), http::TimeLimit(10min), http::TimeLimit(2h), note));
    const auto before = std::chrono::steady_clock::now();
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        (void)co_await exchange(endpoint, get() + "GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    });
    ASSERT_EQ(deadlines.size(), 2);
    ASSERT_TRUE(deadlines[0]);
    EXPECT_GE(*deadlines[0], before + 10min);
    EXPECT_LT(*deadlines[0], before + 1h);
    EXPECT_FALSE(deadlines[1]); // the same connection, another request
}

TEST(RequestContext, AConnectionThatIsNotEncryptedSaysSo) {
    http::Server server;
    bool asked = false;
    server.get("/", [&](Request& request, Response& /*response*/) {
        asked = true;
        EXPECT_FALSE(request.encryption());
        EXPECT_FALSE(request.client_certificate());
    });
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        (void)co_await exchange(endpoint, get());
    });
    EXPECT_TRUE(asked);
}

} // namespace
