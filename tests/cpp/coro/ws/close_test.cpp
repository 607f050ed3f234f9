// A close beside a receiver: what it leaves to the receiver, and what it drops.

#include <penstock/ws/web_socket.hpp>

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/event_loop.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/raw_connection.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::EventLoop;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::net::TcpStream;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::open_raw_connection;
using penstock::testing::RawConnection;
using penstock::testing::read_text;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::ws::Error;
using penstock::ws::MessagePart;
using penstock::ws::WebSocket;

Task<Result<>> answer_close(TcpStream& client) {
    EXPECT_EQ(co_await unwrap(read_text(client, 4)), "\x88\x02\x03\xe8");
    co_return co_await client.write_all(frame(Opcode::close, std::string_view("\x03\xe8", 2)));
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
            RawConnection raw = co_await open_raw_connection();
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
            expect(co_await penstock::all(receiving(), closing(), answer_close(raw.client)));
            EXPECT_EQ(received, (std::vector<std::string>{"one", "two"})) << by_parts;
        };
        run(program());
    }
}

TEST(WebSocketClose, AMessageOfWhichItDroppedAPartIsNotContinued) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
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
