// The limits of time of a WebSocket server, each for all that it is to limit.

#include <chrono>
#include <cstddef>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/shield.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/server.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using penstock::testing::expect;
using penstock::testing::listen_on_loopback;
using penstock::testing::Watchdog;

/// How often the loop goes round until then.
template <typename Condition> Task<std::size_t> rounds_until(Condition holds) {
    std::size_t rounds = 0;
    for (; !holds(); ++rounds) {
        (void)co_await yield();
    }
    co_return rounds;
}

/// A wait for a timer makes many more.
constexpr std::size_t few_rounds = 100;

TEST(WebSocketServerLimits, OneLimitIsForBothHandshakes) {
    const Watchdog watchdog;
    constexpr auto limit = 50ms;
    bool encrypted = false;
    bool failed = false;
    std::error_code error;
    ws::Server server(listen_on_loopback(),
                      {.accept = {.limits = {.handshake = limit}},
                       .encrypt = [&](net::TcpStream stream) -> Task<Result<AnyStream>> {
                           (void)co_await shield(sleep_for(limit + 1ms));
                           encrypted = true;
                           co_return AnyStream(std::move(stream));
                       },
                       .on_error =
                           [&](std::error_code reason) {
                               error = reason;
                               failed = true;
                           }});
    const auto talk = [&]() -> Task<Result<>> {
        net::TcpStream silent =
            expect(co_await net::TcpStream::connect(expect(server.local_endpoint())));
        (void)co_await rounds_until([&] { return encrypted; });
        EXPECT_LT(co_await rounds_until([&] { return failed; }), few_rounds);
        server.shutdown(1h);
        co_return Result<>();
    };
    expect(run(
        all(server.serve([](ws::WebSocket&) -> Task<Result<>> { co_return Result<>(); }), talk())));
    EXPECT_EQ(error, std::errc::timed_out);
}

TEST(WebSocketServerLimits, ASilentPeerHasOneLimitToAnswerACloseFrame) {
    const Watchdog watchdog;
    struct Case {
        std::string_view what;
        std::function<Task<Result<>>(ws::WebSocket&)> handler;
    };
    bool returned = false;
    const std::vector<Case> cases{
        {"closes", [](ws::WebSocket& socket) { return socket.close(); }},
        {"begins to close and waits", [](ws::WebSocket& socket) -> Task<Result<>> {
             co_await unwrap(socket.begin_close());
             co_return co_await shield(sleep_for(51ms));
         }}};
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        returned = false;
        ws::Server server(listen_on_loopback(), {.accept = {.limits = {.close = 50ms}}});
        const auto handler = [&](ws::WebSocket& socket) -> Task<Result<>> {
            const Result<> ended = co_await each.handler(socket);
            returned = true;
            co_return ended;
        };
        const auto talk = [&]() -> Task<Result<>> {
            net::TcpStream silent =
                expect(co_await net::TcpStream::connect(expect(server.local_endpoint())));
            expect(co_await silent.write_all(penstock::testing::request));
            (void)co_await rounds_until([&] { return returned; });
            EXPECT_LT(co_await rounds_until([&] { return server.connections() == 0; }), few_rounds);
            server.shutdown(1h);
            co_return Result<>();
        };
        expect(run(all(server.serve(handler), talk())));
    }
}

} // namespace
