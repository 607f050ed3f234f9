// Conditional requests for the bodies of handlers: by the state of a resource, and by a digest.

#include <penstock/http/filter/chain.hpp>
#include <penstock/http/filter/conditional.hpp>
#include <penstock/http/server.hpp>
#include <penstock/task/sleep.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using http::chain;
using http::Conditional;
using http::Request;
using http::ResourceState;
using http::Response;
using penstock::testing::exchange;
using penstock::testing::status_line;
using penstock::testing::with_server;
using State = std::optional<ResourceState>;

/// A server with the resources "/here", whose state is known, and "/absent".
class ConditionalRequests : public ::testing::Test {
protected:
    template <typename Find> std::string answer(Find find, const std::string& request) {
        http::Server server({.on_failure = [](const http::ServerFailure&) {}});
        const auto handler = [this](Request& /*request*/, Response& response) {
            ++calls_;
            response.body("content");
        };
        const auto filtered = chain(Conditional(find), handler);
        for (const http::Method method :
             {http::Method::get, http::Method::put, http::Method::delete_}) {
            server.route(method, "/{name}", filtered);
        }
        std::string found;
        with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
            found = co_await exchange(endpoint, request);
        });
        return found;
    }

    static State known(const Request& request) {
        if (request.parameter("name") != "here") {
            return std::nullopt;
        }
        return ResourceState{.entity_tag = "\"7\"",
                             .modified = std::chrono::sys_seconds(1'000'000'000s)};
    }

    static std::string ask(const std::string& line, const std::string& fields = "") {
        return line + " HTTP/1.1\r\nHost: a\r\n" + fields + "\r\n";
    }

    int calls_ = 0;
};

constexpr const char* ok = "HTTP/1.1 200 OK";
constexpr const char* unchanged = "HTTP/1.1 304 Not Modified";
constexpr const char* failed = "HTTP/1.1 412 Precondition Failed";

TEST_F(ConditionalRequests, AReaderGetsTheStateWithTheContent) {
    const std::string found = answer(&known, ask("GET /here"));
    EXPECT_EQ(status_line(found), ok);
    EXPECT_TRUE(found.contains("ETag: \"7\"\r\n"));
    EXPECT_TRUE(found.contains("Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\r\n"));
    EXPECT_TRUE(found.ends_with("content"));
}

TEST_F(ConditionalRequests, AReaderWhoHasTheStateGetsNothing) {
    for (const char* condition :
         {"If-None-Match: \"7\"\r\n", "If-None-Match: \"6\", W/\"7\"\r\n", "If-None-Match: *\r\n",
          "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n"}) {
        const std::string found = answer(&known, ask("GET /here", condition));
        EXPECT_EQ(status_line(found), unchanged) << condition;
        EXPECT_TRUE(found.contains("ETag: \"7\"\r\n"));
        EXPECT_FALSE(found.contains("content"));
    }
    EXPECT_EQ(calls_, 0);
    EXPECT_EQ(status_line(answer(&known, ask("GET /here", "If-None-Match: \"6\"\r\n"))), ok);
    EXPECT_EQ(calls_, 1);
}

TEST_F(ConditionalRequests, AChangeUnderAFalseConditionIsRefusedBeforeItTakesEffect) {
    for (const char* line : {"PUT /here", "DELETE /here"}) {
        for (const char* condition :
             {"If-None-Match: *\r\n", "If-None-Match: \"7\"\r\n", "If-Match: \"6\"\r\n",
              "If-Unmodified-Since: Sun, 09 Sep 2001 01:46:39 GMT\r\n"}) {
            EXPECT_EQ(status_line(answer(&known, ask(line, condition))), failed)
                << line << " " << condition;
        }
    }
    EXPECT_EQ(status_line(answer(&known, ask("PUT /absent", "If-Match: *\r\n"))), failed);
    EXPECT_EQ(calls_, 0);
}

TEST_F(ConditionalRequests, AChangeUnderATrueConditionGoesOn) {
    EXPECT_EQ(status_line(answer(&known, ask("PUT /here", "If-Match: \"7\"\r\n"))), ok);
    EXPECT_EQ(status_line(answer(&known, ask("DELETE /here", "If-Match: *\r\n"))), ok);
    EXPECT_EQ(status_line(answer(&known, ask("PUT /absent", "If-None-Match: *\r\n"))), ok);
    const std::string found = answer(&known, ask("PUT /here"));
    EXPECT_EQ(status_line(found), ok);
    EXPECT_FALSE(found.contains("ETag")); // it would be that of the state before
    EXPECT_EQ(calls_, 4);
}

TEST_F(ConditionalRequests, TheStateMayBeWaitedFor) {
    const auto asked = [](const Request& request) -> Task<Result<State>> {
        const State state = known(request); // parameters are views of the request
        (void)co_await sleep_for(1ms);
        co_return state;
    };
    EXPECT_EQ(status_line(answer(asked, ask("GET /here", "If-None-Match: \"7\"\r\n"))), unchanged);
    EXPECT_EQ(status_line(answer(asked, ask("GET /here"))), ok);
    const auto broken = [](const Request& /*request*/) -> Task<Result<State>> {
        co_return failure(std::errc::io_error);
    };
    EXPECT_EQ(status_line(answer(broken, ask("GET /here"))), "HTTP/1.1 500 Internal Server Error");
    EXPECT_EQ(calls_, 1);
}

/// The answers of a route with a digest as its tag.
std::string tagged(const std::string& requests, http::Status status = http::Status::ok) {
    http::Server server;
    const auto handler = [status](Request& request, Response& response) {
        response.status(status);
        response.body("content of " + request.query_parameter("q").value_or("nothing"));
    };
    server.get("/", chain(http::EntityTags(), handler));
    std::string found;
    with_server(server, [&](net::Endpoint endpoint) -> Task<void> {
        found = co_await exchange(endpoint, requests);
    });
    return found;
}

std::string tag_in(const std::string& answer) {
    const std::size_t at = answer.find("ETag: ");
    return at == std::string::npos ? "" : answer.substr(at + 6, answer.find("\r\n", at) - at - 6);
}

TEST(EntityTags, EqualBodiesHaveEqualTagsAndAreSentOnce) {
    const std::string get = "GET /?q=a HTTP/1.1\r\nHost: a\r\n";
    const std::string first = tagged(get + "\r\n");
    const std::string tag = tag_in(first);
    EXPECT_TRUE(first.ends_with("content of a"));
    EXPECT_EQ(tag.size(), 34);
    EXPECT_EQ(tag_in(tagged("HEAD /?q=a HTTP/1.1\r\nHost: a\r\n\r\n")), tag);
    EXPECT_NE(tag_in(tagged("GET /?q=b HTTP/1.1\r\nHost: a\r\n\r\n")), tag);
    const std::string again = tagged(get + "If-None-Match: " + tag + "\r\n\r\n");
    EXPECT_EQ(status_line(again), unchanged);
    EXPECT_EQ(tag_in(again), tag);
    EXPECT_FALSE(again.contains("content of"));
    EXPECT_EQ(status_line(tagged(get + "If-Match: \"other\"\r\n\r\n")), failed);
}

TEST(EntityTags, OnlyASuccessHasOne) {
    EXPECT_EQ(tag_in(tagged("GET / HTTP/1.1\r\nHost: a\r\n\r\n", http::Status::not_found)), "");
}

} // namespace
