#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/detail/file_calls.hpp>
#include <penstock/result.hpp>
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
/// Belongs to the thread of the loop on which it first had to wait. `drain` and `send_break` are tasks
/// of the port, which outlives them and is not moved meanwhile; reads and writes do not mind either.
class Port : public penstock::detail::Readable<detail::PortCalls,
                                               penstock::detail::Writable<detail::PortCalls>> {
public:
    /// A closed port.
    Port() = default;
    Port(Port&&) noexcept = default;
    Port& operator=(Port&& other) noexcept {
        Port taken(std::move(other));
        std::swap(pollable_, taken.pollable_);
        std::swap(previous_, taken.previous_);
        std::swap(options_, taken.options_);
        std::swap(path_, taken.path_);
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

    /// Waits until the driver has handed on all that was written, which it asks for at the pace of the
    /// line; a chip's own few bytes may still be on their way. Can be cancelled.
    [[nodiscard]] Task<Result<>> drain();

    /// Holds the line in the break state. Also when it is cancelled the break is ended.
    [[nodiscard]] Task<Result<>> send_break(std::chrono::milliseconds duration);

    /// The lines of the other side, and this one's own two. A driver without them (a pty) says
    /// `inappropriate_io_control_operation` or `invalid_argument`.
    [[nodiscard]] Result<ModemLines> modem_lines() const noexcept;
    Result<> data_terminal_ready(bool on) noexcept;
    Result<> request_to_send(bool on) noexcept;

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

    std::unique_ptr<detail::PreviousSettings, detail::DeletePreviousSettings> previous_;
    Options options_;
    std::string path_;
};

} // namespace penstock::serial
