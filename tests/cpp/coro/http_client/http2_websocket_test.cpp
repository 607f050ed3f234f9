// WebSockets, and other protocols, on streams of HTTP/2 (RFC 8441): by frames made here.

#include <penstock/http/server.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/deflate.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/upgrade.hpp>
#include <penstock/ws/web_socket.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/http/running_server.hpp"
#include "coro/http_client/http2_frames.hpp"
#include "support/allocated_bytes.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using namespace penstock::testing::http2;
using penstock::testing::allocated_bytes;
using penstock::testing::expect;
using ws::WebSocket;
using FieldList = std::initializer_list<std::pair<std::string_view, std::string_view>>;

void append_text(std::string& head, std::string_view text) {
    head.append(1, static_cast<char>(text.size())).append(text);
}

/// The head of an extended CONNECT.
std::string asks(std::string_view path, FieldList fields = {{"sec-websocket-version", "13"}},
                 std::string_view protocol = "websocket") {
    std::string head = "\x02";
    append_text(head, "CONNECT");
    head += '\0';
    append_text(head, ":protocol");
    append_text(head, protocol);
    head += '\x86'; // :scheme http
    head += '\x04';
    append_text(head, path);
    head += '\x01';
    append_text(head, "a"); // :authority
    for (const auto& [name, value] : fields) {
        head += '\0';
        append_text(head, name);
        append_text(head, value);
    }
    return head;
}

std::string open_on(char stream, std::string_view path = "/chat") {
    return frame(headers_frame, ends_head, stream, asks(path));
}

/// A client's frame of WebSocket, with a mask key of zeros.
std::string masked(char first, std::string_view payload) {
    std::string made(1, first);
    if (payload.size() < 126) {
        made += static_cast<char>(0x80 | payload.size());
    } else {
        made += static_cast<char>(0xFE);
        made += static_cast<char>(payload.size() >> 8U);
        made += static_cast<char>(payload.size());
    }
    return made.append(4, '\0').append(payload);
}

std::string text(std::string_view payload) {
    return masked('\x81', payload);
}

std::string unmasked(char first, std::string_view payload) {
    std::string made(1, first);
    made += static_cast<char>(payload.size());
    return made.append(payload);
}

constexpr std::string_view status_200 = "\x88"; // of the static table
constexpr std::string_view status_404 = "\x8D";

Task<void> expect_opened(net::TcpStream& stream, int id = 1) {
    const Frame opened = expect_frame(co_await next_frame(stream));
    EXPECT_EQ(opened.type, headers_frame);
    EXPECT_EQ(opened.stream, id);
    EXPECT_TRUE(opened.payload.starts_with(status_200));
    EXPECT_EQ(opened.flags & ends_stream, 0);
}

/// The data of a stream until they are as many, or end.
Task<std::string> read_data(net::TcpStream& stream, std::size_t size, int id = 1) {
    std::string data;
    while (data.size() < size) {
        const Frame next = expect_frame(co_await next_frame(stream));
        EXPECT_EQ(next.type, data_frame);
        EXPECT_EQ(next.stream, id);
        data += next.payload;
        if ((next.flags & ends_stream) != 0) {
            break;
        }
    }
    co_return data;
}

Task<void> expect_data(net::TcpStream& stream, std::string expected, int id = 1) {
    EXPECT_EQ(co_await read_data(stream, expected.size(), id), expected);
}

/// The data of a stream until its end.
Task<std::string> read_to_end(net::TcpStream& stream) {
    std::string data;
    for (;;) {
        const Frame next = expect_frame(co_await next_frame(stream));
        EXPECT_EQ(next.type, data_frame);
        data += next.payload;
        if ((next.flags & ends_stream) != 0) {
            co_return data;
        }
    }
}

Task<Result<>> echo(WebSocket& socket) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        co_await unwrap(socket.send(message));
    }
}

http::ServerOptions with_http2() {
    http::ServerOptions options;
    options.http2 = true;
    return options;
}

struct Chat {
    std::vector<std::string> failures;
    http::Server server;

    explicit Chat(ws::Handler handler = echo, ws::AcceptOptions options = {})
        : server([this] {
              http::ServerOptions made = with_http2();
              made.on_failure = [this](const http::ServerFailure& failure) {
                  if (failure.level == http::ServerFailure::Level::failure) {
                      failures.push_back(failure.to_string());
                  }
              };
              return made;
          }()) {
        server.get("/", [](http::Request&, http::Response& response) { response.body("root"); });
        server.upgrade("/chat", "websocket",
                       ws::upgrade_handler(std::move(handler), std::move(options)));
    }
};

/// Whether the first SETTINGS allow an extended CONNECT.
Task<void> expect_allowed(net::TcpStream& stream, bool allowed) {
    const Frame settings = expect_frame(co_await next_frame(stream, true));
    EXPECT_EQ(settings.type, settings_frame);
    const std::string_view enabled("\0\x8\0\0\0\1", 6);
    bool found = false;
    for (std::size_t at = 0; at < settings.payload.size(); at += 6) {
        found |= settings.payload.compare(at, 6, enabled) == 0;
    }
    EXPECT_EQ(found, allowed);
}

TEST(Http2WebSocket, IsAnnouncedWhereARouteHasIt) {
    Chat chat;
    talk(chat.server, "", [](net::TcpStream& stream) { return expect_allowed(stream, true); });
    http::Server other(with_http2());
    talk(other, "", [](net::TcpStream& stream) { return expect_allowed(stream, false); });
}

TEST(Http2WebSocket, SpeaksAsOverHttp1) {
    Chat chat;
    const std::string close("\x03\xE8"
                            "bye");
    talk(chat.server,
         open_on(1) + frame(data_frame, 0, 1, text("hello")) +
             frame(data_frame, 0, 1, masked('\x89', "ping").substr(0, 3)),
         [&](net::TcpStream& stream) -> Task<void> {
             co_await expect_opened(stream);
             co_await expect_data(stream, unmasked('\x81', "hello"));
             expect(co_await stream.write_all(
                 frame(data_frame, 0, 1, masked('\x89', "ping").substr(3))));
             co_await expect_data(stream, unmasked('\x8A', "ping"));
             expect(co_await stream.write_all(frame(data_frame, 0, 1, masked('\x88', close))));
             const std::string answer = co_await read_to_end(stream);
             EXPECT_TRUE(answer.starts_with("\x88"));
             EXPECT_EQ(answer.substr(2, 2), close.substr(0, 2));
             // The connection goes on, and the client need not end its side of the stream.
             const Frame reset = expect_frame(co_await next_frame(stream));
             EXPECT_EQ(reset.type, reset_frame);
             EXPECT_EQ(reset.payload, std::string(4, '\0')); // NO_ERROR
             expect(co_await stream.write_all(frame(headers_frame, whole_head, 3, head("/"))));
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).stream, 3);
             EXPECT_EQ(co_await read_data(stream, 4, 3), "root");
         });
    EXPECT_TRUE(chat.failures.empty());
}

TEST(Http2WebSocket, SharesItsConnection) {
    Chat chat;
    talk(chat.server, open_on(1) + open_on(3), [](net::TcpStream& stream) -> Task<void> {
        co_await expect_opened(stream, 1);
        co_await expect_opened(stream, 3);
        expect(co_await stream.write_all(frame(data_frame, 0, 3, text("three"))));
        co_await expect_data(stream, unmasked('\x81', "three"), 3);
        expect(co_await stream.write_all(frame(headers_frame, whole_head, 5, head("/"))));
        EXPECT_EQ(expect_frame(co_await next_frame(stream)).stream, 5);
        EXPECT_EQ(co_await read_data(stream, 4, 5), "root");
        // One of them is reset, and the other goes on.
        expect(co_await stream.write_all(frame(reset_frame, 0, 3, cancel) +
                                         frame(data_frame, 0, 1, text("one"))));
        co_await expect_data(stream, unmasked('\x81', "one"), 1);
    });
    EXPECT_TRUE(chat.failures.empty());
}

TEST(Http2WebSocket, OnlyARouteOfTheProtocolTakesAStream) {
    bool called = false;
    using Asked = std::pair<std::string_view, std::string_view>;
    for (const auto& [path, protocol] :
         {Asked("/page", "websocket"), Asked("/none", "websocket"), Asked("/chat", "other")}) {
        Chat chat;
        chat.server.get("/page", [&](http::Request&, http::Response&) { called = true; });
        talk(chat.server,
             frame(headers_frame, ends_head, 1,
                   asks(path, {{"sec-websocket-version", "13"}}, protocol)),
             [](net::TcpStream& stream) -> Task<void> {
                 const Frame answer = expect_frame(co_await next_frame(stream));
                 EXPECT_EQ(answer.type, headers_frame);
                 EXPECT_TRUE(answer.payload.starts_with(status_404));
             });
    }
    EXPECT_FALSE(called);
}

TEST(Http2WebSocket, ARefusalIsAResponse) {
    Chat chat(echo, {.check = [](const codec::http::RequestHead& head) {
                  EXPECT_EQ(head.target, "/chat?a=1");
                  EXPECT_EQ(head.host, "a");
                  EXPECT_EQ(head.fields.find("x-name"), "value");
                  return 404;
              }});
    talk(chat.server,
         frame(headers_frame, ends_head, 1,
               asks("/chat?a=1", {{"sec-websocket-version", "13"}, {"x-name", "value"}})),
         [](net::TcpStream& stream) -> Task<void> {
             EXPECT_TRUE(expect_frame(co_await next_frame(stream)).payload.starts_with(status_404));
             EXPECT_EQ(co_await read_to_end(stream), "");
         });
    EXPECT_TRUE(chat.failures.empty());
}

TEST(Http2WebSocket, ARequestWithoutAVersionIsRefused) {
    Chat chat;
    talk(chat.server, frame(headers_frame, ends_head, 1, asks("/chat", {})),
         [](net::TcpStream& stream) -> Task<void> { // 426: no version
             const Frame answer = expect_frame(co_await next_frame(stream));
             EXPECT_EQ(answer.type, headers_frame);
             EXPECT_FALSE(answer.payload.starts_with(status_200));
             EXPECT_EQ(co_await read_to_end(stream), "");
         });
    EXPECT_TRUE(chat.failures.empty());
}

std::string window_of(char stream, std::string_view size) {
    return frame(window_frame, 0, stream, size);
}

TEST(Http2WebSocket, WhatTheClientHasNoRoomForWaits) {
    sync::Event sent;
    bool was_sent = false;
    Chat chat([&](WebSocket& socket) -> Task<Result<>> {
        const Result<> done = co_await socket.send_binary(Bytes(std::string(300'000, 'x')));
        was_sent = done.has_value();
        sent.set();
        co_return done;
    });
    talk(chat.server, open_on(1), [&](net::TcpStream& stream) -> Task<void> {
        co_await expect_opened(stream);
        constexpr std::size_t window = 65'535;
        EXPECT_EQ((co_await read_data(stream, window)).size(), window);
        // An answer behind it: nothing more was sent.
        expect(co_await stream.write_all(frame(ping_frame, 0, 0, "12345678")));
        EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, ping_frame);
        EXPECT_FALSE(sent.is_set());
        const std::string_view million("\0\xF\x42\x40", 4);
        expect(co_await stream.write_all(window_of(0, million) + window_of(1, million)));
        // A frame of 300,010 bytes, and perhaps the close frame behind it.
        EXPECT_GE((co_await read_data(stream, 300'010 - window)).size(), 300'010 - window);
        expect(co_await sent.wait());
    });
    EXPECT_TRUE(was_sent);
}

/// A reader that is always one part behind holds no more than the window.
TEST(Http2WebSocket, AReaderThatNeverCatchesUpHoldsLittle) {
    constexpr std::size_t part = 16'000;
    constexpr int rounds = 200;
    sync::Event may_read;
    http::Server server(with_http2());
    server.upgrade("/chat", "websocket", [&](http::Upgrade& upgrade) -> Task<Result<>> {
        co_await unwrap(
            upgrade.write_all(std::string_view("HTTP/1.1 101 Switching Protocols\r\n\r\n")));
        std::vector<std::byte> into(part);
        for (int round = 0; round < rounds; ++round) {
            co_await unwrap(may_read.wait());
            may_read.reset();
            for (std::size_t have = 0; have < part;) {
                have += co_await unwrap(upgrade.read(MutableBytes(into).subspan(have)));
            }
            co_await unwrap(upgrade.write_all(std::string_view("+")));
        }
        co_return Result<>();
    });
    const std::string sent = frame(data_frame, 0, 1, std::string(part, 'x'));
    const std::string ping = frame(ping_frame, 0, 0, "12345678");
    talk(server, open_on(1) + sent, [&](net::TcpStream& stream) -> Task<void> {
        co_await expect_opened(stream);
        const std::size_t before = allocated_bytes();
        std::size_t most = 0;
        for (int round = 0; round < rounds; ++round) {
            expect(co_await stream.write_all(sent + ping));
            EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, ping_frame);
            most = std::max(most, allocated_bytes()); // the part has arrived
            may_read.set();
            co_await expect_data(stream, "+");
        }
        EXPECT_LT(most, before + 500'000);
    });
}

TEST(Http2WebSocket, WhatTheHandlerHasNoRoomForWaits) {
    sync::Event go_on;
    std::size_t received = 0;
    Chat chat([&](WebSocket& socket) -> Task<Result<>> {
        co_await unwrap(go_on.wait());
        while (received < 60'000) {
            received += (co_await unwrap(socket.receive())).text().size();
        }
        co_await unwrap(socket.send_text("all"));
        co_return Result<>();
    });
    std::string sent = open_on(1);
    for (int i = 0; i < 6; ++i) { // as much as the window of a stream has at first
        sent += frame(data_frame, 0, 1, text(std::string(10'000, 'x')));
    }
    talk(chat.server, sent + frame(ping_frame, 0, 0, "12345678"),
         [&](net::TcpStream& stream) -> Task<void> {
             const auto grown = [](const Frame& frame) {
                 return frame.type == window_frame && frame.stream == 1;
             };
             for (;;) {
                 const Frame next = expect_frame(co_await next_frame(stream, true));
                 EXPECT_FALSE(grown(next)); // nobody has read
                 if (next.type == ping_frame) {
                     break;
                 }
             }
             go_on.set();
             bool has_grown = false;
             for (;;) {
                 const Frame next = expect_frame(co_await next_frame(stream, true));
                 has_grown |= grown(next);
                 if (next.type == data_frame) {
                     EXPECT_TRUE(next.payload.starts_with(unmasked('\x81', "all")));
                     break;
                 }
             }
             EXPECT_TRUE(has_grown);
         });
    EXPECT_EQ(received, 60'000U);
}

TEST(Http2WebSocket, ItsHandlerReadsTheEndOfItsClient) {
    for (const bool by_stream : {true, false}) {
        sync::Event ended;
        std::error_code seen;
        Chat chat([&](WebSocket& socket) -> Task<Result<>> {
            co_await unwrap(socket.send_text("x"));
            const auto received = co_await socket.receive();
            seen = received ? std::error_code() : received.error();
            ended.set();
            co_return failure(seen);
        });
        talk(chat.server, open_on(1), [&](net::TcpStream& stream) -> Task<void> {
            co_await expect_opened(stream);
            co_await expect_data(stream, unmasked('\x81', "x"));
            if (by_stream) {
                expect(co_await stream.write_all(frame(reset_frame, 0, 1, cancel)));
            } else {
                stream.close();
            }
            expect(co_await ended.wait());
        });
        EXPECT_EQ(seen, std::errc::connection_reset) << by_stream;
        EXPECT_TRUE(chat.failures.empty());
    }
}

TEST(Http2WebSocket, AStreamThatEndsWithoutACloseFrameIsCutOff) {
    std::error_code seen;
    Chat chat([&](WebSocket& socket) -> Task<Result<>> {
        const auto received = co_await socket.receive();
        seen = received ? std::error_code() : received.error();
        co_return failure(seen);
    });
    talk(chat.server, open_on(1) + frame(data_frame, ends_stream, 1, ""),
         [](net::TcpStream& stream) -> Task<void> {
             co_await expect_opened(stream);
             (void)co_await read_to_end(stream);
         });
    EXPECT_EQ(seen, ws::Error::truncated);
}

TEST(Http2WebSocket, IsClosedWhenTheServerStops) {
    Chat chat;
    talk(chat.server, open_on(1), [&](net::TcpStream& stream) -> Task<void> {
        co_await expect_opened(stream);
        chat.server.stop(5s);
        for (;;) {
            const Frame next = expect_frame(co_await next_frame(stream));
            if (next.type == away_frame) {
                continue;
            }
            EXPECT_EQ(next.type, data_frame);
            EXPECT_TRUE(next.payload.starts_with("\x88")) << next.payload;
            EXPECT_EQ(next.payload.substr(2, 2), "\x03\xE9"); // 1001
            expect(co_await stream.write_all(
                frame(data_frame, ends_stream, 1, masked('\x88', "\x03\xE9"))));
            co_return;
        }
    });
}

TEST(Http2WebSocket, HasTheLimitsOfAWebSocket) {
    Chat chat(echo, {.limits = {.message = 10}});
    talk(chat.server, open_on(1) + frame(data_frame, 0, 1, text("more than that")),
         [](net::TcpStream& stream) -> Task<void> {
             co_await expect_opened(stream);
             const Frame close = expect_frame(co_await next_frame(stream));
             EXPECT_TRUE(close.payload.starts_with("\x88"));
             EXPECT_EQ(close.payload.substr(2, 2), "\x03\xF1"); // 1009
         });
}

TEST(Http2WebSocket, CompressesIfThatWasAgreedUpon) {
    Chat chat(echo, {.compression = ws::deflate({.threshold = 0})});
    const std::string hello("\xF2\x48\xCD\xC9\xC9\x07\0", 7); // RFC 7692, section 7.2.3.1
    talk(chat.server,
         frame(headers_frame, ends_head, 1,
               asks("/chat", {{"sec-websocket-version", "13"},
                              {"sec-websocket-extensions", "permessage-deflate"}})) +
             frame(data_frame, 0, 1, masked('\xC1', hello)),
         [&](net::TcpStream& stream) -> Task<void> {
             co_await expect_opened(stream);
             co_await expect_data(stream, unmasked('\xC1', hello));
         });
}

TEST(Http2Upgrade, AnyProtocolMayEndOneSideAndReadOn) {
    http::Server server(with_http2());
    std::string read;
    server.upgrade("/", "other", [&](http::Upgrade& upgrade) -> Task<Result<>> {
        EXPECT_EQ(upgrade.request().method(), http::Method::get);
        EXPECT_EQ(upgrade.request().header("Upgrade"), "other");
        EXPECT_TRUE(upgrade.head_text().starts_with("GET / HTTP/1.1\r\nhost: a\r\n"));
        EXPECT_TRUE(upgrade.surplus().empty());
        EXPECT_EQ(upgrade.stream<net::TcpStream>(), nullptr);
        for (const std::string_view part :
             {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching", " Protocols\r\n\r\nto you"}) {
            co_await unwrap(upgrade.write_all(Bytes(part)));
        }
        co_await unwrap(upgrade.shutdown());
        EXPECT_EQ((co_await upgrade.write_all("more")).error(), std::errc::broken_pipe);
        std::array<std::byte, 3> room{};
        for (;;) {
            const std::size_t size = co_await unwrap(upgrade.read(room));
            if (size == 0) {
                break;
            }
            read.append(reinterpret_cast<const char*>(room.data()), size);
        }
        co_return Result<>();
    });
    talk(server, frame(headers_frame, ends_head, 1, asks("/", {}, "other")),
         [](net::TcpStream& stream) -> Task<void> {
             co_await expect_opened(stream);
             EXPECT_EQ(co_await read_to_end(stream), "to you");
             expect(co_await stream.write_all(frame(data_frame, 0, 1, "from") +
                                              frame(data_frame, ends_stream, 1, " me")));
             // The stream has ended for both: a ping is the next that is answered.
             expect(co_await stream.write_all(frame(ping_frame, 0, 0, "12345678")));
             EXPECT_EQ(expect_frame(co_await next_frame(stream)).type, ping_frame);
         });
    EXPECT_EQ(read, "from me");
}

TEST(Http2Upgrade, AHandlerThatDoesNotAnswerResetsItsStream) {
    for (const std::string_view path : {"/", "/invalid"}) {
        http::Server server(with_http2());
        server.upgrade("/", "other",
                       [](http::Upgrade&) -> Task<Result<>> { co_return Result<>(); });
        server.upgrade("/invalid", "other", [](http::Upgrade& upgrade) -> Task<Result<>> {
            const Result<> written = co_await upgrade.write_all("what\r\n\r\n");
            EXPECT_EQ(written.error(), std::errc::protocol_error);
            co_return Result<>();
        });
        talk(server, frame(headers_frame, ends_head, 1, asks(path, {}, "other")),
             [](net::TcpStream& stream) -> Task<void> {
                 const Frame reset = expect_frame(co_await next_frame(stream));
                 EXPECT_EQ(reset.type, reset_frame);
                 EXPECT_EQ(reset.payload.back(), 2); // INTERNAL_ERROR
             });
    }
}

TEST(Http2Upgrade, AStreamThatWasTakenEndsWithItsHandler) {
    AnyStream taken;
    {
        http::Server server(with_http2());
        server.upgrade("/", "other", [&](http::Upgrade& upgrade) -> Task<Result<>> {
            taken = upgrade.take().stream;
            co_return co_await taken.write_all("HTTP/1.1 101 Switching Protocols\r\n\r\nhello");
        });
        talk(server, frame(headers_frame, ends_head, 1, asks("/", {}, "other")),
             [&](net::TcpStream& stream) -> Task<void> {
                 co_await expect_opened(stream);
                 const Frame data = expect_frame(co_await next_frame(stream));
                 EXPECT_EQ(data.payload, "hello");
                 EXPECT_EQ((co_await taken.write_all("x")).error(), std::errc::operation_canceled);
             });
    }
    taken.close(); // after its server
}

} // namespace
