// Messages in parts, in both directions.

#include <penstock/ws/web_socket.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::net::TcpStream;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::TcpPair;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::BasicWebSocket;
using penstock::ws::Limits;
using penstock::ws::MessagePart;
using Socket = BasicWebSocket<TcpStream>;

struct Ends {
    Socket client;
    Socket server;
};

Task<Ends> open(Limits limits = {}) {
    TcpPair pair = co_await connect_pair();
    auto opened = co_await penstock::all(
        Socket::connect(std::move(pair.near), "localhost", "/", {.limits = limits}),
        Socket::accept(std::move(pair.far), {.limits = limits}));
    auto [client, server] = expect(std::move(opened));
    co_return Ends{std::move(client), std::move(server)};
}

Task<Result<std::string>> receive_in_parts(Socket& socket) {
    std::string received;
    for (bool begun = false;; begun = true) {
        const MessagePart part = co_await unwrap(socket.receive_part());
        EXPECT_EQ(part.first, !begun);
        received.append(reinterpret_cast<const char*>(part.payload.data()), part.payload.size());
        if (part.last) {
            co_return received;
        }
    }
}

TEST(WebSocketStreaming, AMessageBeyondTheLimitArrivesInParts) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open({.message = 1000});
        std::string large;
        large.resize(10'000'000, 'y');
        for (const bool by_client : {false, true}) {
            Socket& from = by_client ? ends.client : ends.server;
            Socket& to = by_client ? ends.server : ends.client;
            const auto receiving = [&]() -> Task<Result<>> {
                EXPECT_TRUE(co_await unwrap(receive_in_parts(to)) == large);
                EXPECT_EQ((co_await unwrap(to.receive())).text(), "small");
                co_return Result<>();
            };
            const auto sending = [&]() -> Task<Result<>> {
                co_await unwrap(from.send_text(large));
                co_return co_await from.send_text("small");
            };
            expect(co_await penstock::all(sending(), receiving()));
        }
    };
    run(program());
}

TEST(WebSocketStreaming, AStreamedMessageHasALimitOfItsOwn) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open({.streamed_message = 5});
        expect(co_await ends.client.send_text("123456"));
        EXPECT_EQ((co_await ends.server.receive_part()).error(),
                  penstock::ws::Error::message_too_big);
    };
    run(program());
}

TEST(WebSocketStreaming, AWriterSendsAMessageInFragments) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        for (Socket* from : {&ends.client, &ends.server}) {
            Socket& to = from == &ends.client ? ends.server : ends.client;
            auto writer = expect(co_await from->begin_binary());
            expect(co_await writer.write("one "));
            expect(co_await writer.write(""));
            expect(co_await writer.write("two "));
            expect(co_await writer.finish("three"));
            auto empty = expect(co_await from->begin_text());
            expect(co_await empty.finish());
            const auto message = expect(co_await to.receive());
            EXPECT_FALSE(message.is_text());
            EXPECT_EQ(message.text(), "one two three");
            EXPECT_EQ(expect(co_await to.receive()).text(), "");
        }
    };
    run(program());
}

TEST(WebSocketStreaming, OtherMessagesWaitAndControlFramesDoNot) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        std::optional<Socket::Writer> writer = expect(co_await ends.server.begin_text());
        expect(co_await writer->write("begun"));
        expect(co_await ends.server.ping("while it is written"));
        EXPECT_EQ((co_await penstock::timeout(1ms, ends.server.send_text("other"))).error(),
                  std::errc::timed_out);
        const auto waiting = [&]() -> Task<Result<>> {
            co_return co_await ends.server.send_text("other");
        };
        const auto finishing = [&]() -> Task<Result<>> {
            co_await unwrap(writer->finish(" and finished"));
            writer.reset();
            co_return Result<>();
        };
        expect(co_await penstock::all(waiting(), finishing()));
        EXPECT_EQ(expect(co_await ends.client.receive()).text(), "begun and finished");
        EXPECT_EQ(expect(co_await ends.client.receive()).text(), "other");
    };
    run(program());
}

TEST(WebSocketStreaming, AnUnfinishedWriterBreaksSending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        { // nothing was sent
            const auto writer = expect(co_await ends.client.begin_text());
        }
        expect(co_await ends.client.send_text("x"));
        {
            auto writer = expect(co_await ends.client.begin_text());
            expect(co_await writer.write("begun"));
        }
        EXPECT_EQ((co_await ends.client.send_text("x")).error(), penstock::ws::Error::broken);
        EXPECT_EQ((co_await ends.client.begin_text()).error(), penstock::ws::Error::broken);
    };
    run(program());
}

TEST(WebSocketStreaming, OneFunctionReceivesAMessageToItsEnd) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        auto writer = expect(co_await ends.client.begin_text());
        expect(co_await writer.write("in parts "));
        EXPECT_FALSE(expect(co_await ends.server.receive_part()).last);
        EXPECT_EQ((co_await ends.server.receive()).error(), std::errc::operation_in_progress);
        expect(co_await writer.finish());
        EXPECT_TRUE(expect(co_await ends.server.receive_part()).last);

        auto whole = expect(co_await ends.client.begin_text());
        expect(co_await whole.write("whole "));
        EXPECT_EQ((co_await penstock::timeout(5ms, ends.server.receive())).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await ends.server.receive_part()).error(), std::errc::operation_in_progress);
        expect(co_await whole.finish("again"));
        EXPECT_EQ(expect(co_await ends.server.receive()).text(), "whole again");
    };
    run(program());
}

TEST(WebSocketStreaming, NoMessageIsSentInsideOneThatCannotBeFinished) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        auto writer = expect(co_await ends.client.begin_text());
        expect(co_await writer.write("begun "));
        // It starts cancelled, so it sends nothing and passes the turn on.
        const auto outcome =
            co_await penstock::race([]() -> Task<> { co_return; }(), writer.finish("and ended"));
        EXPECT_EQ(outcome.index(), 0U);
        const Result<> inside = co_await ends.client.send_text("inside");
        EXPECT_TRUE(!inside && inside.error() == penstock::ws::Error::broken);
    };
    run(program());
}

TEST(WebSocketStreaming, CloseDropsTheRestOfAMessage) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open();
        auto writer = expect(co_await ends.client.begin_text());
        expect(co_await writer.write("in parts "));
        EXPECT_TRUE(expect(co_await ends.server.receive_part()).first);
        const auto answering = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await ends.client.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ((co_await writer.finish("x")).error(), penstock::ws::Error::closed);
            co_return Result<>();
        };
        expect(co_await penstock::all(ends.server.close(), answering()));
    };
    run(program());
}

} // namespace
