// Messages that are received and sent without a task, and each way in which such an operation goes
// on in a task.

#include <penstock/ws/web_socket.hpp>

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/codec/websocket/frame.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/any.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/task_trace.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/request.hpp"
#include "support/allocated_bytes.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Bytes;
using penstock::EventLoop;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::net::TcpStream;
using penstock::testing::connect_pair;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::plain_frame;
using penstock::testing::TcpPair;
using penstock::testing::turns;
using penstock::testing::Watchdog;
using penstock::ws::Error;
using penstock::ws::Limits;
using penstock::ws::Message;
using penstock::ws::WebSocket;

static_assert(penstock::Operation<WebSocket::Receive>);
static_assert(penstock::Operation<WebSocket::Send>);
static_assert(std::same_as<penstock::Awaited<WebSocket::Receive>, Result<Message>>);
static_assert(std::same_as<penstock::Awaited<WebSocket::Send>, Result<>>);

/// More than the kernel's buffers of a connection.
constexpr std::size_t large_size = 20'000'000;

/// A server over TCP whose client is the test itself.
struct Raw {
    TcpStream client;
    WebSocket server;
};

/// By default, without an end to the patience, and with a timer for each wait to receive. Without
/// one for writes: a write also waits after a slow step, so on a slow machine there would be one
/// more.
Task<Raw> open_raw(Limits limits = {.ping_interval = 1h}) {
    limits.write = Limits::no_time;
    TcpPair pair = co_await connect_pair();
    expect(co_await pair.near.write_all(penstock::testing::request));
    WebSocket server = expect(
        co_await WebSocket::accept(penstock::AnyStream(std::move(pair.far)), {.limits = limits}));
    std::array<char, 1024> head{};
    EXPECT_GT(expect(co_await pair.near.read(head)), 0U);
    co_return Raw{std::move(pair.near), std::move(server)};
}

std::size_t timers() {
    return EventLoop::current().timers().size();
}

/// Whether a receive of some task goes on in a task of its own.
bool one_receives_in_a_task() {
    return penstock::trace_tasks(EventLoop::current()).find("receive_rest") != std::string::npos;
}

Task<> until_one_receives_in_a_task() {
    while (!one_receives_in_a_task()) {
        co_await turns(1);
    }
}

Task<Result<std::string>> read_text(TcpStream& stream, std::size_t size) {
    std::string text(size, ' ');
    co_await unwrap(stream.read_exactly(text));
    co_return text;
}

Task<Result<std::string>> receive_text(WebSocket& socket) {
    const Message message = co_await unwrap(socket.receive());
    co_return std::string(message.text());
}

/// What a receive returns.
struct Outcome {
    std::string text;
    std::error_code error;
};

Task<Result<>> store(WebSocket& socket, Outcome& outcome) {
    const Result<Message> received = co_await socket.receive();
    if (received) {
        outcome.text = received->text();
    } else {
        outcome.error = received.error();
    }
    co_return Result<>();
}

TEST(WebSocketDirect, AWaitingReceiveIsATaskOnlyInsideAMessage) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "hi");
            co_return co_await raw.server.send_text("ho");
        };
        const auto looking = [&]() -> Task<Result<>> {
            co_await turns(4);
            EXPECT_FALSE(one_receives_in_a_task());
            EXPECT_EQ(timers(), 1U);
            co_await unwrap(raw.client.write_all(frame(Opcode::text, "h", false)));
            co_await until_one_receives_in_a_task();
            co_await unwrap(raw.client.write_all(frame(Opcode::continuation, "i")));
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 4)), plain_frame(Opcode::text, "ho"));
            co_return Result<>();
        };
        expect(co_await penstock::all(receiving(), looking()));
    };
    run(program());
}

/// Input for one receive, and its result.
struct Case {
    std::string_view name;
    std::vector<std::string> reads; ///< what each read of the socket gets
    std::string text;
    std::error_code error;
    std::string answer; ///< the first bytes that the server sends, before the text "end"
};

std::vector<Case> cases() {
    const std::string whole = frame(Opcode::text, "whole");
    const std::string kilobytes(60'000, 'k');
    return {
        {"whole", {whole}, "whole", {}, ""},
        {"empty", {frame(Opcode::binary, "")}, "", {}, ""},
        {"16-bit length", {frame(Opcode::binary, kilobytes)}, kilobytes, {}, ""},
        {"64-bit length",
         {frame(Opcode::binary, std::string(70'000, 'm'))},
         std::string(70'000, 'm'),
         {},
         ""},
        {"half a header", {whole.substr(0, 1), whole.substr(1)}, "whole", {}, ""},
        {"half a frame", {whole.substr(0, 8), whole.substr(8)}, "whole", {}, ""},
        {"fragments",
         {frame(Opcode::text, "wh", false) + frame(Opcode::continuation, "ole")},
         "whole",
         {},
         ""},
        {"fragments in reads",
         {frame(Opcode::text, "wh", false), frame(Opcode::continuation, "ole")},
         "whole",
         {},
         ""},
        {"ping before",
         {frame(Opcode::ping, "p") + whole},
         "whole",
         {},
         plain_frame(Opcode::pong, "p")},
        {"ping alone",
         {frame(Opcode::ping, "p"), whole},
         "whole",
         {},
         plain_frame(Opcode::pong, "p")},
        {"pong alone", {frame(Opcode::pong, "p"), whole}, "whole", {}, ""},
        {"ping in a message",
         {frame(Opcode::text, "wh", false) + frame(Opcode::ping, "p"),
          frame(Opcode::continuation, "ole")},
         "whole",
         {},
         plain_frame(Opcode::pong, "p")},
        {"not UTF-8",
         {frame(Opcode::text, "\xff")},
         "",
         Error::invalid_payload,
         plain_frame(Opcode::close, "\x03\xef"
                                    "text is not UTF-8")},
        {"not masked", {plain_frame(Opcode::text, "x")}, "", Error::protocol_violation, "\x88"},
        {"close",
         {frame(Opcode::close, std::string_view("\x03\xe8", 2))},
         "",
         Error::closed,
         std::string("\x88\x02\x03\xe8", 4)},
    };
}

/// Whether the input is there before the receive begins, or arrives while it waits.
void expect_cases(bool before) {
    for (const Case& each : cases()) {
        const auto program = [&]() -> Task<> {
            Raw raw = co_await open_raw();
            Outcome outcome;
            const auto sending = [&]() -> Task<Result<>> {
                for (const std::string& read : each.reads) {
                    co_await turns(4); // so that the reads are several
                    co_await unwrap(raw.client.write_all(read));
                }
                co_return Result<>();
            };
            if (before) {
                expect(co_await sending());
                expect(co_await store(raw.server, outcome));
            } else {
                expect(co_await penstock::all(store(raw.server, outcome), sending()));
            }
            EXPECT_EQ(timers(), 0U) << each.name;
            EXPECT_TRUE(outcome.text == each.text) << each.name;
            EXPECT_EQ(outcome.error, each.error) << each.name;
            if (!each.error) {
                expect(co_await raw.server.send_text("end"));
            }
            raw.server.next_layer().close();
            const std::string sent = expect(co_await penstock::read_all_text(raw.client));
            EXPECT_TRUE(sent.starts_with(each.answer)) << each.name << ": " << sent;
            EXPECT_EQ(sent.ends_with(plain_frame(Opcode::text, "end")), !each.error) << each.name;
        };
        run(program());
    }
}

TEST(WebSocketDirect, ReceivesEverythingThatArrivesWhileItWaits) {
    const Watchdog watchdog;
    expect_cases(false);
}

TEST(WebSocketDirect, ReceivesEverythingThatIsThere) {
    const Watchdog watchdog;
    expect_cases(true);
}

TEST(WebSocketDirect, MessagesOfOneReadAreReceivedInOrder) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        std::string frames;
        for (int i = 0; i < 300; ++i) {
            frames += frame(Opcode::text, std::to_string(i));
            frames += i % 3 == 0 ? frame(Opcode::ping, std::to_string(i)) : std::string();
        }
        const auto receiving = [&]() -> Task<Result<>> {
            for (int i = 0; i < 300; ++i) {
                EXPECT_EQ(co_await unwrap(receive_text(raw.server)), std::to_string(i));
                co_await unwrap(raw.server.send_text("."));
            }
            co_return Result<>();
        };
        const auto reading = [&]() -> Task<Result<>> {
            std::size_t texts = 0;
            std::size_t pongs = 0;
            while (texts + pongs < 400) {
                const std::string head = co_await unwrap(read_text(raw.client, 2));
                pongs += head[0] == '\x8a' ? 1 : 0;
                texts += head[0] == '\x81' ? 1 : 0;
                (void)co_await unwrap(read_text(raw.client, static_cast<std::size_t>(head[1])));
            }
            EXPECT_EQ(texts, 300U);
            co_return Result<>();
        };
        expect(co_await penstock::all(receiving(), raw.client.write_all(frames), reading()));
    };
    run(program());
}

TEST(WebSocketDirect, ReadyMessagesDoNotStarveOtherTasks) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        std::string frames;
        for (int i = 0; i < 1000; ++i) {
            frames += frame(Opcode::binary, "x");
        }
        expect(co_await raw.client.write_all(frames));
        bool ended = false;
        const auto receiving = [&]() -> Task<Result<>> {
            for (int i = 0; i < 1000; ++i) {
                EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "x");
            }
            ended = true;
            co_return Result<>();
        };
        const auto counting = [&]() -> Task<Result<>> {
            int count = 0;
            while (!ended) {
                co_await turns(1);
                ++count;
            }
            EXPECT_GE(count, 10);
            co_return Result<>();
        };
        expect(co_await penstock::all(receiving(), counting()));
    };
    run(program());
}

/// Input after which a receive goes on in a task and waits there.
std::vector<std::string> beginnings() {
    return {frame(Opcode::ping, "p"), frame(Opcode::pong, "p"), frame(Opcode::text, "h", false),
            frame(Opcode::text, "half").substr(0, 7), frame(Opcode::text, "half").substr(0, 1)};
}

TEST(WebSocketDirect, NoTimerIsLeftWhenAReceiveGoesOnInATask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const std::string& beginning : beginnings()) {
            Raw raw = co_await open_raw();
            Outcome outcome;
            const auto disturbing = [&]() -> Task<Result<>> {
                co_await turns(2);
                EXPECT_EQ(timers(), 1U);
                co_await unwrap(raw.client.write_all(beginning));
                co_await until_one_receives_in_a_task();
                EXPECT_EQ(timers(), 1U) << "the one of the task";
                raw.server.next_layer().close();
                co_return Result<>();
            };
            expect(co_await penstock::all(store(raw.server, outcome), disturbing()));
            EXPECT_EQ(outcome.error, std::errc::operation_canceled);
            EXPECT_EQ(timers(), 0U);
        }
    };
    run(program());
}

TEST(WebSocketDirect, AStreamMayCloseWhileASilentPeerIsPinged) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw({.ping_interval = 1ms, .ping_timeout = 1h});
        Outcome outcome;
        const auto disturbing = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), plain_frame(Opcode::ping, ""));
            co_await until_one_receives_in_a_task();
            EXPECT_EQ(timers(), 1U);
            raw.server.next_layer().close();
            co_return Result<>();
        };
        expect(co_await penstock::all(store(raw.server, outcome), disturbing()));
        EXPECT_EQ(outcome.error, std::errc::operation_canceled);
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, AMessageAnswersAPing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw({.ping_interval = 1ms, .ping_timeout = 1h});
        const auto answering = [&]() -> Task<Result<>> {
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(co_await unwrap(read_text(raw.client, 2)), plain_frame(Opcode::ping, ""));
                co_await unwrap(raw.client.write_all(frame(Opcode::text, "here")));
            }
            co_return Result<>();
        };
        const auto receiving = [&]() -> Task<Result<>> {
            for (int i = 0; i < 3; ++i) {
                EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "here");
            }
            co_return Result<>();
        };
        expect(co_await penstock::all(answering(), receiving()));
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, AConnectionThatWaitsKeepsNothingOfAPing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        constexpr std::size_t count = 20;
        std::vector<Raw> raws;
        for (std::size_t i = 0; i < count; ++i) {
            raws.push_back(co_await open_raw());
        }
        const auto receive = [](WebSocket& socket) -> Task<Result<>> {
            EXPECT_EQ((co_await socket.receive()).error(), std::errc::operation_canceled);
            co_return Result<>();
        };
        const auto receive_in_tasks = [] {
            const std::string trace = penstock::trace_tasks(EventLoop::current());
            std::size_t found = 0;
            for (std::size_t at = trace.find("receive_rest"); at != std::string::npos;
                 at = trace.find("receive_rest", at + 1)) {
                ++found;
            }
            return found;
        };
        (void)co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<Result<>> {
            for (Raw& raw : raws) {
                scope.spawn(receive(raw.server));
            }
            for (Raw& raw : raws) { // so that all wait in a task from here on
                co_await unwrap(raw.client.write_all(frame(Opcode::pong, "")));
            }
            while (receive_in_tasks() < count) {
                co_await turns(1);
            }
            const auto ping = [](Raw& raw) -> Task<Result<>> {
                co_await unwrap(raw.client.write_all(frame(Opcode::ping, "p")));
                EXPECT_EQ(co_await unwrap(read_text(raw.client, 3)),
                          plain_frame(Opcode::pong, "p"));
                co_return Result<>();
            };
            co_await unwrap(ping(raws.front())); // what all connections share is allocated now
            co_await turns(4);
            const std::size_t before = penstock::testing::allocated_bytes();
            for (std::size_t i = 1; i < count; ++i) {
                co_await unwrap(ping(raws[i]));
            }
            co_await turns(4);
            EXPECT_LT(penstock::testing::allocated_bytes(), before + count * 100);
            scope.cancel();
            co_return Result<>();
        });
    };
    run(program());
}

TEST(WebSocketDirect, OneTaskAtATimeReceives) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "in parts");
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "next");
            co_return Result<>();
        };
        const auto intruding = [&]() -> Task<Result<>> {
            co_await turns(2);
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::device_or_resource_busy);
            co_await unwrap(raw.client.write_all(frame(Opcode::text, "in ", false)));
            co_await until_one_receives_in_a_task();
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::device_or_resource_busy);
            EXPECT_EQ((co_await raw.server.receive_part()).error(),
                      std::errc::device_or_resource_busy);
            co_return co_await raw.client.write_all(frame(Opcode::continuation, "parts") +
                                                    frame(Opcode::text, "next"));
        };
        expect(co_await penstock::all(receiving(), intruding()));
        {
            const auto dropped = raw.server.receive(); // never awaited
        }
        expect(co_await raw.client.write_all(frame(Opcode::text, "last")));
        EXPECT_EQ(expect(co_await receive_text(raw.server)), "last");
        expect(co_await raw.client.write_all(frame(Opcode::text, "1", false)));
        EXPECT_EQ(expect(co_await raw.server.receive_part()).last, false);
        EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::operation_in_progress);
    };
    run(program());
}

TEST(WebSocketDirect, ACancelledReceiveLosesNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.receive())).error(),
                  std::errc::timed_out);
        EXPECT_EQ(timers(), 0U);
        const std::string bytes = frame(Opcode::text, "first ", false) + frame(Opcode::ping, "p") +
                                  frame(Opcode::continuation, "second");
        const auto turns_then_end = []() -> Task<Result<>> {
            co_await turns(4);
            co_return Result<>();
        };
        std::string received;
        for (const char& byte : bytes) { // each arrives alone, and a receive is cancelled after it
            expect(co_await raw.client.write_all(Bytes(&byte, 1)));
            auto outcome = co_await penstock::race(raw.server.receive(), turns_then_end());
            if (auto* message = std::get_if<0>(&outcome); message != nullptr && *message) {
                received = (*message)->text();
            }
            EXPECT_EQ(timers(), 0U);
        }
        if (received.empty()) {
            received = expect(co_await receive_text(raw.server));
        }
        EXPECT_EQ(received, "first second");
        expect(co_await raw.server.send_text("not broken"));
        raw.server.next_layer().close();
        EXPECT_EQ(expect(co_await penstock::read_all_text(raw.client)),
                  plain_frame(Opcode::pong, "p") + plain_frame(Opcode::text, "not broken"));
    };
    run(program());
}

TEST(WebSocketDirect, ACancelledTaskReceivesWhatIsThereAndSendsNothing) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        expect(co_await raw.client.write_all(frame(Opcode::text, "1") + frame(Opcode::text, "2")));
        EXPECT_EQ(expect(co_await receive_text(raw.server)), "1");
        const auto cancelled = [&]() -> Task<Result<>> {
            (void)co_await penstock::sleep_for(1h);
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "2");
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::operation_canceled);
            EXPECT_EQ((co_await raw.server.send_text("x")).error(), std::errc::operation_canceled);
            co_return Result<>();
        };
        (void)co_await penstock::timeout(1ms, cancelled());
        expect(co_await raw.server.send_text("y"));
        EXPECT_EQ(expect(co_await read_text(raw.client, 3)), plain_frame(Opcode::text, "y"));
    };
    run(program());
}

TEST(WebSocketDirect, EverythingAwaitsItsOperations) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        Raw raw = co_await open_raw();
        std::string frames;
        for (int i = 0; i < 8; ++i) {
            frames += frame(Opcode::text, "m");
        }
        co_await unwrap(raw.client.write_all(frames));
        WebSocket& server = raw.server;
        EXPECT_EQ((co_await unwrap(penstock::timeout(1h, server.receive()))).text(), "m");
        Task<Result<Message>> task = server.receive();
        EXPECT_EQ((co_await unwrap(std::move(task))).text(), "m");
        auto operation = server.receive();
        auto moved = std::move(operation);
        EXPECT_EQ((co_await moved)->text(), "m");
        EXPECT_EQ(
            std::get<0>(co_await penstock::race(server.receive(), penstock::sleep_for(1h)))->text(),
            "m");
        EXPECT_EQ(
            std::get<0>(co_await penstock::all_settled(server.receive(), server.send_text("s")))
                ->text(),
            "m");
        (void)co_await unwrap(penstock::any(server.receive(), penstock::sleep_for(1h)));
        penstock::Canceller canceller;
        (void)co_await unwrap(penstock::cancellable(canceller, server.receive()));
        auto [message, sent] =
            co_await unwrap(penstock::all(server.receive(), server.send_text("s")));
        EXPECT_EQ(message.text(), "m");
        Task<Result<>> sending = server.send_binary("s");
        co_await unwrap(std::move(sending));
        co_await unwrap(penstock::with_scope([&](penstock::Scope& scope) -> Task<Result<>> {
            scope.spawn(server.send_text("s"));
            co_return Result<>();
        }));
        EXPECT_EQ((co_await unwrap(read_text(raw.client, 12))).size(), 12U);
        co_return Result<>();
    };
    expect(run(program()));
}

TEST(WebSocketDirect, AReceivedMessageStaysAfterItWasSentBack) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        for (const std::size_t size : {0, 1, 125, 126, 5000, 65535}) {
            const std::string text(size, 'e');
            expect(co_await raw.client.write_all(frame(Opcode::binary, text) +
                                                 frame(Opcode::text, "behind")));
            const Message message = expect(co_await raw.server.receive());
            for (int i = 0; i < 2; ++i) {
                expect(co_await raw.server.send(message));
                EXPECT_TRUE(message.text() == text) << size;
                const std::string expected = plain_frame(Opcode::binary, text);
                EXPECT_TRUE(expect(co_await read_text(raw.client, expected.size())) == expected);
            }
            EXPECT_EQ(expect(co_await receive_text(raw.server)), "behind");
        }
    };
    run(program());
}

TEST(WebSocketDirect, AMessageThatTheSocketDoesNotTakeIsFinishedInATask) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool by_server : {true, false}) {
            TcpPair pair = co_await connect_pair();
            auto [client, server] = expect(co_await penstock::all(
                WebSocket::connect(penstock::AnyStream(std::move(pair.near)), "h", "/",
                                   {.limits = {.message = large_size}}),
                WebSocket::accept(penstock::AnyStream(std::move(pair.far)),
                                  {.limits = {.message = large_size}})));
            WebSocket& from = by_server ? server : client;
            WebSocket& to = by_server ? client : server;
            const std::string large(large_size, 'l');
            const auto receiving = [&]() -> Task<Result<>> {
                co_await turns(4);
                co_await unwrap(to.ping("p"));
                // The sender's receiver leaves the pong to the sender, behind the message.
                EXPECT_TRUE(co_await unwrap(receive_text(to)) == large);
                EXPECT_EQ(co_await unwrap(receive_text(to)), "second");
                EXPECT_EQ(co_await unwrap(receive_text(to)), "third");
                co_return co_await to.send_text("all");
            };
            const auto waiting = [&]() -> Task<Result<>> {
                EXPECT_EQ(co_await unwrap(receive_text(from)), "all");
                co_return Result<>();
            };
            expect(co_await penstock::all(from.send_text(large), from.send_text("second"),
                                          from.send_text("third"), receiving(), waiting()));
        }
    };
    run(program());
}

TEST(WebSocketDirect, APongWaitsForTheEndOfAMessageThatIsBeingSent) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        const std::string large(large_size, 'l');
        const std::string expected =
            plain_frame(Opcode::binary, large) + plain_frame(Opcode::pong, "p");
        const auto receiving = [&]() -> Task<Result<>> {
            co_await unwrap(
                raw.client.write_all(frame(Opcode::ping, "p") + frame(Opcode::text, "m")));
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "m");
            EXPECT_TRUE(co_await unwrap(read_text(raw.client, expected.size())) == expected);
            co_return Result<>();
        };
        expect(co_await penstock::all(raw.server.send_binary(large), receiving()));
    };
    run(program());
}

TEST(WebSocketDirect, ASendThatWasCutBreaksOnlySending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        const std::string large(large_size, 'l');
        EXPECT_EQ((co_await penstock::timeout(1ms, raw.server.send_binary(large))).error(),
                  std::errc::timed_out);
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), Error::broken);
        expect(co_await raw.client.write_all(frame(Opcode::text, "still readable")));
        EXPECT_EQ(expect(co_await receive_text(raw.server)), "still readable");
    };
    run(program());
}

TEST(WebSocketDirect, AFailedSendBreaksSending) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        Raw raw = co_await open_raw();
        raw.server.next_layer().close();
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await raw.server.send_text("x")).error(), Error::broken);
        EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(timers(), 0U);
    };
    run(program());
}

TEST(WebSocketDirect, TheEndOfTheStreamIsTheEndOfTheConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool before : {true, false}) {
            Raw raw = co_await open_raw();
            Outcome outcome;
            const auto ending = [&]() -> Task<Result<>> {
                co_await turns(2);
                co_return raw.client.shutdown();
            };
            if (before) {
                expect(co_await ending());
            }
            expect(co_await penstock::all(store(raw.server, outcome), ending()));
            EXPECT_EQ(outcome.error, Error::truncated);
            EXPECT_EQ(raw.server.close_code(), penstock::ws::close_code::abnormal);
            EXPECT_EQ((co_await raw.server.receive()).error(), Error::truncated);
            EXPECT_EQ(timers(), 0U);
        }
    };
    run(program());
}

} // namespace
