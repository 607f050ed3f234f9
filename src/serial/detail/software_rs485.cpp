#include <penstock/serial/detail/software_rs485.hpp>

#include <chrono>
#include <system_error>

#include <sys/ioctl.h>

#include "serial/driver.hpp"

namespace penstock::serial::detail {

using std::chrono::steady_clock;

Task<Result<>> Rs485Transmission::begin() {
    if (!active_) {
        co_return Result<>();
    }
    if (line_->bus_taken_) {
        co_return failure(std::errc::device_or_resource_busy);
    }
    if (const Result<> taken = driver::set_line(line_->fd_, TIOCM_RTS, mode_.rts_on_send); !taken) {
        co_return taken;
    }
    line_->bus_taken_ = has_bus_ = true;
    if (mode_.delay_before_send.count() > 0) {
        if (const Result<> slept = co_await line_->sleep_unless_closed(mode_.delay_before_send);
            !slept) {
            co_return slept;
        }
    }
    begun_ = steady_clock::now();
    co_return Result<>();
}

Task<Result<>> Rs485Transmission::finish(std::size_t count) {
    if (!has_bus_) {
        co_return Result<>();
    }
    const Result<> sent =
        co_await line_->drain_transmitter(count, begun_ + line_->transmit_time(count));
    if (!sent) {
        co_return sent;
    }
    if (mode_.delay_after_send.count() > 0) {
        if (const Result<> slept = co_await line_->sleep_unless_closed(mode_.delay_after_send);
            !slept) {
            co_return slept;
        }
    }
    co_return release_bus();
}

Result<> Rs485Transmission::release_bus() noexcept {
    has_bus_ = line_->bus_taken_ = false;
    const Rs485 mode = line_->mode_.value_or(mode_);
    return driver::set_line(line_->fd_, TIOCM_RTS, mode.rts_after_send);
}

Rs485Transmission::~Rs485Transmission() {
    if (!has_bus_) {
        return;
    }
    if (line_->fd_ < 0) { // closing has released the bus
        return;
    }
    const Result<> discarded = driver::discard_unsent(line_->fd_);
    if (discarded || discarded.error() != std::errc::no_such_device) {
        (void)release_bus();
    }
    line_->bus_taken_ = false;
}

} // namespace penstock::serial::detail
