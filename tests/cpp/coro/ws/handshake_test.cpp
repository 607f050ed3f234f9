// The opening handshake of both sides.

#include <penstock/ws/web_socket.hpp>

#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>

#include "coro/support/tcp_pair.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::MemoryStream;
using penstock::run;
using penstock::Task;
using penstock::testing::expect;
using penstock::testing::request;
using penstock::testing::Watchdog;
using penstock::ws::AcceptOptions;
using penstock::ws::BasicWebSocket;
using penstock::ws::ConnectOptions;
using penstock::ws::HandshakeError;
using penstock::ws::WebSocket;

TEST(WebSocketHandshake, BothEndsSeeTheHandshake) {
    const auto program = []() -> Task<> {
        auto [near, far] = MemoryStream::pair();
        ConnectOptions offer{.subprotocols = {"soap", "chat"},
                             .fields = {{"Origin", "http://here"}}};
        AcceptOptions answer{.subprotocols = {"chat", "soap2"}, .fields = {{"X-Room", "red"}}};
        std::string origin;
        answer.check = [&](const penstock::codec::http::RequestHead& head) {
            origin = head.fields.find("origin").value_or("");
            return 0;
        };
        auto opened = co_await penstock::all(
            BasicWebSocket<MemoryStream>::connect(std::move(near), "localhost", "/room?n=1",
                                                  std::move(offer)),
            BasicWebSocket<MemoryStream>::accept(std::move(far), std::move(answer)));
        auto [client, server] = expect(std::move(opened));
        EXPECT_EQ(origin, "http://here");
        EXPECT_EQ(server.target(), "/room?n=1");
        EXPECT_EQ(server.fields().find("host"), "localhost");
        EXPECT_EQ(server.subprotocol(), "chat");
        EXPECT_EQ(client.subprotocol(), "chat");
        EXPECT_EQ(client.fields().find("x-room"), "red");
        for (auto* socket : {&client, &server}) {
            socket->forget_head();
            EXPECT_EQ(socket->target(), "");
            EXPECT_TRUE(socket->fields().empty());
            EXPECT_EQ(socket->subprotocol(), "chat");
        }
    };
    run(program());
}

TEST(WebSocketHandshake, AServerThatWaitsKeepsTheHeadUntilItIsForgotten) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool forgets : {false, true}) {
            auto pair = co_await penstock::testing::connect_pair();
            expect(co_await pair.near.write_all(penstock::testing::request));
            WebSocket server =
                expect(co_await WebSocket::accept(penstock::AnyStream(std::move(pair.far))));
            if (forgets) {
                server.forget_head();
            }
            const auto receiving = [&]() -> Task<penstock::Result<>> {
                EXPECT_EQ((co_await penstock::unwrap(server.receive())).text(), "hi");
                co_return penstock::Result<>();
            };
            const auto sending = [&]() -> Task<penstock::Result<>> {
                for (int i = 0; i < 5; ++i) { // the server waits
                    (void)co_await penstock::yield();
                }
                co_return co_await pair.near.write_all(
                    std::string("\x81\x82\x00\x00\x00\x00hi", 8));
            };
            expect(co_await penstock::all(receiving(), sending()));
            EXPECT_EQ(server.target(), forgets ? "" : "/");
            EXPECT_EQ(server.fields().empty(), forgets);
            EXPECT_EQ(server.subprotocol(), "");
            EXPECT_FALSE(server.compression());
        }
    };
    run(program());
}

/// A server's answer to bytes that are no valid request.
struct Answer {
    std::error_code error;
    std::string text;
};

Task<Answer> answer_to(std::string head, AcceptOptions options = {}) {
    auto [near, far] = MemoryStream::pair();
    expect(co_await near.write_all(head));
    expect(near.shutdown());
    Answer answer;
    {
        const auto accepted =
            co_await BasicWebSocket<MemoryStream>::accept(std::move(far), std::move(options));
        answer.error = accepted ? std::error_code() : accepted.error();
    }
    answer.text = expect(co_await penstock::read_all_text(near));
    co_return answer;
}

std::string without(std::string_view field) {
    std::string text = request;
    const std::size_t begin = text.find(field);
    text.erase(begin, text.find("\r\n", begin) + 2 - begin);
    return text;
}

TEST(WebSocketHandshake, AnswersRequestsThatAreNotValid) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Answer answer = co_await answer_to(request);
        EXPECT_FALSE(answer.error);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 101 "));
        // The example of RFC 6455, section 1.3.
        EXPECT_NE(answer.text.find("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), std::string::npos);

        answer = co_await answer_to(without("Sec-WebSocket-Key"));
        EXPECT_EQ(answer.error, HandshakeError::invalid_key);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 400 ")) << answer.text;
        answer = co_await answer_to(without("Sec-WebSocket-Version"));
        EXPECT_EQ(answer.error, HandshakeError::unsupported_version);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 426 ")) << answer.text;
        EXPECT_NE(answer.text.find("Sec-WebSocket-Version: 13\r\n"), std::string::npos);
        answer = co_await answer_to("POST" + request.substr(3));
        EXPECT_EQ(answer.error, HandshakeError::invalid_method);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 405 ")) << answer.text;
        answer = co_await answer_to(without("Connection"));
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 426 ")) << answer.text;
        std::string old = request;
        old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
        answer = co_await answer_to(old);
        EXPECT_EQ(answer.error, HandshakeError::unsupported_http);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 505 ")) << answer.text;
        answer = co_await answer_to("GET  / HTTP/1.1\r\n\r\n");
        EXPECT_EQ(answer.error, penstock::ws::Error::invalid_http);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 400 ")) << answer.text;
        answer = co_await answer_to("GET / HTTP/1.1\r\nX: " + std::string(20'000, 'x'));
        EXPECT_EQ(answer.error, penstock::ws::Error::invalid_http);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 431 ")) << answer.text;
        answer = co_await answer_to("GET / HT");
        EXPECT_EQ(answer.error, penstock::ws::Error::truncated);
        EXPECT_EQ(answer.text, "");

        answer = co_await answer_to(request, {.check = [](const auto&) { return 403; }});
        EXPECT_EQ(answer.error, penstock::ws::Error::refused);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 403 ")) << answer.text;
        answer = co_await answer_to(request, {.fields = {{"X", "a\r\nSet-Cookie: b"}}});
        EXPECT_EQ(answer.error, std::errc::invalid_argument);
        EXPECT_TRUE(answer.text.starts_with("HTTP/1.1 500 ")) << answer.text;
    };
    run(program());
}

Task<std::error_code> client_error(std::string response, ConnectOptions options = {}) {
    auto [near, far] = MemoryStream::pair();
    expect(co_await far.write_all(response));
    expect(far.shutdown());
    const auto connected = co_await BasicWebSocket<MemoryStream>::connect(std::move(near), "h", "/",
                                                                          std::move(options));
    co_return connected ? std::error_code() : connected.error();
}

TEST(WebSocketHandshake, RefusesResponsesThatAreNotValid) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        const std::string upgrade =
            "HTTP/1.1 101 x\r\nupgrade: WebSocket\r\nconnection: upgrade\r\n";
        EXPECT_EQ(co_await client_error("HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n"),
                  HandshakeError::unexpected_status);
        EXPECT_EQ(co_await client_error("HTTP/1.1 103 Early Hints\r\n\r\n" + upgrade +
                                        "sec-websocket-accept: AAAA\r\n\r\n"),
                  HandshakeError::invalid_accept);
        std::string interim;
        for (int i = 0; i < 1000; ++i) {
            interim += "HTTP/1.1 100 Continue\r\n\r\n";
        }
        EXPECT_EQ(co_await client_error(interim), penstock::ws::Error::invalid_http);
        EXPECT_EQ(co_await client_error("SSH-2.0-OpenSSH\r\n"), penstock::ws::Error::invalid_http);
        EXPECT_EQ(co_await client_error("HTTP/1.1 1"), penstock::ws::Error::truncated);
        EXPECT_EQ(co_await client_error("", {.fields = {{"X", "a\r\nb"}}}),
                  std::errc::invalid_argument);
        EXPECT_EQ(co_await client_error("", {.subprotocols = {"a b"}}),
                  std::errc::invalid_argument);
    };
    run(program());
}

TEST(WebSocketHandshake, TheClientSeesTheResponseThatRefuses) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        std::vector<std::string> seen;
        ConnectOptions options;
        options.on_refusal = [&seen](const penstock::codec::http::ResponseHead& head) {
            seen.push_back(std::to_string(head.status) + " " +
                           std::string(head.fields.find("Location").value_or("-")));
        };
        EXPECT_EQ(co_await client_error("HTTP/1.1 103 Early Hints\r\n\r\n"
                                        "HTTP/1.1 302 Found\r\nLocation: /a\r\n\r\n",
                                        options),
                  HandshakeError::unexpected_status);
        EXPECT_EQ(co_await client_error("HTTP/1.1 101 x\r\nConnection: upgrade\r\n\r\n", options),
                  HandshakeError::missing_upgrade);
        EXPECT_EQ(co_await client_error("HTTP/1.1 1", options), penstock::ws::Error::truncated);
        EXPECT_EQ(seen, (std::vector<std::string>{"302 /a", "101 -"}));
    };
    run(program());
}

TEST(WebSocketHandshake, ASilentPeerEndsTheHandshakeByTheLimit) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        auto [near, far] = MemoryStream::pair();
        const auto accepted =
            co_await BasicWebSocket<MemoryStream&>::accept(far, {.limits = {.handshake = 1ms}});
        EXPECT_EQ(accepted.error(), std::errc::timed_out);
        const auto connected = co_await BasicWebSocket<MemoryStream&>::connect(
            near, "h", "/", {.limits = {.handshake = 1ms}});
        EXPECT_EQ(connected.error(), std::errc::timed_out);
    };
    run(program());
}

} // namespace
