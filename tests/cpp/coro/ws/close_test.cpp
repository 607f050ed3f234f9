// A close beside a receiver: what it leaves to the receiver, and what it drops.

#include <penstock/ws/web_socket.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/event_loop.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::EventLoop;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::net::TcpStream;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::TcpPair;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::ws::Error;
using penstock::ws::MessagePart;
using penstock::ws::WebSocket;

/// A server over TCP whose client is the test itself.
struct Raw {
    TcpStream client;
    WebSocket server;

    Task<Result<>> answer_close() {
        std::array<char, 4> sent{};
        co_await unwrap(client.read_exactly(sent));
        EXPECT_EQ(std::string_view(sent.data(), sent.size()), std::string_view("\x88\x02\x03\xe8"));
        co_return co_await client.write_all(frame(Opcode::close, std::string_view("\x03\xe8", 2)));
    }
};

Task<Raw> open_raw() {
    TcpPair pair = co_await connect_pair();
    expect(co_await pair.near.write_all(penstock::testing::request));
    WebSocket server =
        expect(co_await WebSocket::accept(penstock::AnyStream(std::move(pair.far)), {}));
    std::array<char, 1024> head{};
    EXPECT_GT(expect(co_await pair.near.read(head)), 0U);
    co_return Raw{std::move(pair.near), std::move(server)};
}

std::string text_of(const MessagePart& part) {
    return {reinterpret_cast<const char*>(part.payload.data()), part.payload.size()};
}

Task<Result<std::string>> receive_text(WebSocket& socket, bool by_parts) {
    if (by_parts) {
        co_return text_of(co_await unwrap(socket.receive_part()));
    }
    co_return std::string((co_await unwrap(socket.receive())).text());
}

TEST(WebSocketClose, TakesNothingFromAReceiverThatWaitsForItsTurnToRun) {
    const Watchdog watchdog;
    for (const bool by_parts : {false, true}) {
        const auto program = [&]() -> Task<> {
            Raw raw = co_await open_raw();
            expect(co_await raw.client.write_all(frame(Opcode::text, "one") +
                                                 frame(Opcode::text, "two")));
            std::vector<std::string> received;
            const auto receiving = [&]() -> Task<Result<>> {
                while (EventLoop::current().consume_budget()) {
                }
                for (;;) {
                    const auto text = co_await receive_text(raw.server, by_parts);
                    if (!text) {
                        EXPECT_EQ(text.error(), Error::closed);
                        co_return Result<>();
                    }
                    received.push_back(*text);
                }
            };
            const auto closing = [&]() -> Task<Result<>> {
                EventLoop::current().refill_budget(); // so that this runs before the receiver
                co_return co_await raw.server.close();
            };
            expect(co_await penstock::all(receiving(), closing(), raw.answer_close()));
            EXPECT_EQ(received, (std::vector<std::string>{"one", "two"})) << by_parts;
        };
        run(program());
    }
}

TEST(WebSocketClose, AMessageOfWhichItDroppedAPartIsNotContinued) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        expect(co_await raw.client.write_all(frame(Opcode::text, "first", false)));
        EXPECT_EQ(text_of(expect(co_await raw.server.receive_part())), "first");
        expect(co_await raw.client.write_all(frame(Opcode::continuation, "second", false)));
        const auto cancelling = [&]() -> Task<Result<>> {
            co_await turns(20);
            co_return Result<>();
        };
        EXPECT_EQ((co_await penstock::race(raw.server.close(), cancelling())).index(), 1U);
        expect(co_await raw.client.write_all(frame(Opcode::continuation, "third", false) +
                                             frame(Opcode::continuation, "fourth") +
                                             frame(Opcode::text, "next")));
        const MessagePart part = expect(co_await raw.server.receive_part());
        EXPECT_EQ(text_of(part), "next");
        EXPECT_TRUE(part.first);
        EXPECT_TRUE(part.last);
    };
    run(program());
}

} // namespace
