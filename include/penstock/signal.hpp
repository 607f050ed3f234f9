#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>

#include <penstock/detail/pollable.hpp>
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

/// Signals as something to wait for.
///
///     Result<Signal> stop = Signal::on({SIGINT, SIGTERM});
///     const Result<int> which = co_await stop->wait();
///
/// From `on` until the object ends arrivals are kept, also between two waits, and in order: up to 65,536
/// that nobody has waited for yet (a pipe's capacity), what comes then is lost. The kernel itself makes one
/// of several standard signals that are pending at the same time (signal(7)). What the signals did before
/// is put back at the end. One object in the process has a signal at a time. For SIGCHLD
/// use `process::Child::wait`, which needs no signal. It may be waited for on any thread's loop, on one
/// for good.
class Signal {
public:
    using Wait = detail::SignalOperation;

    /// Errors: `device_or_resource_busy` when another object has one of them, `invalid_argument` for
    /// SIGKILL, SIGSTOP and what is no signal, `too_many_files_open` and its like. Then none is taken.
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

    /// Waits for the next arrival and yields its number. A cancelled wait has taken none.
    [[nodiscard]] Wait wait() noexcept { return Wait(arrivals_.get()); }

private:
    Signal(std::unique_ptr<detail::Pollable> arrivals, OwnedDescriptor route) noexcept
        : arrivals_(std::move(arrivals)), route_(std::move(route)) {}

    std::unique_ptr<detail::Pollable> arrivals_;
    OwnedDescriptor route_;
};

} // namespace penstock
