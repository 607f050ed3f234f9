#include <penstock/ws/web_socket.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::failure;
using penstock::MemoryStream;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::codec::websocket::Opcode;
using penstock::net::TcpStream;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::plain_frame;
using penstock::testing::request;
using penstock::testing::TcpPair;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::BasicWebSocket;
using penstock::ws::ConnectOptions;
using penstock::ws::Message;
using penstock::ws::WebSocket;
namespace close_code = penstock::ws::close_code;

template <typename S> struct Ends {
    BasicWebSocket<S> client;
    BasicWebSocket<S> server;
};

template <typename S>
Task<Ends<S>> open(S near, S far, ConnectOptions offer = {}, AcceptOptions answer = {}) {
    auto opened = co_await penstock::all(
        BasicWebSocket<S>::connect(std::move(near), "localhost", "/room?n=1", std::move(offer)),
        BasicWebSocket<S>::accept(std::move(far), std::move(answer)));
    auto [client, server] = expect(std::move(opened));
    co_return Ends<S>{std::move(client), std::move(server)};
}

Task<Ends<MemoryStream>> open_in_memory(std::size_t capacity = MemoryStream::default_capacity,
                                        AcceptOptions answer = {}) {
    auto [near, far] = MemoryStream::pair(capacity);
    co_return co_await open<MemoryStream>(std::move(near), std::move(far), {}, std::move(answer));
}

Task<Ends<TcpStream>> open_over_tcp(AcceptOptions answer = {}) {
    TcpPair pair = co_await connect_pair();
    co_return co_await open<TcpStream>(std::move(pair.near), std::move(pair.far), {},
                                       std::move(answer));
}

std::string pattern(std::size_t size) {
    std::string text(size, ' ');
    for (std::size_t i = 0; i < size; ++i) {
        text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
    }
    return text;
}

template <typename S> Task<Result<>> echo(BasicWebSocket<S>& socket) {
    for (;;) {
        const Result<Message> message = co_await socket.receive();
        if (!message) {
            co_return message.error() == penstock::ws::Error::closed ? Result<>()
                                                                     : failure(message.error());
        }
        if (const Result<> sent = co_await socket.send(*message); !sent) {
            co_return sent;
        }
    }
}

template <typename S> Task<Result<>> expect_echoes(BasicWebSocket<S>& socket) {
    for (const std::size_t size :
         {0, 1, 125, 126, 127, 4096, 65535, 65536, 262130, 262144, 300'000, 1 << 20}) {
        const std::string text = pattern(size);
        for (const bool binary : {false, true}) {
            const auto sending = [&]() -> Task<Result<>> {
                co_return co_await (binary ? socket.send_binary(text) : socket.send_text(text));
            };
            const auto receiving = [&]() -> Task<Result<>> {
                const Message answer = expect(co_await socket.receive());
                EXPECT_EQ(answer.is_text(), !binary);
                EXPECT_TRUE(answer.text() == text) << size;
                co_return Result<>();
            };
            expect(co_await penstock::all(sending(), receiving()));
        }
    }
    co_return co_await socket.close();
}

TEST(WebSocket, EchoesMessagesOfAllSizes) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends<TcpStream> tcp = co_await open_over_tcp();
        expect(co_await penstock::all(expect_echoes(tcp.client), echo(tcp.server)));
        for (const std::size_t capacity : {500, 100'000}) {
            Ends<MemoryStream> memory = co_await open_in_memory(capacity);
            expect(co_await penstock::all(expect_echoes(memory.client), echo(memory.server)));
            EXPECT_EQ(memory.client.close_code(), close_code::normal);
        }
    };
    run(program());
}

TEST(WebSocket, WorksOverAStreamThatSomebodyElseOwns) {
    const auto program = []() -> Task<> {
        auto [near, far] = MemoryStream::pair();
        auto opened = co_await penstock::all(BasicWebSocket<MemoryStream&>::connect(near, "h", "/"),
                                             BasicWebSocket<MemoryStream&>::accept(far));
        auto [client, server] = expect(std::move(opened));
        expect(co_await client.send_text("hello"));
        EXPECT_EQ(expect(co_await server.receive()).text(), "hello");
    };
    run(program());
}

std::string close_payload(std::uint16_t code, std::string_view reason = {}) {
    const penstock::codec::websocket::ClosePayload payload(code, reason);
    return {reinterpret_cast<const char*>(payload.bytes().data()), payload.bytes().size()};
}

/// A server whose client is the test itself.
struct RawClient {
    MemoryStream stream;
    BasicWebSocket<MemoryStream> server;
};

Task<RawClient> open_raw(std::string after = {}, AcceptOptions options = {}) {
    auto [near, far] = MemoryStream::pair();
    expect(co_await near.write_all(request + after)); // frames may follow at once
    auto server =
        expect(co_await BasicWebSocket<MemoryStream>::accept(std::move(far), std::move(options)));
    std::array<char, 1024> head{};
    const std::size_t size = expect(co_await near.read(head));
    EXPECT_TRUE(std::string_view(head.data(), size).ends_with("\r\n\r\n"));
    co_return RawClient{std::move(near), std::move(server)};
}

TEST(WebSocket, JoinsFragmentsWithControlFramesBetween) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawClient raw = co_await open_raw(
            frame(Opcode::text, "one ", false) + frame(Opcode::ping, "are you there") +
            frame(Opcode::continuation, "two ", false) + frame(Opcode::pong, "unasked") +
            frame(Opcode::continuation, "three") + frame(Opcode::binary, "next"));
        EXPECT_EQ(expect(co_await raw.server.receive()).text(), "one two three");
        EXPECT_EQ(expect(co_await raw.server.receive()).text(), "next");
        raw.server.next_layer().close();
        EXPECT_EQ(expect(co_await penstock::read_all_text(raw.stream)),
                  plain_frame(Opcode::pong, "are you there"));
    };
    run(program());
}

TEST(WebSocket, EitherSideClosesWithCodeAndReason) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool by_client : {true, false}) {
            Ends<TcpStream> ends = co_await open_over_tcp();
            auto& first = by_client ? ends.client : ends.server;
            auto& second = by_client ? ends.server : ends.client;
            EXPECT_EQ(first.close_code(), 0);
            expect(co_await second.send_text("dropped"));
            const auto answer = [&]() -> Task<Result<>> {
                EXPECT_EQ((co_await second.receive()).error(), penstock::ws::Error::closed);
                EXPECT_EQ((co_await second.receive()).error(), penstock::ws::Error::closed);
                co_return Result<>();
            };
            expect(co_await penstock::all(first.close(4000, "enough"), answer()));
            EXPECT_EQ(second.close_code(), 4000);
            EXPECT_EQ(second.close_reason(), "enough");
            EXPECT_EQ(first.close_code(), 4000);
            EXPECT_EQ((co_await first.send_text("x")).error(), penstock::ws::Error::closed);
            EXPECT_EQ((co_await second.send_text("x")).error(), penstock::ws::Error::closed);
            EXPECT_EQ((co_await first.receive()).error(), penstock::ws::Error::closed);
            EXPECT_TRUE(co_await second.close());
        }
    };
    run(program());
}

TEST(WebSocket, ClosesWithoutACode) {
    const auto program = []() -> Task<> {
        Ends<MemoryStream> ends = co_await open_in_memory();
        expect(co_await penstock::all(ends.client.close(close_code::none), echo(ends.server)));
        EXPECT_EQ(ends.server.close_code(), close_code::none);
        EXPECT_EQ((co_await ends.client.close(1005 + 1)).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await ends.client.close(999)).error(), std::errc::invalid_argument);
    };
    run(program());
}

TEST(WebSocket, AnotherTaskMayReceiveWhileOneCloses) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends<MemoryStream> ends = co_await open_in_memory();
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await ends.client.receive()).error(), penstock::ws::Error::closed);
            co_return Result<>();
        };
        const auto closing = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await ends.client.receive()).error(), std::errc::device_or_resource_busy);
            co_return co_await ends.client.close();
        };
        expect(co_await penstock::all(receiving(), closing(), echo(ends.server)));
    };
    run(program());
}

TEST(WebSocket, APeerThatDoesNotAnswerTheCloseFrameIsGivenUp) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawClient silent = co_await open_raw({}, {.limits = {.close = 1ms}});
        EXPECT_EQ((co_await silent.server.close()).error(), std::errc::timed_out);
        RawClient gone = co_await open_raw();
        expect(gone.stream.shutdown());
        EXPECT_EQ((co_await gone.server.close()).error(), penstock::ws::Error::truncated);
        EXPECT_EQ(gone.server.close_code(), close_code::abnormal);
    };
    run(program());
}

/// What a server returns and sends for frames that violate the protocol.
Task<void> expect_failure(std::string frames, penstock::ws::Error error, std::uint16_t code,
                          AcceptOptions options = {}) {
    RawClient raw = co_await open_raw(std::move(frames), std::move(options));
    EXPECT_EQ((co_await raw.server.receive()).error(), error);
    EXPECT_EQ((co_await raw.server.receive()).error(), error);
    EXPECT_EQ((co_await raw.server.send_text("x")).error(), penstock::ws::Error::closed);
    const std::string sent = expect(co_await penstock::read_all_text(raw.stream));
    EXPECT_TRUE(sent.size() >= 4 && sent.substr(2, 2) == close_payload(code)) << sent;
    expect(raw.stream.shutdown());
    EXPECT_TRUE(co_await raw.server.close());
}

TEST(WebSocket, ViolationsEndTheConnectionWithTheirCode) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        using penstock::ws::Error;
        co_await expect_failure(frame(Opcode::text, "\xff\xfe"), Error::invalid_payload, 1007);
        co_await expect_failure(frame(Opcode::text, "\xe2\x82", false) +
                                    frame(Opcode::continuation, "x"),
                                Error::invalid_payload, 1007);
        co_await expect_failure(plain_frame(Opcode::text, "unmasked"), Error::protocol_violation,
                                1002);
        co_await expect_failure(frame(Opcode::continuation, "x"), Error::protocol_violation, 1002);
        co_await expect_failure(frame(Opcode::ping, "x", false), Error::protocol_violation, 1002);
        co_await expect_failure(frame(Opcode::binary, "12345"), Error::message_too_big, 1009,
                                {.limits = {.message = 4}});
        co_await expect_failure(frame(Opcode::binary, "123", false) +
                                    frame(Opcode::continuation, "45"),
                                Error::message_too_big, 1009, {.limits = {.message = 4}});
        // The head alone of a message of 1 MiB and a byte.
        co_await expect_failure(
            frame(Opcode::binary, std::string((1 << 20) + 1, 'x')).substr(0, 14),
            Error::message_too_big, 1009);
    };
    run(program());
}

TEST(WebSocket, AnotherTaskMayReceiveWhileOneClosesAfterAViolation) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        constexpr auto violation = penstock::ws::Error::protocol_violation;
        RawClient raw = co_await open_raw(frame(Opcode::continuation, "x"));
        EXPECT_EQ((co_await raw.server.receive()).error(), violation);
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await raw.server.receive()).error(), violation);
            EXPECT_EQ((co_await raw.server.receive_part()).error(), violation);
            EXPECT_TRUE(co_await raw.server.close()); // does not wait
            expect(co_await raw.stream.write_all("dropped"));
            co_return raw.stream.shutdown();
        };
        expect(co_await penstock::all(raw.server.close(), receiving()));
    };
    run(program());
}

TEST(WebSocket, AClientRefusesMaskedFrames) {
    const auto program = []() -> Task<> {
        Ends<MemoryStream> ends = co_await open_in_memory();
        expect(co_await ends.server.next_layer().write_all(frame(Opcode::text, "masked")));
        EXPECT_EQ((co_await ends.client.receive()).error(),
                  penstock::ws::Error::protocol_violation);
        EXPECT_EQ((co_await ends.server.receive()).error(), penstock::ws::Error::closed);
        EXPECT_EQ(ends.server.close_code(), close_code::protocol_error);
    };
    run(program());
}

TEST(WebSocket, ThePeerReadsWhyItsLargeMessageWasRefused) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends<TcpStream> ends = co_await open_over_tcp({.limits = {.message = 1000}});
        const std::string large = pattern(3'000'000);
        const auto sending = [&]() -> Task<Result<>> {
            (void)co_await ends.client.send_binary(large);
            EXPECT_EQ((co_await ends.client.receive()).error(), penstock::ws::Error::closed);
            EXPECT_EQ(ends.client.close_code(), close_code::message_too_big);
            ends.client.next_layer().close();
            co_return Result<>();
        };
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ((co_await ends.server.receive()).error(),
                      penstock::ws::Error::message_too_big);
            co_return co_await ends.server.close();
        };
        expect(co_await penstock::all(sending(), receiving()));
    };
    run(program());
}

TEST(WebSocket, ACancelledReceiveLosesNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawClient raw = co_await open_raw();
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.receive())).error(),
                  std::errc::timed_out);
        // Each byte arrives alone, and a receive is cancelled after each.
        const std::string bytes = frame(Opcode::text, "first ", false) + frame(Opcode::ping, "p") +
                                  frame(Opcode::continuation, "second");
        const auto turns_then_end = []() -> Task<Result<>> {
            co_await turns(3);
            co_return Result<>();
        };
        std::string received;
        for (const char& byte : bytes) {
            expect(co_await raw.stream.write_all(Bytes(&byte, 1)));
            auto outcome = co_await penstock::race(raw.server.receive(), turns_then_end());
            if (auto* message = std::get_if<0>(&outcome); message != nullptr && *message) {
                received = (*message)->text();
            }
        }
        EXPECT_EQ(received, "first second");
        expect(co_await raw.server.send_text("not broken"));
        raw.server.next_layer().close();
        EXPECT_EQ(expect(co_await penstock::read_all_text(raw.stream)),
                  plain_frame(Opcode::pong, "p") + plain_frame(Opcode::text, "not broken"));
    };
    run(program());
}

TEST(WebSocket, APongWaitsForTheEndOfAMessageThatIsBeingSent) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawClient raw = co_await open_raw(frame(Opcode::ping, "1") + frame(Opcode::ping, "2") +
                                          frame(Opcode::text, "message"));
        const std::string large = pattern(200'000); // more than the stream holds
        const std::string expected =
            plain_frame(Opcode::binary, large) + plain_frame(Opcode::pong, "2");
        const auto receiving = [&]() -> Task<Result<>> {
            // The receiver does not wait for the sender, which waits for the peer.
            EXPECT_EQ(expect(co_await raw.server.receive()).text(), "message");
            std::string read(expected.size(), ' ');
            penstock::BufReader reader(raw.stream);
            expect(co_await reader.read_exactly(read));
            EXPECT_TRUE(read == expected);
            co_return Result<>();
        };
        expect(co_await penstock::all(raw.server.send_binary(large), receiving()));
    };
    run(program());
}

TEST(WebSocket, MessagesOfSeveralSendersDoNotInterleave) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Ends<MemoryStream> ends = co_await open_in_memory(1000);
        const auto receiving = [&]() -> Task<Result<>> {
            for (const char expected : {'a', 'b', 'c'}) {
                EXPECT_EQ(expect(co_await ends.server.receive()).text(),
                          std::string(50'000, expected));
            }
            co_return Result<>();
        };
        const std::array<std::string, 3> texts{std::string(50'000, 'a'), std::string(50'000, 'b'),
                                               std::string(50'000, 'c')};
        expect(co_await penstock::all(ends.client.send_text(texts[0]),
                                      ends.client.send_text(texts[1]),
                                      ends.client.send_text(texts[2]), receiving()));
    };
    run(program());
}

TEST(WebSocket, ASendThatWasCutBreaksOnlySending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawClient raw = co_await open_raw(frame(Opcode::text, "still readable"));
        const std::string large = pattern(200'000);
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.send_binary(large))).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), penstock::ws::Error::broken);
        EXPECT_EQ(expect(co_await raw.server.receive()).text(), "still readable");
        EXPECT_EQ((co_await raw.server.close()).error(), penstock::ws::Error::broken);
    };
    run(program());
}

TEST(WebSocket, PingsAreAnswered) {
    const auto program = []() -> Task<> {
        RawClient raw = co_await open_raw();
        expect(co_await raw.server.ping("beat"));
        EXPECT_EQ((co_await raw.server.ping(std::string(126, 'x'))).error(),
                  std::errc::message_size);
        expect(co_await raw.server.ping());
        raw.server.next_layer().close();
        EXPECT_EQ(expect(co_await penstock::read_all_text(raw.stream)),
                  plain_frame(Opcode::ping, "beat") + plain_frame(Opcode::ping, ""));
    };
    run(program());
}

TEST(WebSocket, ConnectsToAUrl) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        penstock::net::TcpListener listener = penstock::testing::listen_on_loopback();
        const std::uint16_t port = expect(listener.local_endpoint()).port();
        const std::string authority = "127.0.0.1:" + std::to_string(port);
        const auto serving = [&]() -> Task<Result<>> {
            auto server = expect(
                co_await BasicWebSocket<TcpStream>::accept(expect(co_await listener.accept())));
            EXPECT_EQ(server.target(), "/?q=1");
            EXPECT_EQ(server.fields().find("Host"), authority);
            co_return co_await echo(server);
        };
        const auto asking = [&]() -> Task<Result<>> {
            auto client = expect(co_await WebSocket::connect("ws://" + authority + "?q=1"));
            expect(co_await client.send_text("hello"));
            EXPECT_EQ(expect(co_await client.receive()).text(), "hello");
            co_return co_await client.close();
        };
        expect(co_await penstock::all(serving(), asking()));
        EXPECT_EQ((co_await WebSocket::connect("wss://" + authority)).error(),
                  std::errc::protocol_not_supported);
        EXPECT_EQ((co_await WebSocket::connect("http://" + authority)).error(),
                  std::errc::invalid_argument);
    };
    run(program());
}

} // namespace
