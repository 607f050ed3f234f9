// Messages that are sent without a task, and those that a task finishes because the socket does not
// take them.

#include <penstock/ws/web_socket.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/raw_connection.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::open_raw_connection;
using penstock::testing::plain_frame;
using penstock::testing::RawConnection;
using penstock::testing::read_text;
using penstock::testing::receive_text;
using penstock::testing::TcpPair;
using penstock::testing::timers;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::ws::Error;
using penstock::ws::Message;
using penstock::ws::WebSocket;

static_assert(penstock::Operation<WebSocket::Send>);
static_assert(std::same_as<penstock::Awaited<WebSocket::Send>, Result<>>);

/// More than the kernel's buffers of a connection.
constexpr std::size_t large_size = 20'000'000;

TEST(WebSocketDirect, AReceivedMessageStaysAfterItWasSentBack) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        for (const std::size_t size : {0, 1, 125, 126, 5000, 65535}) {
            const std::string text(size, 'e');
            expect(co_await raw.client.write_all(frame(Opcode::binary, text) +
                                                 frame(Opcode::text, "behind")));
            const Message message = expect(co_await raw.server.receive());
            for (int i = 0; i < 2; ++i) {
                expect(co_await raw.server.send(message));
                EXPECT_TRUE(message.text() == text) << size;
                const std::string expected = plain_frame(Opcode::binary, text);
                EXPECT_TRUE(expect(co_await read_text(raw.client, expected.size())) == expected);
            }
            EXPECT_EQ(expect(co_await receive_text(raw.server)), "behind");
        }
    };
    run(program());
}

TEST(WebSocketDirect, AMessageThatTheSocketDoesNotTakeIsFinishedInATask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool by_server : {true, false}) {
            TcpPair pair = co_await connect_pair();
            auto [client, server] = expect(co_await penstock::all(
                WebSocket::connect(penstock::AnyStream(std::move(pair.near)), "h", "/",
                                   {.limits = {.message = large_size}}),
                WebSocket::accept(penstock::AnyStream(std::move(pair.far)),
                                  {.limits = {.message = large_size}})));
            WebSocket& from = by_server ? server : client;
            WebSocket& to = by_server ? client : server;
            const std::string large(large_size, 'l');
            const auto receiving = [&]() -> Task<Result<>> {
                co_await turns(4);
                co_await unwrap(to.ping("p"));
                // The sender's receiver leaves the pong to the sender, behind the message.
                EXPECT_TRUE(co_await unwrap(receive_text(to)) == large);
                EXPECT_EQ(co_await unwrap(receive_text(to)), "second");
                EXPECT_EQ(co_await unwrap(receive_text(to)), "third");
                co_return co_await to.send_text("all");
            };
            const auto waiting = [&]() -> Task<Result<>> {
                EXPECT_EQ(co_await unwrap(receive_text(from)), "all");
                co_return Result<>();
            };
            expect(co_await penstock::all(from.send_text(large), from.send_text("second"),
                                          from.send_text("third"), receiving(), waiting()));
        }
    };
    run(program());
}

TEST(WebSocketDirect, APongWaitsForTheEndOfAMessageThatIsBeingSent) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        const std::string large(large_size, 'l');
        const std::string expected =
            plain_frame(Opcode::binary, large) + plain_frame(Opcode::pong, "p");
        const auto receiving = [&]() -> Task<Result<>> {
            co_await unwrap(
                raw.client.write_all(frame(Opcode::ping, "p") + frame(Opcode::text, "m")));
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "m");
            EXPECT_TRUE(co_await unwrap(read_text(raw.client, expected.size())) == expected);
            co_return Result<>();
        };
        expect(co_await penstock::all(raw.server.send_binary(large), receiving()));
    };
    run(program());
}

TEST(WebSocketDirect, ASendThatWasCutBreaksOnlySending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        const std::string large(large_size, 'l');
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.send_binary(large))).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), Error::broken);
        expect(co_await raw.client.write_all(frame(Opcode::text, "still readable")));
        EXPECT_EQ(expect(co_await receive_text(raw.server)), "still readable");
    };
    run(program());
}

TEST(WebSocketDirect, AFailedSendBreaksSending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        raw.server.next_layer().close();
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), Error::broken);
        EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

} // namespace
