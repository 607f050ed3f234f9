#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock {

class Signal;

namespace detail {

class SignalOperation final : public SystemCallOperation<SignalOperation, int> {
public:
    explicit SignalOperation(Pollable* pollable) noexcept
        : SystemCallOperation(pollable, Direction::reading) {}

    bool attempt() noexcept;
    [[nodiscard]] int result() const noexcept { return number_; }

private:
    unsigned char number_ = 0;
};

} // namespace detail

/// Receives signals as awaitable events.
///
///     Result<Signal> stop = Signal::on({SIGINT, SIGTERM});
///     const Result<int> which = co_await stop->wait();
///
/// From `on` until the object is destroyed, arrivals are queued in order, even between two waits.
/// The queue holds up to 65,536 (the capacity of a pipe). Further arrivals are lost. The kernel
/// itself merges standard signals that are pending at the same time (signal(7)). The destructor
/// restores the previous dispositions.
///
/// A signal belongs to at most one object in the process. For SIGCHLD use `process::Child::wait`,
/// which needs no signal.
///
/// Thread safety: the object belongs to the first loop on which a task waits for it.
class Signal {
public:
    using Wait = detail::SignalOperation;

    /// Subscribes to the signals. Errors: `device_or_resource_busy` if another object has one of
    /// them, `invalid_argument` for SIGKILL, SIGSTOP and numbers that are not signals, and those of
    /// pipe2(2), such as `too_many_files_open`. After an error, all dispositions are as before.
    [[nodiscard]] static Result<Signal> on(std::initializer_list<int> numbers) {
        return on(std::span(numbers.begin(), numbers.size()));
    }
    [[nodiscard]] static Result<Signal> on(std::span<const int> numbers);

    Signal(Signal&&) noexcept = default;
    Signal& operator=(Signal&& other) noexcept {
        Signal taken(std::move(other));
        std::swap(arrivals_, taken.arrivals_);
        std::swap(route_, taken.route_);
        return *this;
    }
    Signal(const Signal&) = delete;
    Signal& operator=(const Signal&) = delete;
    ~Signal();

    /// Waits for the next arrival and returns the signal's number. Errors:
    /// `device_or_resource_busy` if another task waits, `operation_canceled`. A cancelled wait
    /// takes no arrival from the queue.
    [[nodiscard]] Wait wait() noexcept { return Wait(arrivals_.get()); }

private:
    Signal(std::unique_ptr<detail::Pollable> arrivals, OwnedDescriptor route) noexcept
        : arrivals_(std::move(arrivals)), route_(std::move(route)) {}

    std::unique_ptr<detail::Pollable> arrivals_;
    OwnedDescriptor route_;
};

} // namespace penstock
