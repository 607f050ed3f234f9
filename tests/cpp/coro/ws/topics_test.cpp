#include <penstock/ws/topics.hpp>

#include <penstock/http/server.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>
#include <penstock/ws/deflate.hpp>
#include <penstock/ws/errors.hpp>
#include <penstock/ws/server.hpp>
#include <penstock/ws/upgrade.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "coro/support/tcp_pair.hpp"
#include "support/watchdog.hpp"

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

TEST(Topics, AMessageThatIsBeingSentIsNotCutByTheEndOfTheConversation) {
    Topics topics;
    const std::string large(8'000'000, 'x');
    const auto handler = [&](WebSocket& socket, Subscriber& self) -> Task<Result<>> {
        self.subscribe("a");
        (void)co_await unwrap(socket.receive());
        topics.publish("a", large);
        (void)co_await unwrap(socket.receive());
        co_return Result<>();
    };
    with_server(ws::with_topics(topics, handler), [&](std::string url) -> Task<void> {
        WebSocket socket = expect(co_await WebSocket::connect(url));
        expect(co_await socket.send_text("begin"));
        std::size_t size = expect(co_await socket.receive_part()).payload.size();
        EXPECT_LT(size, large.size());
        expect(co_await socket.send_text("end"));
        for (bool last = false; !last;) {
            const ws::MessagePart part = expect(co_await socket.receive_part());
            size += part.payload.size();
            last = part.last;
        }
        EXPECT_EQ(size, large.size());
        EXPECT_EQ((co_await socket.receive_part()).error(), ws::Error::closed);
        EXPECT_EQ(socket.close_code(), ws::close_code::normal);
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

/// Counts what it gets, topic by topic, and which it has left.
class Member final : public ws::detail::TopicMember {
public:
    Member() = default;
    ~Member() = default;
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    std::vector<std::string> got;
    int left = 0;

private:
    bool take(const void* /*topic*/, const SharedMessage& message) override {
        got.emplace_back(reinterpret_cast<const char*>(message.payload().data()),
                         message.payload().size());
        return true;
    }
    void forget(const void* /*topic*/) noexcept override { ++left; }
};

/// Against a list of pairs, in random steps: few members in many topics, many in few, and both.
TEST(TopicMembers, AreWhereTheyHaveSubscribed) {
    struct Case {
        std::size_t members;
        std::size_t topics;
    };
    std::minstd_rand random(7); // NOLINT(bugprone-random-generator-seed): repeatable
    for (const Case& each : {Case{.members = 3, .topics = 60}, Case{.members = 60, .topics = 3},
                             Case{.members = 20, .topics = 20}}) {
        Topics topics;
        std::vector<std::unique_ptr<Member>> members(each.members);
        std::set<std::pair<std::size_t, std::size_t>> model; // topic, member
        const auto name_of = [](std::size_t topic) { return "topic " + std::to_string(topic); };
        for (int step = 0; step < 4000; ++step) {
            const std::size_t topic = random() % each.topics;
            const std::size_t number = random() % each.members;
            std::unique_ptr<Member>& member = members[number];
            if (!member) {
                member = std::make_unique<Member>();
            }
            switch (random() % 16) {
            case 0:
                member.reset();
                std::erase_if(model, [&](const auto& pair) { return pair.second == number; });
                break;
            case 1:
            case 2:
            case 3:
            case 4:
                EXPECT_EQ(member->unsubscribe(topics, name_of(topic)),
                          model.erase({topic, number}) == 1);
                break;
            default:
                EXPECT_EQ(member->subscribe(topics, name_of(topic)),
                          model.insert({topic, number}).second);
            }
            const std::size_t last = random() % each.topics;
            const auto begin = model.lower_bound({last, 0});
            const auto end = model.lower_bound({last + 1, 0});
            ASSERT_EQ(topics.publish(name_of(last), std::to_string(step)),
                      static_cast<std::size_t>(std::distance(begin, end)));
            for (auto pair = begin; pair != end; ++pair) {
                ASSERT_EQ(members[pair->second]->got.back(), std::to_string(step));
            }
        }
        members.clear();
        for (std::size_t topic = 0; topic < each.topics; ++topic) {
            EXPECT_EQ(topics.subscribers(name_of(topic)), 0U);
        }
    }
}

/// With a search through the members of the topic, or the topics of the member, for each of them,
/// this takes minutes.
TEST(TopicMembers, ComeAndGoInConstantTime) {
    const penstock::testing::Watchdog watchdog;
    constexpr std::size_t many = 100'000;
    Topics topics;
    std::vector<Member> members(many);
    for (Member& each : members) {
        EXPECT_TRUE(each.subscribe(topics, "all"));
    }
    EXPECT_EQ(topics.subscribers("all"), many);
    for (std::size_t i = many; i > 0; --i) { // the newest are found last
        EXPECT_TRUE(members[i - 1].unsubscribe(topics, "all"));
    }
    EXPECT_EQ(topics.subscribers("all"), 0U);
    for (std::size_t i = 0; i < many; ++i) {
        EXPECT_TRUE(members[0].subscribe(topics, std::to_string(i)));
    }
    for (std::size_t i = 0; i < many; ++i) {
        EXPECT_TRUE(members[0].unsubscribe(topics, std::to_string(i)));
    }
    EXPECT_EQ(members[0].left, static_cast<int>(many + 1));
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
