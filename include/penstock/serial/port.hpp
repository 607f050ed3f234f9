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

#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/detail/file_calls.hpp>
#include <penstock/detail/serial_line.hpp>
#include <penstock/detail/write_in_turn.hpp>
#include <penstock/result.hpp>
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/task.hpp>

namespace penstock::serial {

namespace detail {

/// read(2) of a terminal in raw mode. Nothing to read where something was announced, EIO and ENXIO mean
/// that the device has gone: ENODEV.
struct PortCalls : penstock::detail::FileCalls {
    static ssize_t read(int fd, MutableBytes into) noexcept;
    static ssize_t read(int fd, std::span<const iovec> parts) noexcept;
    static ssize_t write(int fd, std::span<const Bytes> parts, std::size_t offset) noexcept;
};

/// The settings that were in force before a port was opened.
struct PreviousSettings;

struct DeletePreviousSettings {
    void operator()(PreviousSettings* settings) const noexcept;
};

} // namespace detail

/// A serial port in raw mode, as a stream: what TCP and Unix sockets can do, a port can.
///
///     Result<serial::Port> port = serial::Port::open("/dev/ttyUSB0", {.baud_rate = 9600});
///     co_await port->write_all("A\r");
///
/// A device that is unplugged is `no_such_device`, in every operation. A port has no end of stream.
///
/// Belongs to the thread of the loop on which it first had to wait. It may be moved while tasks use it, and
/// closed: they end with `operation_canceled` then. What yields a `Result` at once asks the driver
/// meanwhile, which takes a UART microseconds, a USB adapter about a millisecond.
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

    /// Opens a port, by name or by a link such as /dev/serial/by-id/...; it does not wait for a carrier.
    /// Errors: `no_such_file_or_directory`, `permission_denied` (members of the group dialout may),
    /// `device_or_resource_busy` when somebody has it, `inappropriate_io_control_operation` for what is
    /// no serial port, `invalid_argument` and `operation_not_supported` for options that are wrong or
    /// that the driver cannot do. After an error the port is as it was.
    [[nodiscard]] static Result<Port> open(std::string_view path, const Options& options);
    [[nodiscard]] static Result<Port> open(std::string_view path) { return open(path, Options()); }

    /// Changes the settings while the port is open, all of them or, on an error, none. What the driver
    /// has really set is read back: a rate that it missed by more than 2.5 %, or a mode that it
    /// dropped, is `operation_not_supported`.
    Result<> configure(const Options& options);

    [[nodiscard]] const Options& options() const noexcept { return options_; }
    [[nodiscard]] const std::string& path() const noexcept { return path_; }

    /// The rate that the driver really made of the one that was asked for; 0 when closed.
    [[nodiscard]] std::uint32_t actual_baud_rate() const noexcept {
        return is_open() ? actual_baud_rate_ : 0;
    }

    /// Writes what there is room for now, at least one byte, and yields how much that was. One task at a
    /// time writes.
    ///
    /// With RS-485 switched in software (`Rs485::software`) it takes the bus, and returns when the last
    /// bit is on the wire and the bus is free again; a second writer is told `device_or_resource_busy`
    /// until then. Cancelled or failed, it discards what has not left, and frees the bus.
    [[nodiscard]] Write write(Bytes from) noexcept {
        return {{pollable_.get(), from}, switched_line(), from.size()};
    }

    /// The same with all parts, in order, in as few system calls as they fit: `write_all(head, body)`.
    /// Cancelled or failed, it may have written a part.
    template <typename... Parts>
        requires(sizeof...(Parts) > 0 && (std::convertible_to<const Parts&, Bytes> && ...))
    [[nodiscard]] WriteAll<std::array<Bytes, sizeof...(Parts)>>
    write_all(const Parts&... parts) noexcept {
        return {{pollable_.get(), {Bytes(parts)...}}, switched_line(), (Bytes(parts).size() + ...)};
    }

    /// The same for a number of parts that is known only when the program runs.
    [[nodiscard]] WriteAll<std::span<const Bytes>>
    write_all(std::span<const Bytes> parts) noexcept {
        std::shared_ptr<detail::Line> line = switched_line();
        std::size_t size = 0;
        if (line != nullptr) {
            for (const Bytes& part : parts) {
                size += part.size();
            }
        }
        return {{pollable_.get(), parts}, std::move(line), size};
    }

    /// Waits until the driver has handed on all that was written, which it asks for at the pace of the
    /// line; a chip's own few bytes may still be on their way. Can be cancelled.
    [[nodiscard]] Task<Result<>> drain() { return detail::until_handed_on(line_); }

    /// Waits until the last bit is on the wire. Exact where the driver tells it (most UARTs); elsewhere
    /// the time is waited that the chip's buffer takes. Can be cancelled.
    [[nodiscard]] Task<Result<>> drain_exact() { return detail::until_sent(line_); }

    /// Holds the line in the break state, one task at a time. Also when it is cancelled the break is ended,
    /// or when the port is closed. With RS-485 switched in software the bus is taken for it, as for a
    /// write.
    [[nodiscard]] Task<Result<>> send_break(std::chrono::milliseconds duration) {
        return detail::hold_break(line_, duration);
    }

    /// The lines of the other side, and this one's own two. A driver without them (a pty) says
    /// `inappropriate_io_control_operation` or `invalid_argument`.
    [[nodiscard]] Result<ModemLines> modem_lines() const noexcept;
    [[nodiscard]] Result<ControlLines> control_lines() const noexcept;
    Result<> data_terminal_ready(bool on) noexcept;
    Result<> request_to_send(bool on) noexcept;

    /// Waits until one of these lines changes, and yields those that did. Looks every 10 ms; where the
    /// driver counts changes, as most do, a pulse that was shorter is told of too. Can be cancelled.
    /// `invalid_argument` when no line is chosen.
    [[nodiscard]] Task<Result<ModemLines>> modem_change(ModemLines lines) {
        return detail::until_change(line_, lines);
    }

    /// What went wrong on the line, as far as the driver counts it; else `operation_not_supported`.
    [[nodiscard]] Result<ErrorCounters> error_counters() const noexcept;

    /// Bytes that have arrived and were not read; bytes that were written and have not left.
    [[nodiscard]] Result<std::size_t> input_waiting() const noexcept;
    [[nodiscard]] Result<std::size_t> output_waiting() const noexcept;

    /// Throws those bytes away.
    Result<> reset_input() noexcept;
    Result<> reset_output() noexcept;

    /// Puts the settings back that were in force before `open`, and closes the port at once: what has
    /// not left is lost, because close(2) would hold up the loop for as long as it takes; `drain` first.
    void close() noexcept;

private:
    Result<> apply(const Options& options);

    /// Null where writes need no more than the driver.
    [[nodiscard]] std::shared_ptr<detail::Line> switched_line() const noexcept {
        return line_ != nullptr && line_->is_switched() ? line_ : nullptr;
    }

    std::unique_ptr<detail::PreviousSettings, detail::DeletePreviousSettings> previous_;
    std::shared_ptr<detail::Line> line_;
    Options options_;
    std::string path_;
    std::uint32_t actual_baud_rate_ = 0;
};

} // namespace penstock::serial
