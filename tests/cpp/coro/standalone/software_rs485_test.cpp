// RS-485 switched in software: the events on the line, in order.

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/penstock.hpp>
#include <penstock/process/terminal.hpp>

#include "coro/support/emulated_driver.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/allocations.hpp"
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::BufWriter;
using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::process::Terminal;
using penstock::serial::Options;
using penstock::serial::Port;
using penstock::serial::Rs485;
using penstock::testing::EmulatedDriver;
using penstock::testing::expect;
using penstock::testing::Watchdog;

using Log = std::vector<std::string>;

static_assert(penstock::Stream<Port>);

/// A device on a bus, and the port that switches the bus.
class SoftwareRs485 : public ::testing::Test {
protected:
    /// The port, with an empty log.
    Port open(const Rs485& mode = {.software = true}, std::uint32_t baud_rate = 115'200) {
        Port port = expect(Port::open(path(), {.baud_rate = baud_rate, .rs485 = mode}));
        driver_.log.clear();
        return port;
    }

    const std::string& path() { return device_.second; }

    Task<std::string> receive(std::size_t size) {
        std::string text(size, ' ');
        expect(co_await device_.first.read_exactly(text));
        co_return text;
    }

    const Watchdog watchdog_;
    std::pair<Terminal, std::string> device_ = expect(Terminal::open({}));
    EmulatedDriver driver_;
};

TEST_F(SoftwareRs485, OpeningReleasesTheBus) {
    const Port port = expect(Port::open(path(), {.rs485 = Rs485{.software = true}}));
    EXPECT_EQ(driver_.lines, TIOCM_DTR);
    const Log only_the_line{"RTS down"};
    EXPECT_EQ(Log(driver_.log.begin(), driver_.log.begin() + 1), only_the_line);
}

TEST_F(SoftwareRs485, RtsMayBeInverted) {
    Port port = open({.rts_on_send = false, .rts_after_send = true, .software = true});
    EXPECT_EQ(driver_.lines, TIOCM_RTS | TIOCM_DTR);
    driver_.sent = {true};
    const auto body = [&]() -> Task<> { expect(co_await port.write_all("x")); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS down", "write 1", "unsent 0", "sent", "RTS up"}));
}

TEST_F(SoftwareRs485, AWriteHasTheBusUntilTheLastBitIsOnTheWire) {
    Port port = open();
    driver_.unsent = {3, 1, 0};
    driver_.sent = {false, false, true};
    const auto body = [&]() -> Task<> {
        expect(co_await port.write_all("ping"));
        EXPECT_EQ(co_await receive(4), "ping");
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 4", "unsent 3", "unsent 1", "unsent 0", "sending",
                                "sending", "sent", "RTS down"}));
}

TEST_F(SoftwareRs485, EveryKindOfWriteSwitchesTheBus) {
    Port port = open();
    driver_.sent = {true};
    const Log turn{"RTS up", "write 4", "unsent 0", "sent", "RTS down"};
    const auto check = [&] {
        EXPECT_EQ(driver_.log, turn);
        driver_.log.clear();
    };
    const auto body = [&]() -> Task<> {
        EXPECT_EQ(co_await port.write("ping"), 4U);
        check();
        expect(co_await port.write_all("pi", "n", std::string("g")));
        check();
        const std::array<Bytes, 2> parts{Bytes("pi"), Bytes("ng")};
        expect(co_await port.write_all(parts));
        check();
        BufWriter writer(port);
        expect(co_await writer.write_all("ping"));
        expect(co_await writer.flush());
        check();
        expect(co_await penstock::timeout(1h, port.write_all("ping")));
        check();
        penstock::PipeEnds pipe = expect(penstock::make_pipe());
        expect(co_await pipe.writer.write_all("ping"));
        pipe.writer.close();
        driver_.log.clear(); // of the pipe
        EXPECT_EQ(co_await penstock::copy(pipe.reader, port), 4U);
        check();
    };
    run(body());
}

TEST_F(SoftwareRs485, AnEmptyWriteDoesNotTakeTheBus) {
    Port port = open();
    const auto body = [&]() -> Task<> {
        expect(co_await port.write_all(""));
        EXPECT_EQ(co_await port.write(""), 0U);
    };
    run(body());
    EXPECT_EQ(std::ranges::count(driver_.log, "RTS up"), 0);
}

TEST_F(SoftwareRs485, OtherPortsDoNotSwitch) {
    const auto body = [&](Options options) -> Task<> {
        Port port = expect(Port::open(path(), options));
        driver_.log.clear();
        expect(co_await port.write_all("ping"));
        EXPECT_EQ(driver_.log, (Log{"write 4"}));
    };
    run(body({}));
    driver_.rs485.emplace();
    run(body({.rs485 = Rs485()}));
    run(body({.rs485 = Rs485{.enabled = false, .software = true}}));
}

/// Whether `first` ends before `second`, if both start now.
template <typename First, typename Second> Task<bool> is_first(First first, Second second) {
    bool is_over = false;
    bool order = false;
    const auto note = [&](auto operation, bool is) -> Task<> {
        (void)co_await std::move(operation);
        order = std::exchange(is_over, true) ? order : is;
    };
    co_await penstock::all(note(std::move(first), true), note(std::move(second), false));
    co_return order;
}

TEST_F(SoftwareRs485, WaitsForTheFifoIfTheDriverCannotReportTheLastBit) {
    driver_.fifo = 64;
    Port port = open({.software = true}, 19'200);
    const std::string message(40, 'x'); // of ten bits each: 20.8 ms
    const auto body = [&]() -> Task<> {
        EXPECT_TRUE(co_await is_first(penstock::sleep_for(20ms), port.write_all(message)));
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 40", "unsent 0", "RTS down"}));
}

TEST_F(SoftwareRs485, WaitsForAMessageThatFitsIntoTheFifo) {
    driver_.fifo = 4; // it reports too small a FIFO
    Port port = open({.software = true}, 19'200);
    const std::string message(40, 'x');
    const auto body = [&]() -> Task<> {
        EXPECT_TRUE(co_await is_first(penstock::sleep_for(20ms), port.write_all(message)));
    };
    run(body());
}

TEST_F(SoftwareRs485, DelaysPrecedeAndFollowTheBytes) {
    Port port =
        open({.delay_before_send = 5ms, .delay_after_send = 5ms, .software = true}, 1'000'000);
    driver_.sent = {true};
    const auto body = [&]() -> Task<> {
        const auto look = [&]() -> Task<Log> {
            expect(co_await penstock::sleep_for(4ms));
            co_return driver_.log;
        };
        const auto [in_between, written] =
            co_await penstock::all_settled(look(), port.write_all("x"));
        EXPECT_TRUE(written);
        EXPECT_EQ(in_between, (Log{"RTS up"}));
        driver_.log.clear();
        EXPECT_TRUE(co_await is_first(penstock::sleep_for(9ms), port.write_all("x")));
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 1", "unsent 0", "sent", "RTS down"}));
}

TEST_F(SoftwareRs485, ACancelledWriteDiscardsUnsentBytes) {
    Port port = open();
    driver_.unsent = {4};
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await penstock::timeout(5ms, port.write_all("ping"))).error(),
                  std::errc::timed_out);
    };
    run(body());
    ASSERT_GE(driver_.log.size(), 4U);
    EXPECT_EQ(Log(driver_.log.end() - 2, driver_.log.end()), (Log{"flush", "RTS down"}));
    EXPECT_EQ(driver_.lines, TIOCM_DTR);
}

TEST_F(SoftwareRs485, AWriteCancelledBeforeItStartsWritesNothing) {
    Port port = open({.delay_before_send = 1h, .software = true});
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await penstock::timeout(5ms, port.write_all("ping"))).error(),
                  std::errc::timed_out);
        EXPECT_EQ(driver_.log, (Log{"RTS up", "unsent 0", "RTS down"}));
        driver_.log.clear();
        penstock::Canceller canceller;
        canceller.cancel();
        EXPECT_EQ((co_await penstock::cancellable(canceller, port.write_all("ping"))).error(),
                  std::errc::operation_canceled);
        EXPECT_EQ(driver_.log, Log());
    };
    run(body());
}

TEST_F(SoftwareRs485, AFailedWriteReleasesTheBus) {
    Port port = open();
    driver_.write_error = ENOMEM;
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await port.write_all("ping")).error(), std::errc::not_enough_memory);
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "no write", "unsent 0", "RTS down"}));
}

TEST_F(SoftwareRs485, AnUnpluggedDeviceIsNotUsedAgain) {
    Port port = open();
    driver_.on_write = [&] { driver_.failing = {{TIOCOUTQ, EIO}, {TIOCMBIC, EIO}, {TCFLSH, EIO}}; };
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await port.write_all("ping")).error(), std::errc::no_such_device);
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 4", "failed", "failed"}));
}

TEST_F(SoftwareRs485, DoesNotWriteIfRtsCannotBeSet) {
    Port port = open();
    driver_.failing = {{TIOCMBIS, EPROTO}};
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await port.write_all("ping")).error(), std::errc::protocol_error);
    };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"failed"}));
}

TEST_F(SoftwareRs485, AClosedPortIsNotUsedAgain) {
    std::optional<Port> port = open();
    driver_.unsent = {4};
    const auto body = [&]() -> Task<> {
        const auto close = [&]() -> Task<Log> {
            expect(co_await penstock::sleep_for(1ms));
            port.reset();
            EXPECT_EQ(driver_.lines, TIOCM_DTR) << "closing has let the bus go";
            driver_.log.clear();
            co_return Log();
        };
        const auto settled = co_await penstock::all_settled(port->write_all("ping"), close());
        EXPECT_EQ(std::get<0>(settled).error(), std::errc::operation_canceled);
        EXPECT_EQ(driver_.log, Log());
    };
    run(body());
}

TEST_F(SoftwareRs485, APortClosedAtAnyTimeIsNotUsedAgain) {
    // During the delays, while there is no room, and while the line is busy.
    for (const auto& [before, after, room] :
         {std::tuple(1h, 0h, true), std::tuple(0h, 1h, true), std::tuple(0h, 0h, false)}) {
        std::optional<Port> port =
            open({.delay_before_send = before, .delay_after_send = after, .software = true});
        driver_.sent = {true};
        const std::string message(room ? 4 : 1 << 20, 'x');
        const auto body = [&]() -> Task<> {
            const auto close = [&]() -> Task<> {
                expect(co_await penstock::sleep_for(1ms));
                port.reset();
                driver_.log.clear();
            };
            const auto settled = co_await penstock::all_settled(port->write_all(message), close());
            EXPECT_EQ(std::get<0>(settled).error(), std::errc::operation_canceled);
        };
        run(body());
        EXPECT_EQ(driver_.log, Log());
    }
}

TEST_F(SoftwareRs485, APortMayMoveWhileItWrites) {
    Port port = open();
    driver_.unsent = {4, 4, 0};
    driver_.sent = {true};
    const auto body = [&]() -> Task<> {
        const auto move = [&]() -> Task<Port> {
            Port moved = std::move(port);
            co_return moved;
        };
        const auto settled = co_await penstock::all_settled(port.write_all("ping"), move());
        EXPECT_TRUE(std::get<0>(settled));
        EXPECT_TRUE(std::get<1>(settled).is_open());
        EXPECT_EQ(driver_.log, (Log{"RTS up", "write 4", "unsent 4", "unsent 4", "unsent 0", "sent",
                                    "RTS down"}));
    };
    run(body());
}

TEST_F(SoftwareRs485, ASecondWriterIsRefused) {
    Port port = open();
    driver_.unsent = {4, 4, 0};
    driver_.sent = {true};
    const auto body = [&]() -> Task<> {
        const auto settled =
            co_await penstock::all_settled(port.write_all("one"), port.write_all("two"));
        EXPECT_TRUE(std::get<0>(settled));
        EXPECT_EQ(std::get<1>(settled).error(), std::errc::device_or_resource_busy);
        expect(co_await port.write_all("two"));
        EXPECT_EQ(co_await receive(6), "onetwo");
    };
    run(body());
}

TEST_F(SoftwareRs485, NeedsADriverWithModemLines) {
    driver_.lines.reset();
    const Options options{.rs485 = Rs485{.software = true}};
    EXPECT_EQ(Port::open(path(), options).error(), std::errc::operation_not_supported);
    Options tolerant = options;
    tolerant.ignore_unsupported = true;
    Port port = expect(Port::open(path(), tolerant));
    driver_.log.clear();
    const auto body = [&]() -> Task<> { expect(co_await port.write_all("ping")); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"write 4"}));
}

TEST_F(SoftwareRs485, TheDriversModeIsRestored) {
    serial_rs485 before{};
    before.flags = SER_RS485_RTS_AFTER_SEND;
    driver_.rs485 = before;
    Port port = expect(Port::open(path(), {.rs485 = Rs485()}));
    EXPECT_NE(driver_.rs485->flags, before.flags);
    expect(port.configure({.rs485 = Rs485{.software = true}}));
    EXPECT_EQ(driver_.rs485->flags, before.flags);
    EXPECT_EQ(driver_.lines, TIOCM_DTR);
    expect(port.configure({.rs485 = Rs485()}));
    driver_.log.clear();
    const auto body = [&]() -> Task<> { expect(co_await port.write_all("ping")); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"write 4"}));
}

TEST_F(SoftwareRs485, ARefusedModeLeavesTheOldOne) {
    Port port = open();
    EXPECT_EQ(port.configure({.rs485 = Rs485()}).error(), std::errc::operation_not_supported);
    driver_.sent = {true};
    driver_.log.clear();
    const auto body = [&]() -> Task<> { expect(co_await port.write_all("ping")); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 4", "unsent 0", "sent", "RTS down"}));
}

TEST_F(SoftwareRs485, NewSettingsApplyToTheReleaseOfTheBus) {
    Port port = open();
    driver_.sent = {true};
    driver_.on_write = [&] {
        expect(port.configure({.rs485 = Rs485{.rts_after_send = true, .software = true}}));
        driver_.log.emplace_back("configured");
    };
    const auto body = [&]() -> Task<> { expect(co_await port.write_all("ping")); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "write 4", "configured", "unsent 0", "sent", "RTS up"}));
}

TEST_F(SoftwareRs485, ABreakTakesTheBus) {
    Port port = open();
    driver_.sent = {true};
    const auto body = [&]() -> Task<> { expect(co_await port.send_break(1ms)); };
    run(body());
    EXPECT_EQ(driver_.log, (Log{"RTS up", "break", "no break", "unsent 0", "sent", "RTS down"}));
}

TEST_F(SoftwareRs485, AWriteDoesNotAllocateAfterAWarmUp) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    GTEST_SKIP() << "sanitizers take operator new, and frames are not used again under them";
#endif
#endif
    Port port = open({.delay_after_send = 1ms, .software = true});
    std::array<char, 4> received{};
    driver_.log.reserve(10'000);
    const auto program = [&]() -> Task<std::size_t> {
        std::size_t before = 0;
        for (int round = 0; round < 100; ++round) {
            if (round == 10) {
                before = penstock::testing::allocations.load();
            }
            expect(co_await port.write_all("pi", "ng"));
            expect(co_await device_.first.read_exactly(received));
        }
        co_return penstock::testing::allocations.load() - before;
    };
    EXPECT_EQ(run(program()), 0U);
}

} // namespace
