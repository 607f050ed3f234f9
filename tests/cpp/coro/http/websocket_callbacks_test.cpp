// Handlers of WebSockets that are functions, on both servers.

#include <penstock/ws/callbacks.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/upgrade.hpp>

#include "coro/http/callback_guests.hpp"
#include "coro/http/running_server.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/request.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using namespace penstock;
using codec::websocket::Opcode;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::GuestLog;
using penstock::testing::guests;
using penstock::testing::open_raw;
using penstock::testing::plain_frame;
using penstock::testing::read_until;
using penstock::testing::url_of;
using penstock::testing::Watchdog;
using ws::CallbackSocket;
using ws::Sent;
using ws::WebSocket;

using Client = std::function<Task<void>(net::Endpoint)>;

/// What a server tells beside the handler.
struct Told {
    std::vector<std::error_code> errors;
    std::vector<std::string> exceptions;
    std::size_t connections = 0; ///< after the end
};

/// Runs `client` beside a `ws::Server` or an `http::Server`, and then stops that.
Told serve(bool http, ws::Callbacks callbacks, const Client& client, ws::AcceptOptions accept = {},
           std::chrono::milliseconds grace = 1min) {
    Told told;
    const auto tell = [&told](const std::exception_ptr& thrown) {
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception& exception) {
            told.exceptions.emplace_back(exception.what());
        }
    };
    const auto beside = [&](auto& server, net::Endpoint endpoint) -> Task<Result<>> {
        co_await client(endpoint);
        if constexpr (requires { server.shutdown(grace); }) {
            server.shutdown(grace);
        } else {
            server.stop(grace);
        }
        co_return Result<>();
    };
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        if (http) {
            http::Server server({.on_failure = [&](const http::ServerFailure& failure) {
                if (failure.exception) {
                    tell(failure.exception);
                } else {
                    told.errors.push_back(failure.error);
                }
            }});
            server.upgrade("/{path...}", "websocket",
                           ws::upgrade_handler(std::move(callbacks), std::move(accept)));
            expect(co_await all(server.serve(std::move(listener)), beside(server, endpoint)));
            told.connections = server.connections() + server.open_connections().size();
        } else {
            ws::Server server(std::move(listener),
                              {.accept = std::move(accept),
                               .on_error = [&](std::error_code e) { told.errors.push_back(e); },
                               .on_exception = tell});
            expect(co_await all(server.serve(std::move(callbacks)), beside(server, endpoint)));
            told.connections = server.connections();
        }
    };
    run(body());
    return told;
}

class WebSocketCallbacks : public ::testing::TestWithParam<bool> {
    const Watchdog watchdog_;
};

TEST_P(WebSocketCallbacks, EchoMessagesOfAllSizes) {
    GuestLog log;
    const Told told = serve(GetParam(), guests(log), [&](net::Endpoint endpoint) -> Task<void> {
        WebSocket one = expect(co_await WebSocket::connect(url_of(endpoint, "/a?b")));
        WebSocket two = expect(co_await WebSocket::connect(url_of(endpoint, "/c")));
        for (const std::size_t size : {0, 1, 125, 126, 9'000, 65'535, 65'536, 1 << 20}) {
            for (WebSocket* const each : {&one, &two}) {
                const std::string text(size, 'x');
                expect(co_await each->send_text(text));
                EXPECT_TRUE(expect(co_await each->receive()).text() == text) << size;
                expect(co_await each->send_binary(Bytes(text)));
                EXPECT_FALSE(expect(co_await each->receive()).is_text());
            }
        }
        expect(co_await one.close(4001, "bye"));
        EXPECT_EQ(one.close_code(), 4001);
        expect(co_await two.close());
    });
    EXPECT_EQ(log.lines, (std::vector<std::string>{"open /a?b", "open /c", "closed 4001 bye",
                                                   "closed 1000 "}));
    EXPECT_EQ(told.connections, 0U);
    EXPECT_EQ(told.errors, std::vector<std::error_code>());
}

TEST_P(WebSocketCallbacks, TakeFragmentsAndPingsInPieces) {
    GuestLog log;
    (void)serve(GetParam(), guests(log), [&](net::Endpoint endpoint) -> Task<void> {
        const std::string input =
            frame(Opcode::text, "one") + frame(Opcode::text, "tw", false) +
            frame(Opcode::ping, "p") + frame(Opcode::continuation, "o") +
            frame(Opcode::pong, "nobody asked") + frame(Opcode::text, "three") +
            frame(Opcode::text, std::string(300, 'y')) + frame(Opcode::close, "\x03\xe8");
        const std::string output =
            plain_frame(Opcode::text, "one") + plain_frame(Opcode::pong, "p") +
            plain_frame(Opcode::text, "two") + plain_frame(Opcode::text, "three") +
            plain_frame(Opcode::text, std::string(300, 'y')) +
            plain_frame(Opcode::close, "\x03\xe8");
        for (const std::size_t piece : {input.size(), std::size_t{1}, std::size_t{7}}) {
            net::TcpStream stream = co_await open_raw(endpoint);
            for (std::string_view rest = input; !rest.empty();) {
                const std::string_view part = rest.substr(0, piece);
                expect(co_await stream.write_all(part));
                rest.remove_prefix(part.size());
                (void)co_await yield();
            }
            EXPECT_EQ(expect(co_await read_all_text(stream)), output) << piece;
        }
    });
    EXPECT_EQ(log.lines.size(), 6U);
    EXPECT_EQ(log.lines.back(), "closed 1000 ");
}

TEST_P(WebSocketCallbacks, MessagesThatCameWithTheRequestAreTaken) {
    GuestLog log;
    (void)serve(GetParam(), guests(log), [&](net::Endpoint endpoint) -> Task<void> {
        net::TcpStream stream = expect(co_await net::TcpStream::connect(endpoint));
        expect(co_await stream.write_all(penstock::testing::request + frame(Opcode::text, "one") +
                                         frame(Opcode::text, "two")));
        const std::string expected =
            plain_frame(Opcode::text, "one") + plain_frame(Opcode::text, "two");
        EXPECT_TRUE((co_await read_until(stream, expected)).ends_with(expected));
    });
}

TEST_P(WebSocketCallbacks, CloseBehindWhatWasSent) {
    GuestLog log;
    (void)serve(GetParam(), guests(log), [&](net::Endpoint endpoint) -> Task<void> {
        WebSocket socket = expect(co_await WebSocket::connect(url_of(endpoint)));
        expect(co_await socket.send_text("close"));
        EXPECT_EQ(expect(co_await socket.receive()).text(), "before");
        EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
        EXPECT_EQ(socket.close_code(), 4000);
        EXPECT_EQ(socket.close_reason(), "enough");
        expect(co_await log.closed.wait());
    });
    EXPECT_EQ(log.lines.back(), "closed 4000 "); // the client's answer
}

/// `close` finds some messages waiting and one that the task which sends them has taken out.
TEST_P(WebSocketCallbacks, CloseBehindAllThatWaits) {
    GuestLog log;
    (void)serve(GetParam(), guests(log),
                [&](net::Endpoint endpoint) -> Task<void> {
                    net::TcpStream stream = co_await open_raw(endpoint);
                    CallbackSocket& socket = *log.open.at(0);
                    std::string expected;
                    for (Sent sent = Sent::now; sent != Sent::waiting;) {
                        const std::string text(60'000, '.');
                        sent = socket.send_text(text);
                        expected += plain_frame(Opcode::text, text);
                    }
                    for (const std::string_view text : {"one", "two"}) {
                        EXPECT_EQ(socket.send_text(text), Sent::waiting);
                        expected += plain_frame(Opcode::text, text);
                    }
                    socket.close(4000);
                    (void)co_await yield(); // so that both tasks have begun
                    expected += plain_frame(Opcode::close, "\x0f\xa0");
                    std::string got(expected.size(), ' ');
                    expect(co_await stream.read_exactly(MutableBytes(got)));
                    EXPECT_TRUE(got == expected);
                    expect(co_await stream.write_all(frame(Opcode::close, "\x0f\xa0")));
                    expect(co_await log.closed.wait());
                },
                {.limits = {.maximum_backlog = 4096}});
    EXPECT_EQ(log.lines.back(), "closed 4000 ");
}

TEST_P(WebSocketCallbacks, APeerThatClosesGetsTheRestOfTheFrameAndTheAnswer) {
    GuestLog log;
    (void)serve(GetParam(), guests(log),
                [&](net::Endpoint endpoint) -> Task<void> {
                    net::TcpStream stream = co_await open_raw(endpoint);
                    CallbackSocket& socket = *log.open.at(0);
                    std::string expected;
                    for (Sent sent = Sent::now; sent != Sent::waiting;) {
                        const std::string text(60'000, '.');
                        sent = socket.send_text(text);
                        expected += plain_frame(Opcode::text, text);
                    }
                    expect(co_await stream.write_all(frame(Opcode::close, "\x03\xe8")));
                    while (socket.send_text("x") != Sent::closed && log.open.size() == 1) {
                        (void)co_await yield();
                    }
                    expected += plain_frame(Opcode::close, "\x03\xe8");
                    EXPECT_TRUE(expect(co_await read_all_text(stream)) == expected);
                    expect(co_await log.closed.wait());
                },
                {.limits = {.maximum_backlog = 4096}});
    EXPECT_EQ(log.lines.back(), "closed 1000 ");
}

TEST_P(WebSocketCallbacks, AnExceptionEndsItsConnectionAlone) {
    GuestLog log;
    const Told told = serve(GetParam(), guests(log), [&](net::Endpoint endpoint) -> Task<void> {
        WebSocket one = expect(co_await WebSocket::connect(url_of(endpoint)));
        WebSocket two = expect(co_await WebSocket::connect(url_of(endpoint)));
        expect(co_await one.send_text("throw"));
        EXPECT_EQ((co_await one.receive()).error(), ws::Error::closed);
        EXPECT_EQ(one.close_code(), ws::close_code::internal_error);
        expect(co_await two.send_text("still here"));
        EXPECT_EQ(expect(co_await two.receive()).text(), "still here");
        expect(co_await two.close());
    });
    EXPECT_EQ(told.exceptions, std::vector<std::string>{"a defect"});
}

TEST_P(WebSocketCallbacks, WhatThePeerDoesWrongEndsTheConnection) {
    struct Case {
        std::string_view what;
        std::string sent;
        std::string answer;
        std::size_t errors;
    };
    const std::vector<Case> cases{
        {"it sends an unmasked frame", plain_frame(Opcode::text, "x"), "\x03\xea", 1},
        {"its text is not UTF-8", frame(Opcode::text, "\xff"), "\x03\xef", 1},
        {"its message is too large", frame(Opcode::text, std::string(101, 'x')), "\x03\xf1", 1},
        {"it ends its output", {}, {}, 0},
    };
    for (const Case& each : cases) {
        SCOPED_TRACE(each.what);
        GuestLog log;
        const Told told =
            serve(GetParam(), guests(log),
                  [&](net::Endpoint endpoint) -> Task<void> {
                      net::TcpStream stream = co_await open_raw(endpoint);
                      expect(co_await stream.write_all(frame(Opcode::text, "x") + each.sent));
                      expect(stream.shutdown());
                      const std::string answer = expect(co_await read_all_text(stream));
                      EXPECT_TRUE(answer.starts_with(plain_frame(Opcode::text, "x"))) << answer;
                      EXPECT_NE(answer.find(each.answer), std::string::npos) << answer;
                      expect(co_await log.closed.wait());
                  },
                  {.limits = {.message = 100}});
        EXPECT_EQ(told.errors.size(), each.errors);
        EXPECT_EQ(log.lines.back(), "closed 1006 ");
    }
}

TEST_P(WebSocketCallbacks, ASilentPeerIsPingedAndGivenUp) {
    GuestLog log;
    (void)serve(GetParam(), guests(log),
                [&](net::Endpoint endpoint) -> Task<void> {
                    net::TcpStream stream = co_await open_raw(endpoint);
                    const std::string expected =
                        std::string("\x89\x00\x88\x15\x03\xf3", 6) + "no answer to a ping";
                    EXPECT_EQ(expect(co_await read_all_text(stream)), expected);
                    expect(co_await log.closed.wait());
                },
                {.limits = {.close = 10ms, .ping_interval = 2ms, .ping_timeout = 2ms}});
    EXPECT_EQ(log.lines.back(), "closed 1006 ");
}

TEST_P(WebSocketCallbacks, APeerThatAnswersPingsIsKeptUntilItIsIdle) {
    GuestLog log;
    (void)serve(GetParam(), guests(log),
                [&](net::Endpoint endpoint) -> Task<void> {
                    WebSocket socket = expect(co_await WebSocket::connect(url_of(endpoint)));
                    EXPECT_EQ((co_await socket.receive()).error(), ws::Error::closed);
                    EXPECT_EQ(socket.close_code(), ws::close_code::going_away);
                },
                {.limits = {.ping_interval = 2ms, .ping_timeout = 1h, .idle = 50ms}});
}

/// What is sent to a peer that does not read waits, by the policy, and arrives whole and in order.
TEST_P(WebSocketCallbacks, WhatWaitsIsBoundedAndSentInOrder) {
    GuestLog log;
    (void)serve(
        GetParam(),
        guests(log, {.slow_reader = ws::SlowReader::drop_newest, .maximum_backlog = 200'000}),
        [&](net::Endpoint endpoint) -> Task<void> {
            net::TcpStream stream = co_await open_raw(endpoint);
            CallbackSocket& socket = *log.open.at(0);
            std::size_t accepted = 0;
            for (Sent sent = Sent::now; sent != Sent::dropped; ++accepted) {
                sent = socket.send_text(std::to_string(accepted) + std::string(50'000, '.'));
                EXPECT_NE(sent, Sent::closed);
            }
            --accepted;
            EXPECT_LE(socket.backlog(), 200'000U);
            EXPECT_GT(socket.backlog(), 0U);
            EXPECT_EQ(socket.dropped(), 1U);
            std::string expected;
            for (std::size_t number = 0; number < accepted; ++number) {
                expected +=
                    plain_frame(Opcode::text, std::to_string(number) + std::string(50'000, '.'));
            }
            std::string got(expected.size(), ' ');
            expect(co_await stream.read_exactly(MutableBytes(got)));
            EXPECT_TRUE(got == expected);
            expect(co_await log.drained.wait());
            EXPECT_EQ(socket.send_text("again"), Sent::now);
            (void)co_await read_until(stream, "again");
        },
        {.limits = {.maximum_backlog = 4096}});
}

TEST_P(WebSocketCallbacks, ASlowReaderIsClosed) {
    GuestLog log;
    (void)serve(GetParam(), guests(log, {.maximum_backlog = 100'000}),
                [&](net::Endpoint endpoint) -> Task<void> {
                    net::TcpStream stream = co_await open_raw(endpoint);
                    CallbackSocket& socket = *log.open.at(0);
                    const std::string text(50'000, '.');
                    while (socket.send_text(text) != Sent::closed) {
                    }
                    // Its frame is whole, and the close frame follows it.
                    const std::string_view end = "\x03\xf5"
                                                 "the client reads too slowly";
                    std::string got;
                    std::vector<char> part(65'536);
                    while (!got.ends_with(end)) {
                        const std::size_t count = expect(co_await stream.read(part));
                        EXPECT_GT(count, 0U);
                        got.append(part.data(), count);
                    }
                    expect(co_await stream.write_all(frame(Opcode::close, "\x03\xf5")));
                    expect(co_await log.closed.wait());
                },
                {.limits = {.maximum_backlog = 4096}});
}

TEST_P(WebSocketCallbacks, APeerThatNeverReadsEndsByTime) {
    GuestLog log;
    const Told told = serve(GetParam(), guests(log, {.slow_reader = ws::SlowReader::drop_newest}),
                            [&](net::Endpoint endpoint) -> Task<void> {
                                const net::TcpStream stream = co_await open_raw(endpoint);
                                const std::string text(50'000, '.');
                                while (log.open.at(0)->send_text(text) != Sent::dropped) {
                                }
                                expect(co_await log.closed.wait());
                            },
                            {.limits = {.close = 10ms, .write = 20ms, .write_rate = 1U << 30}});
    EXPECT_EQ(told.errors.size(), 1U);
    EXPECT_EQ(told.errors.at(0), std::errc::timed_out);
}

TEST_P(WebSocketCallbacks, ShareTopicsWithCoroutines) {
    ws::Topics topics;
    struct Member {
        void on_open(CallbackSocket& socket) const {
            EXPECT_TRUE(socket.subscribe(*topics, "room"));
            EXPECT_FALSE(socket.subscribe(*topics, "room"));
        }
        void on_message(CallbackSocket& socket, const ws::Message& message) const {
            if (message.text() == "leave") {
                EXPECT_TRUE(socket.unsubscribe(*topics, "room"));
                EXPECT_FALSE(socket.unsubscribe(*topics, "room"));
            }
            topics->publish("room", message.text());
        }
        ws::Topics* topics;
    };
    (void)serve(GetParam(), ws::Callbacks([&] { return Member{.topics = &topics}; }),
                [&](net::Endpoint endpoint) -> Task<void> {
                    std::vector<WebSocket> all;
                    for (int i = 0; i < 5; ++i) {
                        all.push_back(expect(co_await WebSocket::connect(url_of(endpoint))));
                    }
                    expect(co_await all[0].send_text("hello"));
                    for (WebSocket& each : all) {
                        EXPECT_EQ(expect(co_await each.receive()).text(), "hello");
                    }
                    expect(co_await all[1].send_text("leave"));
                    EXPECT_EQ(expect(co_await all[0].receive()).text(), "leave");
                    EXPECT_EQ(topics.subscribers("room"), 4U);
                    EXPECT_EQ(topics.publish("room", ws::SharedMessage::binary(Bytes("all"))), 4U);
                    EXPECT_EQ(expect(co_await all[0].receive()).text(), "all");
                });
    EXPECT_EQ(topics.subscribers("room"), 0U);
}

TEST_P(WebSocketCallbacks, AStopClosesThem) {
    GuestLog log;
    std::optional<WebSocket> socket;
    (void)serve(
        GetParam(), guests(log),
        [&](net::Endpoint endpoint) -> Task<void> {
            socket.emplace(expect(co_await WebSocket::connect(url_of(endpoint))));
        },
        {}, 0ms);
    EXPECT_EQ(log.lines, (std::vector<std::string>{"open /", "closed 1006 "}));
}

TEST_P(WebSocketCallbacks, ACancellationEndsThemAll) {
    GuestLog log;
    const auto body = [&]() -> Task<void> {
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const net::Endpoint endpoint = expect(listener.local_endpoint());
        http::Server site;
        site.upgrade("/", "websocket", ws::upgrade_handler(guests(log)));
        ws::Server plain = GetParam() ? expect(ws::Server::listen(net::Endpoint::loopback(0)))
                                      : ws::Server(std::move(listener));
        std::vector<net::TcpStream> streams;
        const auto leave = [&]() -> Task<Result<>> {
            for (int i = 0; i < 6; ++i) {
                streams.push_back(co_await open_raw(endpoint));
                if (i % 2 == 0) {
                    const std::string text = frame(Opcode::text, "x") + frame(Opcode::text, "y");
                    expect(co_await streams.back().write_all(text.substr(0, text.size() - 1)));
                    (void)co_await read_until(streams.back(), "x");
                }
            }
            co_return Result<>();
        };
        if (GetParam()) {
            (void)co_await race(site.serve(std::move(listener)), leave());
            EXPECT_EQ(site.connections(), 0U);
        } else {
            (void)co_await race(plain.serve(guests(log)), leave());
            EXPECT_EQ(plain.connections(), 0U);
        }
    };
    run(body());
    EXPECT_TRUE(log.open.empty());
}

INSTANTIATE_TEST_SUITE_P(Servers, WebSocketCallbacks, ::testing::Bool(), [](const auto& info) {
    return info.param ? std::string("Http") : std::string("Plain");
});

} // namespace
