// A connection whose requests have all arrived delays others by one of them.

#include <penstock/http/server.hpp>
#include <penstock/task/unwrap.hpp>

#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "coro/support/steps_before_an_event.hpp"

namespace {

using namespace penstock;
using http::Request;
using http::Response;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::StepsBeforeAnEvent;
using penstock::testing::TcpPair;

/// Enough for all events, and small enough to arrive at once.
constexpr int requests = 150;

/// Serves a connection on which `text` arrives.
Task<> serve(http::Server& server, std::string text) {
    TcpPair pair = co_await connect_pair();
    expect(co_await pair.near.write_all(text));
    expect(pair.near.shutdown());
    co_await all(server.serve_connection(std::move(pair.far)), read_all_text(pair.near));
}

std::string repeated(const std::string& text) {
    std::string all;
    for (int i = 0; i < requests; ++i) {
        all += text;
    }
    return all;
}

TEST(HttpFairness, PipelinedRequests) {
    const auto load = [](StepsBeforeAnEvent& steps) -> Task<> {
        http::Server server;
        server.get("/", [&](Request&, Response&) { steps.step(); });
        co_await serve(server, repeated("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    };
    penstock::testing::expect_steps_before_an_event("pipelined requests", load, 1);
}

TEST(HttpFairness, PartsOfABody) {
    const auto load = [](StepsBeforeAnEvent& steps) -> Task<> {
        http::Server server;
        server.post("/", [&](Request& request, Response&) -> Task<Result<>> {
            while (!(co_await unwrap(request.receive())).empty()) {
                steps.step();
            }
            co_return Result<>();
        });
        co_await serve(server, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
                                   repeated("1\r\nx\r\n") + "0\r\n\r\n");
    };
    penstock::testing::expect_steps_before_an_event("parts of a body", load, 1);
}

} // namespace
