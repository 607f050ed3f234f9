#include <penstock/ws/topics.hpp>

#include <penstock/http/server.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/deflate.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/upgrade.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"

namespace {

using namespace penstock;
using namespace std::chrono_literals;
using penstock::testing::expect;
using ws::SharedMessage;
using ws::SlowReader;
using ws::Subscriber;
using ws::Topics;
using ws::WebSocket;

/// "+a" subscribes to a, "-a" unsubscribes, "a:text" publishes; each is answered after it was done.
Task<Result<>> obey(WebSocket& socket, Subscriber& self) {
    for (;;) {
        const ws::Message message = co_await unwrap(socket.receive());
        const std::string command(message.text());
        if (command.starts_with('+')) {
            const bool done = self.subscribe(command.substr(1));
            co_await unwrap(socket.send_text(done ? "subscribed" : "no"));
        } else if (command.starts_with('-')) {
            const bool done = self.unsubscribe(command.substr(1));
            co_await unwrap(socket.send_text(done ? "unsubscribed" : "no"));
        } else {
            const std::size_t colon = command.find(':');
            self.topics().publish(command.substr(0, colon), command.substr(colon + 1));
        }
    }
}

/// Runs `clients(url)` beside a `ws::Server` with this handler.
template <typename Clients>
void with_server(const ws::Handler& handler, Clients clients, ws::ServerOptions options = {}) {
    const auto body = [&]() -> Task<void> {
        ws::Server server =
            expect(ws::Server::listen(net::Endpoint::loopback(0), std::move(options)));
        const auto work = [&]() -> Task<Result<>> {
            co_await clients("ws://127.0.0.1:" +
                             std::to_string(expect(server.local_endpoint()).port()));
            server.shutdown(5s);
            co_return Result<>();
        };
        expect(co_await all(server.serve(handler), work()));
    };
    run(body());
}

Task<std::string> next(WebSocket& socket) {
    co_return std::string(expect(co_await socket.receive()).text());
}

Task<void> tell(WebSocket& socket, std::string text, std::string answer) {
    expect(co_await socket.send_text(text));
    EXPECT_EQ(co_await next(socket), answer);
}

TEST(Topics, SubscribersGetWhatIsPublishedInItsOrder) {
    Topics topics;
    with_server(ws::with_topics(topics, obey), [&](std::string url) -> Task<void> {
        std::vector<WebSocket> all;
        for (int i = 0; i < 20; ++i) {
            all.push_back(expect(co_await WebSocket::connect(url)));
            co_await tell(all.back(), i % 2 == 0 ? "+even" : "+odd", "subscribed");
        }
        EXPECT_EQ(topics.subscribers("even"), 10U);
        EXPECT_EQ(topics.publish("even", "one"), 10U);
        EXPECT_EQ(topics.publish("even", "two"), 10U);
        EXPECT_EQ(topics.publish("nobody", "three"), 0U);
        EXPECT_EQ(topics.publish("odd", SharedMessage::binary(Bytes("four"))), 10U);
        for (std::size_t i = 0; i < all.size(); i += 2) {
            EXPECT_EQ(co_await next(all[i]), "one");
            EXPECT_EQ(co_await next(all[i]), "two");
            const ws::Message binary = expect(co_await all[i + 1].receive());
            EXPECT_FALSE(binary.is_text());
            EXPECT_EQ(binary.text(), "four");
        }
    });
    EXPECT_EQ(topics.subscribers("even"), 0U);
    EXPECT_EQ(topics.subscribers("odd"), 0U);
}

TEST(Topics, AHandlerMayPublishToItselfAndUnsubscribe) {
    Topics topics;
    with_server(ws::with_topics(topics, obey), [&](std::string url) -> Task<void> {
        WebSocket one = expect(co_await WebSocket::connect(url));
        WebSocket two = expect(co_await WebSocket::connect(url));
        co_await tell(one, "+a", "subscribed");
        co_await tell(one, "+a", "no");
        co_await tell(one, "+b", "subscribed");
        co_await tell(two, "+a", "subscribed");
        co_await tell(one, "a:self", "self");
        EXPECT_EQ(co_await next(two), "self");
        co_await tell(one, "-a", "unsubscribed");
        co_await tell(one, "-a", "no");
        EXPECT_EQ(topics.subscribers("a"), 1U);
        EXPECT_EQ(topics.publish("a", "x"), 1U);
        EXPECT_EQ(topics.publish("b", "y"), 1U);
        EXPECT_EQ(co_await next(one), "y");
        EXPECT_EQ(co_await next(two), "x");
    });
}

TEST(Topics, WorkBehindAnHttpServer) {
    Topics topics;
    const auto body = [&]() -> Task<void> {
        http::Server server;
        server.upgrade("/chat", "websocket", ws::upgrade_handler(ws::with_topics(topics, obey)));
        net::TcpListener listener = penstock::testing::listen_on_loopback();
        const std::uint16_t port = expect(listener.local_endpoint()).port();
        const auto work = [&]() -> Task<Result<>> {
            WebSocket socket = expect(
                co_await WebSocket::connect("ws://127.0.0.1:" + std::to_string(port) + "/chat"));
            co_await tell(socket, "+a", "subscribed");
            EXPECT_EQ(topics.publish("a", "news"), 1U);
            EXPECT_EQ(co_await next(socket), "news");
            expect(co_await socket.close());
            server.stop(5s);
            co_return Result<>();
        };
        expect(co_await all(server.serve(std::move(listener)), work()));
    };
    run(body());
}

TEST(Topics, CompressedAndPlainConnectionsShareAMessage) {
    Topics topics;
    ws::ServerOptions options;
    options.accept.compression = ws::deflate({.threshold = 1});
    with_server(
        ws::with_topics(topics, obey),
        [&](std::string url) -> Task<void> {
            std::vector<WebSocket> all;
            all.push_back(expect(co_await WebSocket::connect(url)));
            for (const bool forgets : {false, true}) {
                for (const int bits : {15, 9}) {
                    ws::DeflateOptions with;
                    with.parameters.server_max_window_bits = bits;
                    with.parameters.server_no_context_takeover = forgets;
                    all.push_back(expect(
                        co_await WebSocket::connect(url, {.compression = ws::deflate(with)})));
                }
            }
            const std::string text = "the same words, the same words, the same words";
            for (WebSocket& socket : all) {
                co_await tell(socket, "+a", "subscribed");
            }
            // Own messages between the shared ones: each end's window must stay in step.
            for (int round = 0; round < 5; ++round) {
                const std::string message = text + std::to_string(round);
                EXPECT_EQ(topics.publish("a", message), all.size());
                for (WebSocket& socket : all) {
                    EXPECT_EQ(co_await next(socket), message);
                    co_await tell(socket, "+a", "no");
                    co_await tell(socket, "+" + text, round == 0 ? "subscribed" : "no");
                }
            }
        },
        std::move(options));
}

/// What a subscriber says that has published 10 messages of 10 bytes to itself while it did not
/// wait, so that none could be sent.
struct Slow {
    std::vector<std::string> received;
    std::uint64_t dropped = 0;
    std::uint16_t code = 0;
};

Slow slow_reader(const ws::SubscriberOptions& options) {
    Topics topics;
    Slow slow;
    const auto handler = [&](WebSocket& socket, Subscriber& self) -> Task<Result<>> {
        self.subscribe("a");
        self.subscribe("b");
        (void)co_await unwrap(socket.receive());
        for (int i = 0; i < 10; ++i) {
            topics.publish(i % 2 == 0 ? "a" : "b", "message " + std::to_string(i) + ".");
        }
        slow.dropped = self.dropped();
        (void)co_await unwrap(socket.receive()); // what waits is sent meanwhile
        co_return Result<>();
    };
    with_server(ws::with_topics(topics, handler, options), [&](std::string url) -> Task<void> {
        WebSocket socket = expect(co_await WebSocket::connect(url));
        expect(co_await socket.send_text("begin"));
        for (std::size_t left = options.maximum_messages; left > 0; --left) {
            const Result<ws::Message> message = co_await socket.receive();
            if (!message) {
                slow.code = socket.close_code();
                co_return;
            }
            slow.received.emplace_back(message->text());
        }
        expect(co_await socket.send_text("end"));
        (void)co_await socket.receive();
        slow.code = socket.close_code();
    });
    return slow;
}

TEST(SlowReaders, TheNewestMessagesAreDropped) {
    const Slow slow = slow_reader({.slow_reader = SlowReader::drop_newest, .maximum_messages = 2});
    EXPECT_EQ(slow.received, (std::vector<std::string>{"message 0.", "message 1."}));
    EXPECT_EQ(slow.dropped, 8U);
    EXPECT_EQ(slow.code, ws::close_code::normal);
}

TEST(SlowReaders, TheOldestMessagesAreDropped) {
    const Slow slow = slow_reader(
        {.slow_reader = SlowReader::drop_oldest, .maximum_backlog = 25, .maximum_messages = 2});
    EXPECT_EQ(slow.received, (std::vector<std::string>{"message 8.", "message 9."}));
    EXPECT_EQ(slow.dropped, 8U);
}

TEST(SlowReaders, OnlyTheLastMessageOfATopicIsKept) {
    const Slow slow = slow_reader({.slow_reader = SlowReader::coalesce, .maximum_messages = 2});
    EXPECT_EQ(slow.received, (std::vector<std::string>{"message 8.", "message 9."}));
    EXPECT_EQ(slow.dropped, 8U);
}

TEST(SlowReaders, AreClosedByDefault) {
    const Slow slow = slow_reader({.maximum_messages = 2});
    EXPECT_TRUE(slow.received.empty());
    EXPECT_EQ(slow.dropped, 10U);
    EXPECT_EQ(slow.code, 1013);
}

TEST(SlowReaders, AreClosedWhileASendWaitsForThem) {
    Topics topics;
    std::vector<std::error_code> errors;
    ws::ServerOptions options;
    options.on_error = [&](std::error_code error) { errors.push_back(error); };
    options.accept.limits.close = 100ms;
    const std::string large(1'000'000, 'x');
    with_server(
        ws::with_topics(topics, obey),
        [&](std::string url) -> Task<void> {
            WebSocket socket = expect(co_await WebSocket::connect(url));
            co_await tell(socket, "+a", "subscribed");
            while (topics.publish("a", large) > 0 || topics.subscribers("a") > 0) {
                expect(co_await yield()); // it takes nothing, so the buffers get full
            }
        },
        std::move(options));
    EXPECT_TRUE(errors.empty());
}

TEST(SharedMessages, AreSentByAClientToo) {
    const auto echo = [](WebSocket& socket) -> Task<Result<>> {
        for (;;) {
            co_await unwrap(socket.send(co_await unwrap(socket.receive())));
        }
    };
    with_server(echo, [&](std::string url) -> Task<void> {
        WebSocket socket = expect(co_await WebSocket::connect(url));
        const SharedMessage message = SharedMessage::text("masked");
        EXPECT_TRUE(message.is_text());
        expect(co_await socket.send(message));
        EXPECT_EQ(co_await next(socket), "masked");
        expect(co_await socket.send(message));
        EXPECT_EQ(co_await next(socket), "masked");
    });
}

} // namespace
