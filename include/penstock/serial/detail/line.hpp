#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/result.hpp>
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/task.hpp>

namespace penstock::serial::detail {

/// The part of an open port that its tasks share with it: drains, breaks, waits for modem lines,
/// and RS-485 in software. The port may be moved or closed while such a task runs. The task then
/// completes with `operation_canceled` and does not use the descriptor any more, which may be
/// another file's by then.
class Line {
public:
    explicit Line(int fd) noexcept : fd_(fd) {}
    Line(const Line&) = delete;
    Line& operator=(const Line&) = delete;

    /// Ends a break, releases the bus, and wakes all waiting tasks.
    void close() noexcept;

    /// Sets how the port switches the bus in software. Releases the bus first. Without a mode the
    /// port does not switch.
    Result<> set_software_rs485(const std::optional<Rs485>& mode) noexcept;
    [[nodiscard]] bool has_software_rs485() const noexcept { return mode_.has_value(); }

    void set_character_time(std::chrono::nanoseconds time) noexcept { character_time_ = time; }

private:
    friend class Rs485Transmission;
    friend Task<Result<>> drain(std::shared_ptr<Line> line);
    friend Task<Result<>> drain_exact(std::shared_ptr<Line> line);
    friend Task<Result<>> send_break(std::shared_ptr<Line> line,
                                     std::chrono::milliseconds duration);
    friend Task<Result<ModemLines>> modem_change(std::shared_ptr<Line> line, ModemLines lines);

    Result<> begin_break() noexcept;
    /// Further calls do nothing.
    Result<> end_break() noexcept;

    /// Sleeps. Returns `operation_canceled` also if the port is closed.
    [[nodiscard]] Task<Result<>> sleep_unless_closed(std::chrono::nanoseconds duration);

    /// The time that `count` characters take on the wire.
    [[nodiscard]] std::chrono::nanoseconds transmit_time(std::size_t count) const noexcept;

    /// The same within bounds, as a polling interval: neither busy nor late.
    [[nodiscard]] std::chrono::nanoseconds poll_interval(std::size_t count) const noexcept;

    [[nodiscard]] Task<Result<>> drain_queue();

    /// Waits until the last bit is on the wire. At most `count` characters are left. The last one
    /// is not sent before `earliest`.
    [[nodiscard]] Task<Result<>> drain_transmitter(std::size_t count,
                                                   std::chrono::steady_clock::time_point earliest);

    int fd_;
    std::chrono::nanoseconds character_time_{0};
    std::optional<Rs485> mode_;
    bool bus_taken_ = false;
    bool in_break_ = false;
    sync::Event closed_;
};

/// The tasks of `Port`. `line` is null if the port is closed.
[[nodiscard]] Task<Result<>> drain(std::shared_ptr<Line> line);
[[nodiscard]] Task<Result<>> drain_exact(std::shared_ptr<Line> line);
[[nodiscard]] Task<Result<>> send_break(std::shared_ptr<Line> line,
                                        std::chrono::milliseconds duration);
[[nodiscard]] Task<Result<ModemLines>> modem_change(std::shared_ptr<Line> line, ModemLines lines);

} // namespace penstock::serial::detail
