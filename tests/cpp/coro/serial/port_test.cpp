// Serial ports on pseudo-terminals. The other side plays the device.

#include <penstock/process/terminal.hpp>
#include <penstock/serial/port.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

namespace {

using penstock::BufReader;
using penstock::OwnedDescriptor;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::process::Terminal;
using penstock::serial::Options;
using penstock::serial::Parity;
using penstock::serial::Port;
using penstock::serial::StopBits;

static_assert(penstock::Stream<Port>);

/// A device and the name of its port.
struct Device {
    Terminal terminal{};
    std::string path{};
};

Device make_device() {
    auto [terminal, path] = Terminal::open({}).value();
    return {.terminal = std::move(terminal), .path = std::move(path)};
}

termios settings_of(int fd) {
    termios settings{};
    EXPECT_EQ(::tcgetattr(fd, &settings), 0);
    return settings;
}

TEST(Port, TransfersEveryByteValueUnchanged) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        Port port = Port::open(device.path).value();
        std::string all_bytes;
        for (int byte = 0; byte < 256; ++byte) {
            all_bytes += static_cast<char>(byte);
        }
        std::array<char, 256> received{};
        EXPECT_TRUE(co_await port.write_all(all_bytes));
        EXPECT_TRUE(co_await device.terminal.read_exactly(received));
        EXPECT_EQ(std::string(received.data(), 256), all_bytes);
        EXPECT_TRUE(co_await device.terminal.write_all(all_bytes));
        EXPECT_TRUE(co_await port.read_exactly(received));
        EXPECT_EQ(std::string(received.data(), 256), all_bytes);
    };
    run(body());
}

TEST(Port, IsAStreamLikeAnyOther) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        Port port = Port::open(device.path).value();
        BufReader reader(port);
        EXPECT_TRUE(co_await device.terminal.write_all("A +014.70 N2\rB"));
        EXPECT_EQ(co_await reader.read_until("\r"), "A +014.70 N2\r");
        EXPECT_EQ(reader.buffered().size(), 1U);
    };
    run(body());
}

TEST(Port, EveryOperationReportsAnUnpluggedDevice) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        Port port = Port::open(device.path).value();
        device.terminal.close();
        std::array<char, 8> buffer{};
        EXPECT_EQ((co_await port.read(buffer)).error(), std::errc::no_such_device);
        EXPECT_EQ((co_await port.receive()).error(), std::errc::no_such_device);
        EXPECT_EQ((co_await port.write_all("x")).error(), std::errc::no_such_device);
        EXPECT_EQ((co_await port.drain()).error(), std::errc::no_such_device);
        EXPECT_EQ((co_await port.drain_exact()).error(), std::errc::no_such_device);
        EXPECT_EQ((co_await port.send_break(std::chrono::milliseconds(1))).error(),
                  std::errc::no_such_device);
        EXPECT_EQ(port.input_waiting().error(), std::errc::no_such_device);
        EXPECT_EQ(port.output_waiting().error(), std::errc::no_such_device);
        EXPECT_EQ(port.reset_input().error(), std::errc::no_such_device);
        EXPECT_EQ(port.modem_lines().error(), std::errc::no_such_device);
        EXPECT_EQ(port.request_to_send(true).error(), std::errc::no_such_device);
        EXPECT_EQ(port.configure({}).error(), std::errc::no_such_device);
    };
    run(body());
}

TEST(Port, ClosingKeepsSentBytes) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        // More than the other side's buffer holds. The rest waits in between.
        const std::string message(8'000, 'x');
        {
            Port port = Port::open(device.path).value();
            EXPECT_TRUE(co_await port.write_all(message));
            EXPECT_TRUE(co_await port.drain());
        }
        std::string received(message.size(), ' ');
        EXPECT_TRUE(co_await penstock::timeout(std::chrono::seconds(60),
                                               device.terminal.read_exactly(received)));
        EXPECT_EQ(received, message);
    };
    run(body());
}

TEST(Port, IsExclusiveByDefault) {
    Device device = make_device();
    {
        const Result<Port> first = Port::open(device.path);
        ASSERT_TRUE(first);
        EXPECT_EQ(Port::open(device.path).error(), std::errc::device_or_resource_busy);
    }
    const Result<Port> shared = Port::open(device.path, {.exclusive = false});
    ASSERT_TRUE(shared);
    EXPECT_TRUE(Port::open(device.path, {.exclusive = false}));
}

TEST(Port, CannotBecomeExclusiveWhileOthersUseIt) {
    const Device device = make_device();
    Port first = Port::open(device.path, {.exclusive = false}).value();
    EXPECT_EQ(Port::open(device.path).error(), std::errc::device_or_resource_busy);
    {
        const Port second = Port::open(device.path, {.exclusive = false}).value();
        EXPECT_EQ(first.configure({.exclusive = true}).error(), std::errc::device_or_resource_busy);
    }
    // The refused attempt has kept its shared lock.
    EXPECT_EQ(Port::open(device.path).error(), std::errc::device_or_resource_busy);
    const pid_t child = ::fork();
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    first.close();
    EXPECT_TRUE(Port::open(device.path)); // a child with the descriptor holds no lock
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(Port, RestoresTheOldSettings) {
    const Device device = make_device();
    const OwnedDescriptor other(::open(device.path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios before = settings_of(other.get());
    before.c_iflag |= ICRNL;
    ::cfsetspeed(&before, B4800);
    ASSERT_EQ(::tcsetattr(other.get(), TCSANOW, &before), 0);
    before = settings_of(other.get());
    {
        const Result<Port> port = Port::open(device.path, {.baud_rate = 921'600, .xon_xoff = true});
        ASSERT_TRUE(port);
        const termios during = settings_of(other.get());
        EXPECT_EQ(::cfgetospeed(&during), static_cast<speed_t>(B921600));
        EXPECT_EQ(during.c_lflag, 0U);
        EXPECT_EQ(during.c_iflag, static_cast<tcflag_t>(IXON | IXOFF));
    }
    const termios after = settings_of(other.get());
    EXPECT_EQ(after.c_iflag, before.c_iflag);
    EXPECT_EQ(after.c_lflag, before.c_lflag);
    EXPECT_EQ(after.c_oflag, before.c_oflag);
    EXPECT_EQ(::cfgetospeed(&after), ::cfgetospeed(&before));
}

TEST(Port, ChangesAllSettingsOrNone) {
    const Device device = make_device();
    Port port = Port::open(device.path, {.baud_rate = 9'600}).value();
    Options options = port.options();
    options.baud_rate = 250'000; // without a code of its own
    ASSERT_TRUE(port.configure(options));
    EXPECT_EQ(port.options(), options);

    // A pty has no line, so its driver drops the parity.
    Options impossible = options;
    impossible.baud_rate = 1'200;
    impossible.parity = Parity::even;
    EXPECT_EQ(port.configure(impossible).error(), std::errc::operation_not_supported);
    EXPECT_EQ(port.options(), options);
    const termios now = settings_of(port.native_handle());
    EXPECT_NE(::cfgetospeed(&now), static_cast<speed_t>(B1200));
}

TEST(Port, RefusesInvalidOptions) {
    const Device device = make_device();
    EXPECT_EQ(Port::open(device.path, {.baud_rate = 0}).error(), std::errc::invalid_argument);
    EXPECT_EQ(Port::open(device.path, {.byte_size = 9}).error(), std::errc::invalid_argument);
    EXPECT_EQ(Port::open("/dev/no-such-port").error(), std::errc::no_such_file_or_directory);
    EXPECT_EQ(Port::open(std::string("/dev/null\0more", 14)).error(), std::errc::invalid_argument);
    EXPECT_EQ(Port::open("/dev/null").error(), std::errc::inappropriate_io_control_operation);
    EXPECT_EQ(Port::open(device.path, {.rs485 = penstock::serial::Rs485()}).error(),
              std::errc::operation_not_supported);
    EXPECT_TRUE(Port::open(device.path)); // nothing of it is left
}

TEST(Port, CountsAndDiscardsWaitingBytes) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        Port port = Port::open(device.path, {.stop_bits = StopBits::two}).value();
        EXPECT_EQ(port.input_waiting(), 0U);
        EXPECT_TRUE(co_await device.terminal.write_all("12345"));
        std::array<char, 1> first{};
        EXPECT_TRUE(co_await port.read_exactly(first)); // all of it has arrived now
        EXPECT_EQ(port.input_waiting(), 4U);
        EXPECT_TRUE(port.reset_input());
        EXPECT_EQ(port.input_waiting(), 0U);
        EXPECT_TRUE(co_await port.drain());
        EXPECT_EQ(port.output_waiting(), 0U);
        EXPECT_TRUE(co_await port.send_break(std::chrono::milliseconds(1)));
        EXPECT_FALSE(port.modem_lines()); // a pty has none
    };
    run(body());
}

TEST(Port, ACancelledReadTakesNothing) {
    const auto body = []() -> Task<void> {
        Device device = make_device();
        Port port = Port::open(device.path).value();
        std::array<char, 8> buffer{};
        EXPECT_EQ(
            (co_await penstock::timeout(std::chrono::milliseconds(5), port.read(buffer))).error(),
            std::errc::timed_out);
        EXPECT_TRUE(co_await device.terminal.write_all("later"));
        EXPECT_EQ(co_await port.read(buffer), 5U);
    };
    run(body());
}

TEST(Port, AClosedPortIsAnError) {
    const auto body = []() -> Task<void> {
        Port port;
        std::array<char, 1> buffer{};
        EXPECT_EQ((co_await port.read(buffer)).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ((co_await port.drain()).error(), std::errc::bad_file_descriptor);
        EXPECT_EQ(port.configure({}).error(), std::errc::bad_file_descriptor);
    };
    run(body());
}

TEST(Port, AssigningAPortClosesTheOldOne) {
    const Device first = make_device();
    const Device second = make_device();
    Port port = Port::open(first.path).value();
    Port other = Port::open(second.path).value();
    port = std::move(other);
    EXPECT_TRUE(Port::open(first.path));
    EXPECT_EQ(port.path(), second.path);
    Port& same = port;
    port = std::move(same);
    EXPECT_TRUE(port.is_open());
    EXPECT_EQ(Port::open(second.path).error(), std::errc::device_or_resource_busy);
}

TEST(Port, AFailedOpenLeavesTheLineUnchanged) {
    const Device device = make_device();
    const OwnedDescriptor other(::open(device.path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    termios before = settings_of(other.get());
    before.c_cflag &= ~static_cast<tcflag_t>(HUPCL);
    ASSERT_EQ(::tcsetattr(other.get(), TCSANOW, &before), 0);
    before = settings_of(other.get());
    // A pty has no UART, so no driver that supports low latency.
    EXPECT_EQ(Port::open(device.path, {.low_latency = true}).error(),
              std::errc::operation_not_supported);
    const termios after = settings_of(other.get());
    EXPECT_EQ(after.c_cflag, before.c_cflag);
    EXPECT_EQ(after.c_iflag, before.c_iflag);
    EXPECT_EQ(after.c_lflag, before.c_lflag);
}

TEST(Port, MarksDamagedCharactersOnRequest) {
    Device device = make_device();
    const OwnedDescriptor other(::open(device.path.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC));
    Port port = Port::open(device.path, {.mark_errors = true}).value();
    EXPECT_EQ(settings_of(other.get()).c_iflag, static_cast<tcflag_t>(PARMRK));
    const auto body = [&]() -> Task<void> {
        EXPECT_TRUE(co_await device.terminal.write_all("a\xff"));
        std::array<char, 3> marked{};
        EXPECT_TRUE(co_await port.read_exactly(marked));
        EXPECT_EQ(std::string(marked.data(), 3), "a\xff\xff");
    };
    run(body());
}

TEST(Port, IgnoresUnsupportedFeaturesOnRequest) {
    const Device device = make_device();
    const Options wanted{.low_latency = true, .rs485 = penstock::serial::Rs485()};
    EXPECT_EQ(Port::open(device.path, wanted).error(), std::errc::operation_not_supported);
    Options tolerant = wanted;
    tolerant.ignore_unsupported = true;
    EXPECT_TRUE(Port::open(device.path, tolerant));
}

TEST(Port, InitialLinesNeedADriverWithThem) {
    const Device device = make_device();
    EXPECT_FALSE(Port::open(device.path, {.initial_rts = false}));
    EXPECT_FALSE(Port::open(device.path, {.initial_dtr = true}));
    EXPECT_TRUE(Port::open(device.path)) << "nothing of the refused ones is left";
}

TEST(Port, SwitchesBetweenSharedAndExclusive) {
    const Device device = make_device();
    Port port = Port::open(device.path).value();
    EXPECT_TRUE(port.configure({.exclusive = false}));
    {
        const Result<Port> second = Port::open(device.path, {.exclusive = false});
        ASSERT_TRUE(second);
        EXPECT_EQ(port.configure({.exclusive = true}).error(), std::errc::device_or_resource_busy);
        EXPECT_FALSE(port.options().exclusive);
    }
    EXPECT_TRUE(port.configure({.exclusive = true}));
    EXPECT_EQ(Port::open(device.path).error(), std::errc::device_or_resource_busy);
}

} // namespace
