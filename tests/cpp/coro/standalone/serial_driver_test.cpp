// The requests of a serial port to its driver. The driver is emulated, because a pseudo-terminal
// lacks most features.

#include <algorithm>
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
#include "support/watchdog.hpp"

namespace {

using namespace std::chrono_literals;
using penstock::run;
using penstock::Task;
using penstock::process::Terminal;
using penstock::serial::ControlLines;
using penstock::serial::ErrorCounters;
using penstock::serial::ModemLines;
using penstock::serial::Options;
using penstock::serial::Port;
using penstock::serial::Rs485;
using penstock::testing::EmulatedDriver;
using penstock::testing::expect;
using penstock::testing::Watchdog;

using Log = std::vector<std::string>;

class SerialDriver : public ::testing::Test {
protected:
    Port open(const Options& options = {}) {
        Port port = expect(Port::open(device_.second, options));
        driver_.log.clear();
        return port;
    }

    const Watchdog watchdog_;
    std::pair<Terminal, std::string> device_ = expect(Terminal::open({}));
    EmulatedDriver driver_;
};

TEST_F(SerialDriver, LinesAreReadAndSet) {
    Port port = open();
    driver_.lines = TIOCM_CTS | TIOCM_RNG | TIOCM_DTR;
    EXPECT_EQ(port.modem_lines(), (ModemLines{.cts = true, .ri = true}));
    EXPECT_EQ(port.control_lines(), (ControlLines{.rts = false, .dtr = true}));
    expect(port.request_to_send(true));
    expect(port.data_terminal_ready(false));
    EXPECT_EQ(port.control_lines(), (ControlLines{.rts = true, .dtr = false}));
}

TEST_F(SerialDriver, InitialLinesAreSetFirst) {
    const Port port =
        expect(Port::open(device_.second, {.initial_rts = false, .initial_dtr = false}));
    EXPECT_EQ(driver_.lines, 0);
    EXPECT_EQ(Log(driver_.log.begin(), driver_.log.begin() + 2), (Log{"RTS down", "DTR down"}));
}

TEST_F(SerialDriver, InterruptedRequestsAreRepeated) {
    Port port = open();
    driver_.interruptions = 3;
    EXPECT_EQ(port.output_waiting(), 0U);
}

TEST_F(SerialDriver, ReportsCounters) {
    Port port = open();
    EXPECT_EQ(port.error_counters().error(), std::errc::operation_not_supported);
    driver_.counts.emplace();
    driver_.counts->rx = 1;
    driver_.counts->tx = 2;
    driver_.counts->frame = 3;
    driver_.counts->parity = 4;
    driver_.counts->overrun = 5;
    driver_.counts->buf_overrun = 6;
    driver_.counts->brk = -1; // the counter has 32 bits
    EXPECT_EQ(port.error_counters(), (ErrorCounters{.received = 1,
                                                    .sent = 2,
                                                    .framing_errors = 3,
                                                    .parity_errors = 4,
                                                    .overruns = 5,
                                                    .buffer_overruns = 6,
                                                    .breaks = 0xFFFFFFFF}));
}

TEST_F(SerialDriver, WaitsForAChangeOfALine) {
    Port port = open();
    const auto body = [&]() -> Task<> {
        const auto change = [&]() -> Task<> {
            *driver_.lines |= TIOCM_DSR | TIOCM_CTS;
            co_return;
        };
        const auto settled =
            co_await penstock::all_settled(port.modem_change({.cts = true, .cd = true}), change());
        EXPECT_EQ(std::get<0>(settled), (ModemLines{.cts = true}));
    };
    run(body());
}

TEST_F(SerialDriver, ReportsAPulseThatIsOver) {
    driver_.counts.emplace();
    Port port = open();
    const auto body = [&]() -> Task<> {
        const auto pulse = [&]() -> Task<> {
            driver_.counts->rng += 2;
            co_return;
        };
        const auto settled =
            co_await penstock::all_settled(port.modem_change({.cts = true, .ri = true}), pulse());
        EXPECT_EQ(std::get<0>(settled), (ModemLines{.ri = true}));
    };
    run(body());
}

TEST_F(SerialDriver, ClosingEndsAWaitForAChange) {
    std::optional<Port> port = open();
    const auto body = [&]() -> Task<> {
        EXPECT_EQ((co_await port->modem_change({})).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await penstock::timeout(1ms, port->modem_change({.cd = true}))).error(),
                  std::errc::timed_out);
        const auto close = [&]() -> Task<> {
            port.reset();
            co_return;
        };
        const auto settled =
            co_await penstock::all_settled(port->modem_change({.cd = true}), close());
        EXPECT_EQ(std::get<0>(settled).error(), std::errc::operation_canceled);
        Port closed;
        EXPECT_EQ((co_await closed.modem_change({.cd = true})).error(),
                  std::errc::bad_file_descriptor);
    };
    run(body());
}

TEST_F(SerialDriver, DrainsUntilTheLastBitIsOnTheWire) {
    Port port = open();
    driver_.unsent = {2, 0};
    driver_.sent = {false, true};
    const auto body = [&]() -> Task<> {
        expect(co_await port.drain());
        EXPECT_EQ(driver_.log, (Log{"unsent 2", "unsent 0"}));
        driver_.log.clear();
        driver_.unsent = {2, 0};
        expect(co_await port.drain_exact());
        EXPECT_EQ(driver_.log, (Log{"unsent 2", "unsent 0", "sending", "sent"}));
    };
    run(body());
}

TEST_F(SerialDriver, ClosingEndsADrain) {
    const auto body = [&](bool exact) -> Task<> {
        std::optional<Port> port = open();
        driver_.unsent = {4};
        const auto close = [&]() -> Task<> {
            port.reset();
            driver_.log.clear();
            co_return;
        };
        const auto settled =
            co_await penstock::all_settled(exact ? port->drain_exact() : port->drain(), close());
        EXPECT_EQ(std::get<0>(settled).error(), std::errc::operation_canceled);
        EXPECT_EQ(driver_.log, Log());
    };
    run(body(false));
    run(body(true));
}

TEST_F(SerialDriver, ABreakAlwaysEnds) {
    std::optional<Port> port = open();
    const auto body = [&]() -> Task<> {
        expect(co_await port->send_break(1ms));
        EXPECT_EQ(driver_.log, (Log{"break", "no break"}));
        driver_.log.clear();
        EXPECT_EQ((co_await penstock::timeout(1ms, port->send_break(1h))).error(),
                  std::errc::timed_out);
        EXPECT_EQ(driver_.log, (Log{"break", "no break"}));
        driver_.log.clear();
        const auto close = [&]() -> Task<Log> {
            port.reset();
            co_return std::exchange(driver_.log, {});
        };
        const auto [ended, closing] = co_await penstock::all_settled(port->send_break(1h), close());
        EXPECT_EQ(ended.error(), std::errc::operation_canceled);
        EXPECT_EQ(std::ranges::count(closing, "no break"), 1);
        EXPECT_EQ(driver_.log, Log());
    };
    run(body());
}

TEST_F(SerialDriver, ASecondBreakDoesNotCutTheFirstShort) {
    Port port = open();
    const auto body = [&]() -> Task<> {
        const auto settled =
            co_await penstock::all_settled(port.send_break(1ms), port.send_break(0ms));
        EXPECT_TRUE(std::get<0>(settled));
        EXPECT_EQ(std::get<1>(settled).error(), std::errc::device_or_resource_busy);
        EXPECT_EQ(driver_.log, (Log{"break", "no break"}));
    };
    run(body());
}

TEST_F(SerialDriver, Rs485ModesAreSetAndRestored) {
    serial_rs485 before{};
    before.flags = SER_RS485_RTS_AFTER_SEND;
    before.delay_rts_before_send = 7;
    driver_.rs485 = before;
    {
        const Port port = open({.rs485 = Rs485{.delay_before_send = 2ms}});
        EXPECT_EQ(driver_.rs485->flags,
                  static_cast<unsigned>(SER_RS485_ENABLED | SER_RS485_RTS_ON_SEND));
        EXPECT_EQ(driver_.rs485->delay_rts_before_send, 2U);
    }
    EXPECT_EQ(driver_.rs485->flags, before.flags);
    EXPECT_EQ(driver_.rs485->delay_rts_before_send, 7U);
}

TEST_F(SerialDriver, Rs485SettingsThatTheDriverDropsAreRefused) {
    driver_.rs485.emplace();
    driver_.takes_rs485_settings = false;
    EXPECT_EQ(Port::open(device_.second, {.rs485 = Rs485()}).error(),
              std::errc::operation_not_supported);
    EXPECT_TRUE(Port::open(device_.second, {.rs485 = Rs485{.enabled = false}}));
    EXPECT_EQ(
        Port::open(device_.second, {.rs485 = Rs485{.delay_after_send = 5'000'000'000ms}}).error(),
        std::errc::invalid_argument);
}

} // namespace
