// Connections whose operations are cancelled at random, from a seed. Every message that arrives is
// one that was sent, in order and whole; every operation ends.

#include <penstock/ws/server.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include <penstock/event_loop.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/deflate.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/stress.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::EventLoop;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;
using penstock::net::Endpoint;
using penstock::testing::expect;
using penstock::testing::Stress;
using penstock::testing::Watchdog;
using penstock::ws::Message;
using penstock::ws::MessagePart;
using penstock::ws::Server;
using penstock::ws::WebSocket;

/// Beyond the kernel's buffers, so that sends wait.
constexpr std::size_t largest = 3'000'000;

/// Message `number` of a connection: its number, and letters that depend on it.
std::string message(unsigned number, std::size_t size) {
    std::string text = std::to_string(number) + ":";
    text.resize(text.size() + size, static_cast<char>('a' + number % 26));
    return text;
}

/// Each received message is whole, and later than the one before.
class Order {
public:
    void check(std::string_view text) {
        const std::size_t colon = text.find(':');
        ASSERT_NE(colon, std::string_view::npos);
        const auto number = static_cast<unsigned>(std::stoul(std::string(text.substr(0, colon))));
        EXPECT_GT(number + 1, next_);
        next_ = number + 1;
        EXPECT_EQ(text.find_first_not_of(static_cast<char>('a' + number % 26), colon + 1),
                  std::string_view::npos);
    }

private:
    unsigned next_ = 0;
};

std::chrono::microseconds patience(std::mt19937& random) {
    return std::chrono::microseconds(random() % 300);
}

bool impatient(const auto& result) {
    return !result && result.error() == std::errc::timed_out;
}

/// Sends until the connection is broken, with random patience.
Task<Result<>> send_some(WebSocket& socket, std::mt19937& random, unsigned& number) {
    for (int i = 0; i < 20; ++i) {
        const std::size_t size = random() % 8 == 0 ? random() % largest : random() % 2000;
        const std::string text = message(number++, size);
        Result<> sent;
        switch (random() % 4) {
        case 0: {
            auto writer = co_await penstock::timeout(patience(random), socket.begin_text());
            if (writer) {
                const std::string_view view = text;
                sent = co_await penstock::timeout(patience(random),
                                                  writer->write(view.substr(0, view.size() / 2)));
                if (sent) {
                    sent = co_await penstock::timeout(patience(random),
                                                      writer->finish(view.substr(view.size() / 2)));
                }
            }
            break;
        }
        case 1:
            sent = co_await penstock::timeout(patience(random), socket.ping("ping"));
            break;
        default:
            sent = co_await penstock::timeout(patience(random), socket.send_text(text));
        }
        if (!sent && !impatient(sent)) {
            co_return Result<>();
        }
    }
    co_return Result<>();
}

/// Receives until the end of the connection, with random patience, and now and then slowly.
/// `closing`: a close of this end may have dropped messages.
Task<Result<>> receive_all(WebSocket& socket, std::mt19937& random, const bool& closing) {
    Order order;
    std::string parts;
    bool by_parts = false;
    bool begun = false; // parts of a message are here
    for (;;) {
        if (random() % 16 == 0) { // what the peer sends meanwhile waits at its end
            (void)co_await penstock::sleep_for(std::chrono::microseconds(random() % 3000));
        }
        if (parts.empty() && !by_parts && random() % 2 == 0) {
            const auto received = co_await penstock::timeout(patience(random), socket.receive());
            if (received) {
                order.check(received->text());
            } else if (received.error() == std::errc::operation_in_progress) {
                by_parts = true;
            } else if (!impatient(received)) {
                co_return Result<>();
            }
            continue;
        }
        const auto part = co_await penstock::timeout(patience(random), socket.receive_part());
        if (part) {
            if (part->first) { // a cancelled close drops the rest of a message that it met
                EXPECT_TRUE(!begun || closing);
                parts.clear();
            }
            EXPECT_TRUE(part->first || begun);
            parts.append(reinterpret_cast<const char*>(part->payload.data()), part->payload.size());
            by_parts = begun = !part->last;
            if (part->last) {
                order.check(std::exchange(parts, {}));
            }
        } else if (part.error() == std::errc::operation_in_progress) {
            by_parts = false;
            const auto received = co_await socket.receive(); // begun before
            if (!received) {
                co_return Result<>();
            }
            order.check(received->text());
        } else if (!impatient(part)) {
            co_return Result<>();
        }
    }
}

Task<Result<>> live(WebSocket& socket, std::mt19937& random) {
    unsigned number = 0;
    bool closing = false;
    const auto sending = [&]() -> Task<Result<>> {
        co_await unwrap(send_some(socket, random, number));
        closing = true;
        (void)co_await penstock::timeout(patience(random), socket.close());
        if (random() % 2 == 0) {
            socket.next_layer().close();
        } else {
            (void)co_await socket.next_layer().shutdown();
        }
        co_return Result<>();
    };
    (void)co_await penstock::all(sending(), receive_all(socket, random, closing));
    co_return Result<>();
}

TEST(WebSocketStorm, RandomCancellationBreaksNothingElse) {
    const Stress stress(4);
    const Watchdog watchdog(Stress::patience());
    for (unsigned seed = stress.first; seed < stress.end; ++seed) {
        std::mt19937 random(seed);
        const auto program = [&]() -> Task<> {
            penstock::ws::Limits limits{.message = 2 * largest,
                                        .close = 20ms,
                                        .ping_interval = std::chrono::milliseconds(seed % 3),
                                        .ping_timeout = 50ms};
            penstock::ws::ServerOptions options{.accept = {.limits = limits}};
            if (seed % 2 == 1) {
                options.accept.compression = penstock::ws::deflate({.level = 1});
            }
            Server server = expect(Server::listen(Endpoint::loopback(0), std::move(options)));
            const std::string url =
                "ws://127.0.0.1:" + std::to_string(expect(server.local_endpoint()).port());
            const auto handler = [&](WebSocket& socket) { return live(socket, random); };
            const auto ask = [&]() -> Task<Result<>> {
                auto socket = co_await penstock::timeout(
                    patience(random) + 500us,
                    WebSocket::connect(url, {.compression = penstock::ws::deflate({.level = 1}),
                                             .limits = limits}));
                co_return socket ? co_await live(*socket, random) : Result<>();
            };
            const auto asking = [&]() -> Task<Result<>> {
                for (int round = 0; round < 3; ++round) {
                    co_await unwrap(penstock::all(ask(), ask(), ask(), ask()));
                }
                server.shutdown(1ms);
                co_return Result<>();
            };
            expect(co_await penstock::all(server.serve(handler), asking()));
            EXPECT_EQ(server.connections(), 0U);
        };
        EventLoop loop(EventLoop::Options{.shuffle_seed = seed});
        loop.run(program());
        EXPECT_TRUE(loop.timers().empty());
    }
}

} // namespace
