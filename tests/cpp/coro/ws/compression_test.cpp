#include <penstock/ws/deflate.hpp>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/web_socket.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using penstock::MemoryStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::expect;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::BasicWebSocket;
using penstock::ws::ConnectOptions;
using penstock::ws::DeflateParameters;
using penstock::ws::Message;
using penstock::ws::MessagePart;
using Socket = BasicWebSocket<MemoryStream>;

struct Ends {
    Socket client;
    Socket server;
};

Task<Ends> open(ConnectOptions offer, AcceptOptions answer) {
    auto [near, far] = MemoryStream::pair(std::size_t{1} << 20);
    auto opened =
        co_await penstock::all(Socket::connect(std::move(near), "localhost", "/", std::move(offer)),
                               Socket::accept(std::move(far), std::move(answer)));
    auto [client, server] = expect(std::move(opened));
    co_return Ends{std::move(client), std::move(server)};
}

std::string json(std::size_t size) {
    std::string text;
    for (unsigned i = 0; text.size() < size; ++i) {
        text += "{\"number\": " + std::to_string(i * 2654435761U) + ", \"unit\": \"kPa\"}, ";
    }
    text.resize(size);
    return text;
}

Task<void> expect_exchange(Socket& from, Socket& to, const std::string& text) {
    const auto receiving = [&]() -> Task<Result<>> {
        EXPECT_TRUE((co_await unwrap(to.receive())).text() == text) << text.size();
        co_return Result<>();
    };
    expect(co_await penstock::all(from.send_text(text), receiving()));
}

TEST(WebSocketCompression, WorksWithAllWindowsAndTakeovers) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const int bits : {8, 9, 12, 15}) {
            for (const bool no_takeover : {false, true}) {
                const DeflateParameters parameters{.server_no_context_takeover = no_takeover,
                                                   .client_no_context_takeover = no_takeover,
                                                   .server_max_window_bits = bits,
                                                   .client_max_window_bits = bits};
                Ends ends = co_await open(
                    {.compression = penstock::ws::deflate({.parameters = parameters})},
                    {.compression = penstock::ws::deflate()});
                EXPECT_EQ(ends.client.compression(), parameters);
                EXPECT_EQ(ends.server.compression(), parameters);
                for (const std::size_t size : {0, 1, 127, 128, 1000, 70'000, 1'000'000}) {
                    co_await expect_exchange(ends.client, ends.server, json(size));
                    co_await expect_exchange(ends.server, ends.client, json(size));
                }
            }
        }
    };
    run(program());
}

TEST(WebSocketCompression, NeedsBothEnds) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool client : {false, true}) {
            ConnectOptions offer;
            AcceptOptions answer;
            (client ? offer.compression : answer.compression) = penstock::ws::deflate();
            Ends ends = co_await open(std::move(offer), std::move(answer));
            EXPECT_EQ(ends.client.compression(), std::nullopt);
            EXPECT_EQ(ends.server.compression(), std::nullopt);
            co_await expect_exchange(ends.client, ends.server, json(1000));
        }
    };
    run(program());
}

TEST(WebSocketCompression, SendsSmallMessagesAsTheyAreAndLargeOnesSmaller) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [near, far] = MemoryStream::pair(std::size_t{1} << 20);
        std::string asked = penstock::testing::request;
        asked.insert(asked.size() - 2, "Sec-WebSocket-Extensions: permessage-deflate\r\n");
        expect(co_await near.write_all(asked));
        Socket server = expect(co_await Socket::accept(
            std::move(far), {.compression = penstock::ws::deflate({.threshold = 10})}));
        expect(co_await server.send_text("small"));
        expect(co_await server.send_text(std::string(10'000, 'x')));
        server.next_layer().close();
        const std::string sent = expect(co_await penstock::read_all_text(near));
        const std::size_t head = sent.find("\r\n\r\n") + 4;
        EXPECT_NE(sent.find("\r\nSec-WebSocket-Extensions: permessage-deflate\r\n"),
                  std::string::npos);
        EXPECT_EQ(sent.substr(head, 7), "\x81\x05small");
        EXPECT_EQ(sent.substr(head + 7, 1), "\xc1");
        EXPECT_LT(sent.size() - head, 100U);
    };
    run(program());
}

TEST(WebSocketCompression, ASmallMessageMayNotGrowBeyondTheLimit) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends =
            co_await open({.compression = penstock::ws::deflate()},
                          {.compression = penstock::ws::deflate(), .limits = {.message = 100'000}});
        expect(co_await ends.client.send_text(std::string(1'000'000, 'x')));
        EXPECT_EQ((co_await ends.server.receive()).error(), penstock::ws::Error::message_too_big);
        EXPECT_EQ((co_await ends.client.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(ends.client.close_code(), penstock::ws::close_code::message_too_big);
    };
    run(program());
}

TEST(WebSocketCompression, StreamsInBothDirectionsInBoundedParts) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends ends = co_await open({.compression = penstock::ws::deflate()},
                                  {.compression = penstock::ws::deflate()});
        const std::string block = json(100'000) + std::string(5'000'000, 'x');
        const auto sending = [&]() -> Task<Result<>> {
            auto writer = co_await unwrap(ends.client.begin_text());
            co_await unwrap(writer.write(block));
            co_await unwrap(writer.write("between"));
            co_await unwrap(writer.finish(block));
            co_return co_await ends.client.send_text("next");
        };
        const auto receiving = [&]() -> Task<Result<>> {
            std::string received;
            std::size_t largest = 0;
            for (bool last = false; !last;) {
                const MessagePart part = co_await unwrap(ends.server.receive_part());
                EXPECT_EQ(part.first, received.empty());
                received.append(reinterpret_cast<const char*>(part.payload.data()),
                                part.payload.size());
                largest = std::max(largest, part.payload.size());
                last = part.last;
            }
            EXPECT_TRUE(received == block + "between" + block);
            EXPECT_LT(largest, std::size_t{2} << 20);
            EXPECT_EQ((co_await unwrap(ends.server.receive())).text(), "next");
            co_return Result<>();
        };
        expect(co_await penstock::all(sending(), receiving()));
    };
    run(program());
}

TEST(WebSocketCompression, SharedStatesNeedNoContext) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const auto shared = penstock::ws::deflate({.threshold = 10, .shared = true});
        Ends one = co_await open({.compression = penstock::ws::deflate()}, {.compression = shared});
        Ends other = co_await open({.compression = shared}, {.compression = shared});
        for (Ends* ends : {&one, &other}) {
            EXPECT_TRUE(ends->client.compression()->server_no_context_takeover);
            EXPECT_TRUE(ends->client.compression()->client_no_context_takeover);
        }
        // Both in the middle of a message at once.
        auto near = expect(co_await one.server.begin_text());
        auto far = expect(co_await other.client.begin_text());
        for (int i = 0; i < 3; ++i) {
            expect(co_await near.write(json(1000)));
            expect(co_await far.write(json(2000)));
        }
        expect(co_await near.finish());
        expect(co_await far.finish());
        EXPECT_TRUE(expect(co_await one.client.receive()).text() ==
                    json(1000) + json(1000) + json(1000));
        EXPECT_TRUE(expect(co_await other.server.receive()).text() ==
                    json(2000) + json(2000) + json(2000));
        for (const std::size_t size : {0, 1, 1000, 70'000, 1000}) {
            co_await expect_exchange(one.client, one.server, json(size));
            co_await expect_exchange(one.server, one.client, json(size));
            co_await expect_exchange(other.client, other.server, json(size));
            co_await expect_exchange(other.server, other.client, json(size));
        }
        // A shared message, too.
        const auto message = penstock::ws::SharedMessage::text(json(3000));
        expect(co_await one.server.send(message));
        expect(co_await other.server.send(message));
        EXPECT_TRUE(expect(co_await one.client.receive()).text() == json(3000));
        EXPECT_TRUE(expect(co_await other.client.receive()).text() == json(3000));
    };
    run(program());
}

} // namespace
