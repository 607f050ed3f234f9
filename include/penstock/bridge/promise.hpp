#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include <penstock/detail/moved_from.hpp>
#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/errors.hpp>
#include <penstock/io/never_destroyed.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {

/// What a promise and its future share.
template <typename T> struct PromiseState {
    std::mutex lock;
    std::optional<Result<T>> result;
    WaitQueue waiting;

    void complete(Result<T> value) noexcept {
        Waiter::WakeList wake_list;
        const std::lock_guard guard(lock);
        if (!result) {
            result.emplace(std::move(value));
            wake_list.add_all(waiting);
        }
    }

    /// The state of a future that was moved from. Its result is `Error::broken_promise`.
    [[nodiscard]] static PromiseState& abandoned() noexcept {
        static io::NeverDestroyed<PromiseState> state;
        (*state).complete(failure(Error::broken_promise));
        return *state;
    }
};

} // namespace detail

template <typename T> class Future;

/// The sending end of a single result: connects a library that reports its results to callbacks.
///
///     auto [promise, future] = make_promise<Reply>();
///     client.request(query, [promise = std::move(promise)](Reply reply) mutable {
///         promise.set(std::move(reply));
///     });
///     Result<Reply> reply = co_await future.wait();
///
/// A `Promise` cannot be copied, and a `std::function` must be copyable: put the promise into a
/// `std::shared_ptr` for it.
///
/// The callback may run before the task waits, and after the task was cancelled: both ends share
/// the state.
///
/// Thread safety: any thread may set the result, even one without a loop.
template <typename T = void> class Promise {
public:
    Promise(Promise&&) noexcept = default;
    Promise& operator=(Promise&& other) noexcept {
        if (this != &other) {
            abandon();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    Promise(const Promise&) = delete;
    Promise& operator=(const Promise&) = delete;

    /// Without a result, the future gets `Error::broken_promise`.
    ~Promise() { abandon(); }

    /// Sets the result: a value or a `failure(...)`. Only the first call has an effect. On a
    /// promise that was moved from, the result would be lost, so this terminates the program with a
    /// message.
    void set(Result<T> result) noexcept {
        if (!state_) [[unlikely]] {
            detail::report_moved_from("a Promise");
        }
        state_->complete(std::move(result));
    }

    /// Sets success, for a promise without a value.
    void set() noexcept
        requires(std::is_void_v<T>)
    {
        set(Result<T>());
    }

private:
    template <typename U> friend std::pair<Promise<U>, Future<U>> make_promise();

    explicit Promise(std::shared_ptr<detail::PromiseState<T>> state) noexcept
        : state_(std::move(state)) {}

    void abandon() noexcept {
        if (state_) {
            state_->complete(failure(Error::broken_promise));
        }
    }

    std::shared_ptr<detail::PromiseState<T>> state_;
};

/// The receiving end of a `Promise`. Must outlive the task that waits for it.
template <typename T = void> class Future {
public:
    class Wait;

    /// Waits for the result and takes it. Errors: the one that was set, `Error::broken_promise` if
    /// the promise was destroyed without a result or this future was moved from,
    /// `operation_canceled`. A cancelled wait leaves the result, so the call may be repeated. After
    /// a wait that has taken the result, a further one returns a moved-from value.
    [[nodiscard]] Wait wait() noexcept { return Wait(state()); }

    /// Whether `wait` would return at once. Any thread may call this.
    [[nodiscard]] bool is_ready() const noexcept {
        detail::PromiseState<T>& shared = state();
        const std::lock_guard guard(shared.lock);
        return shared.result.has_value();
    }

private:
    template <typename U> friend std::pair<Promise<U>, Future<U>> make_promise();

    explicit Future(std::shared_ptr<detail::PromiseState<T>> state) noexcept
        : state_(std::move(state)) {}

    [[nodiscard]] detail::PromiseState<T>& state() const noexcept {
        return state_ ? *state_ : detail::PromiseState<T>::abandoned();
    }

    std::shared_ptr<detail::PromiseState<T>> state_;
};

template <typename T> class Future<T>::Wait final : public detail::WaitOperation<Wait, T> {
public:
    explicit Wait(detail::PromiseState<T>& state) noexcept
        : detail::WaitOperation<Wait, T>(state.lock, state.waiting), state_(&state) {}

    bool try_now(detail::Waiter::WakeList& /*wake_list*/) const noexcept {
        return state_->result.has_value();
    }

    [[nodiscard]] Result<T> result() noexcept {
        const std::lock_guard guard(state_->lock);
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): the wait has ended with a result
        return std::move(*state_->result);
    }

private:
    detail::PromiseState<T>* state_;
};

/// Makes a promise and its future. Throws `std::bad_alloc`.
template <typename T = void> [[nodiscard]] std::pair<Promise<T>, Future<T>> make_promise() {
    auto state = std::make_shared<detail::PromiseState<T>>();
    return {Promise<T>(state), Future<T>(state)};
}

} // namespace penstock
