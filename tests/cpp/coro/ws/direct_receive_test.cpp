// Messages that are received without a task, and those for which a receive goes on in one: all that
// can arrive, in order, for one receiver.

#include <penstock/ws/web_socket.hpp>

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
#include <penstock/stream/read_all.hpp>
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/any.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/ws/errors.hpp>

#include "coro/support/logs.hpp"
#include "coro/support/tcp_pair.hpp"
#include "coro/ws/frames.hpp"
#include "coro/ws/raw_connection.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::codec::websocket::Opcode;
using penstock::testing::expect;
using penstock::testing::frame;
using penstock::testing::open_raw_connection;
using penstock::testing::plain_frame;
using penstock::testing::RawConnection;
using penstock::testing::read_text;
using penstock::testing::receive_text;
using penstock::testing::Received;
using penstock::testing::receives_in_tasks;
using penstock::testing::store;
using penstock::testing::timers;
using penstock::testing::turns;
using penstock::testing::until_receives_in_tasks;
using penstock::testing::Watchdog;
using penstock::ws::Error;
using penstock::ws::Message;
using penstock::ws::WebSocket;

static_assert(penstock::Operation<WebSocket::Receive>);
static_assert(std::same_as<penstock::Awaited<WebSocket::Receive>, Result<Message>>);

TEST(WebSocketDirect, AWaitingReceiveIsATaskOnlyInsideAMessage) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "hi");
            co_return co_await raw.server.send_text("ho");
        };
        const auto looking = [&]() -> Task<Result<>> {
            co_await turns(4);
            EXPECT_EQ(receives_in_tasks(), 0U);
            EXPECT_EQ(timers(), 1U);
            co_await unwrap(raw.client.write_all(frame(Opcode::text, "h", false)));
            co_await until_receives_in_tasks(1);
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
            RawConnection raw = co_await open_raw_connection();
            Received outcome;
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
        RawConnection raw = co_await open_raw_connection();
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
        RawConnection raw = co_await open_raw_connection();
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

TEST(WebSocketDirect, OneTaskAtATimeReceives) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        RawConnection raw = co_await open_raw_connection();
        const auto receiving = [&]() -> Task<Result<>> {
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "in parts");
            EXPECT_EQ(co_await unwrap(receive_text(raw.server)), "next");
            co_return Result<>();
        };
        const auto intruding = [&]() -> Task<Result<>> {
            co_await turns(2);
            EXPECT_EQ((co_await raw.server.receive()).error(), std::errc::device_or_resource_busy);
            co_await unwrap(raw.client.write_all(frame(Opcode::text, "in ", false)));
            co_await until_receives_in_tasks(1);
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

TEST(WebSocketDirect, EverythingAwaitsItsOperations) {
    const Watchdog watchdog;
    const auto program = []() -> Task<Result<>> {
        RawConnection raw = co_await open_raw_connection();
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

TEST(WebSocketDirect, TheEndOfTheStreamIsTheEndOfTheConnection) {
    const Watchdog watchdog;
    const auto program = []() -> Task<> {
        for (const bool before : {true, false}) {
            RawConnection raw = co_await open_raw_connection();
            Received outcome;
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
