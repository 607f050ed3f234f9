#pragma once

#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/detail/io/descriptor_calls.hpp>
#include <penstock/detail/io/descriptor_stream.hpp>
#include <penstock/result.hpp>
#include <penstock/serial/detail/line.hpp>
#include <penstock/serial/detail/software_rs485.hpp>
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/task/task.hpp>

namespace penstock::serial {

namespace detail {

/// read(2) of a terminal in raw mode. No bytes on a readable descriptor, EIO and ENXIO mean that
/// the device is gone: ENODEV.
struct PortCalls : penstock::detail::DescriptorCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept;
    static ssize_t read(int fd, std::span<const iovec> parts) noexcept;
    static ssize_t write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept;
};

/// The settings before the port was opened.
struct PreviousSettings;

struct DeletePreviousSettings {
    void operator()(PreviousSettings* settings) const noexcept;
};

} // namespace detail

/// A serial port in raw mode, as a stream with the operations of a socket.
///
///     Result<serial::Port> port = serial::Port::open("/dev/ttyUSB0", {.baud_rate = 9600});
///     co_await port->write_all("A\r");
///
/// All operations return `no_such_device` if the device was unplugged. A port has no end of stream.
/// Functions that return a plain `Result` ask the driver directly. That takes microseconds on a
/// UART and about a millisecond on a USB adapter.
///
/// Cancellation: a cancelled read has consumed nothing. The port may be moved or closed while tasks
/// use it. Closing completes their operations with `operation_canceled`.
///
/// Thread safety: belongs to the loop on which it first waited, and to that loop's thread.
class Port : public penstock::detail::Readable<detail::PortCalls> {
public:
    using Write = detail::PortWrite<penstock::detail::WriteOperation<detail::PortCalls>>;
    template <typename Parts>
    using WriteAll =
        detail::PortWrite<penstock::detail::WriteAllOperation<detail::PortCalls, Parts>>;

    /// A closed port.
    Port() = default;
    Port(Port&&) noexcept = default;
    Port& operator=(Port&& other) noexcept {
        Port taken(std::move(other));
        std::swap(pollable_, taken.pollable_);
        std::swap(previous_, taken.previous_);
        std::swap(line_, taken.line_);
        std::swap(options_, taken.options_);
        std::swap(path_, taken.path_);
        std::swap(actual_baud_rate_, taken.actual_baud_rate_);
        return *this;
    }
    Port(const Port&) = delete;
    Port& operator=(const Port&) = delete;
    ~Port() { close(); }

    /// Opens a port by its path or by a link such as /dev/serial/by-id/... . Does not wait for a
    /// carrier, and blocks for the driver's open(2) only. After an error the settings of the device
    /// are as before.
    ///
    /// Errors: `no_such_file_or_directory`, `permission_denied` (join the group dialout),
    /// `device_or_resource_busy` if another program has it, `inappropriate_io_control_operation` if
    /// it is not a serial port, `invalid_argument` for invalid options, `operation_not_supported`
    /// for options that the driver does not support.
    [[nodiscard]] static Result<Port> open(std::string_view path, const Options& options);
    [[nodiscard]] static Result<Port> open(std::string_view path) { return open(path, Options()); }

    /// Changes the settings of the open port. After an error all old settings are in force. The
    /// driver's actual settings are read back: a rate that is off by more than 2.5 % or a dropped
    /// mode returns `operation_not_supported`.
    Result<> configure(const Options& options);

    [[nodiscard]] const Options& options() const noexcept { return options_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// The rate that the driver produces. 0 if the port is closed.
    [[nodiscard]] std::uint32_t actual_baud_rate() const noexcept {
        return is_open() ? actual_baud_rate_ : 0;
    }

    /// Writes what fits into the driver's buffer now, at least one byte, and returns the count. One
    /// task at a time writes.
    ///
    /// With RS-485 in software (`Rs485::software`) a write takes the bus and returns when the last
    /// bit is on the wire and the bus is released. Until then a second writer gets
    /// `device_or_resource_busy`. A cancelled or failed write discards unsent bytes and releases
    /// the bus.
    [[nodiscard]] Write write(Bytes from) noexcept {
        return {{pollable_.get(), from}, rs485_line(), from.size()};
    }

    /// Writes all parts, in order, in as few system calls as possible: `write_all(head, body)`. A
    /// cancelled or failed write may have written a part.
    template <typename... Parts>
        requires(sizeof...(Parts) > 0 && (std::convertible_to<const Parts&, Bytes> && ...))
    [[nodiscard]] WriteAll<std::array<Bytes, sizeof...(Parts)>>
    write_all(const Parts&... parts) noexcept {
        return {{pollable_.get(), {Bytes(parts)...}}, rs485_line(), (Bytes(parts).size() + ...)};
    }

    /// The same for a number of parts known only at run time.
    [[nodiscard]] WriteAll<std::span<const Bytes>>
    write_all(std::span<const Bytes> parts) noexcept {
        std::shared_ptr<detail::Line> line = rs485_line();
        std::size_t size = 0;
        if (line != nullptr) {
            for (const Bytes& part : parts) {
                size += part.size();
            }
        }
        return {{pollable_.get(), parts}, std::move(line), size};
    }

    /// Waits until the driver's output queue is empty (TIOCOUTQ, polled at the pace of the line). A
    /// UART may still hold a few bytes. A cancelled drain returns `operation_canceled`; the bytes
    /// are sent all the same.
    [[nodiscard]] Task<Result<>> drain() { return detail::drain(line_); }

    /// Waits until the last bit is on the wire. Exact if the driver reports that (most UARTs).
    /// Otherwise waits for the time that a full FIFO of a UART takes. Cancellation: as `drain`.
    [[nodiscard]] Task<Result<>> drain_exact() { return detail::drain_exact(line_); }

    /// Holds the line in the break state for a duration. One task at a time may do so. Cancelling
    /// the task or closing the port ends the break. With RS-485 in software, a break takes the bus,
    /// as a write does.
    [[nodiscard]] Task<Result<>> send_break(std::chrono::milliseconds duration) {
        return detail::send_break(line_, duration);
    }

    /// The lines of the remote side and of this side. A driver without modem lines (a pty) returns
    /// `inappropriate_io_control_operation` or `invalid_argument`.
    [[nodiscard]] Result<ModemLines> modem_lines() const noexcept;
    [[nodiscard]] Result<ControlLines> control_lines() const noexcept;
    /// Set DTR and RTS. Errors: as `modem_lines`.
    Result<> data_terminal_ready(bool on) noexcept;
    Result<> request_to_send(bool on) noexcept;

    /// Waits until one of the selected lines changes, and returns those that changed. Polls every
    /// 10 ms. If the driver counts changes (TIOCGICOUNT), as most do, shorter pulses are reported
    /// too. Errors: `invalid_argument` if no line is selected, `operation_canceled`, and those of
    /// `modem_lines`.
    [[nodiscard]] Task<Result<ModemLines>> modem_change(ModemLines lines) {
        return detail::modem_change(line_, lines);
    }

    /// The driver's error counters. Errors: `operation_not_supported` if the driver does not count.
    [[nodiscard]] Result<ErrorCounters> error_counters() const noexcept;

    /// The number of received bytes that were not read (FIONREAD), and of written bytes that were
    /// not sent (TIOCOUTQ).
    [[nodiscard]] Result<std::size_t> input_waiting() const noexcept;
    [[nodiscard]] Result<std::size_t> output_waiting() const noexcept;

    /// Discards those bytes (tcflush(3)).
    Result<> reset_input() noexcept;
    Result<> reset_output() noexcept;

    /// Restores the settings from before `open` and closes the port. Does not wait: unsent bytes
    /// are lost, because close(2) would block the loop until they are sent. Call `drain` first.
    void close() noexcept;

private:
    Result<> apply(const Options& options);

    /// Null if writes need only the driver.
    [[nodiscard]] std::shared_ptr<detail::Line> rs485_line() const noexcept {
        return line_ != nullptr && line_->has_software_rs485() ? line_ : nullptr;
    }

    std::unique_ptr<detail::PreviousSettings, detail::DeletePreviousSettings> previous_;
    std::shared_ptr<detail::Line> line_;
    Options options_;
    std::string path_;
    std::uint32_t actual_baud_rate_ = 0;
};

} // namespace penstock::serial
