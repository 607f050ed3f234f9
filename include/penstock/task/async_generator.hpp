#pragma once

#include <coroutine>
#include <optional>
#include <source_location>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/moved_from.hpp>
#include <penstock/detail/task/promise_base.hpp>
#include <penstock/detail/task/transfer.hpp>
#include <penstock/detail/task/unwrap_awaiter.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// A sequence that a coroutine computes step by step, and that may wait for I/O between two items:
///
///     AsyncGenerator<std::string> lines(net::TcpStream& stream) {
///         BufReader reader(stream);
///         while (const auto line = co_await reader.line()) {
///             if (!*line) { co_return; }
///             co_yield std::string(**line);
///         }
///     }
///
///     auto all = lines(stream);
///     while (std::optional<std::string> line = co_await all.next()) { ... }
///
/// The body runs only while a task awaits `next`, and as a part of that task: it shares the task's
/// cancellation. No task is started, and a step neither allocates nor grows the stack. To report
/// errors, yield `Result<T>`: then `co_await unwrap(...)` yields an error as the last item.
///
/// The generator may be destroyed between two steps. That destroys the body at its `co_yield`: its
/// local variables are destroyed, and nothing after that line runs. The generator must not be
/// destroyed while a task awaits `next`.
///
/// Thread safety: none. One task at a time awaits `next`.
template <typename T> class [[nodiscard]] AsyncGenerator {
    static_assert(!std::is_reference_v<T>, "an AsyncGenerator yields values");

public:
    class promise_type;
    class Next;

    AsyncGenerator(AsyncGenerator&& other) noexcept
        : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
    AsyncGenerator& operator=(AsyncGenerator&& other) noexcept {
        AsyncGenerator taken(std::move(other));
        std::swap(coroutine_, taken.coroutine_);
        return *this;
    }
    AsyncGenerator(const AsyncGenerator&) = delete;
    AsyncGenerator& operator=(const AsyncGenerator&) = delete;
    ~AsyncGenerator() {
        if (coroutine_) {
            coroutine_.destroy();
        }
    }

    /// Runs the body to its next item and returns the item. Returns an empty optional at the end of
    /// the sequence, and from then on. Rethrows an exception of the body, which ends the sequence.
    /// On a moved-from generator, this terminates the program with a message.
    ///
    /// Cancellation: the body's operations complete with `operation_canceled`. What the body does
    /// then is its own decision: `next` has no result of its own for it.
    [[nodiscard]] Next next() noexcept {
        if (!coroutine_) [[unlikely]] {
            detail::report_moved_from("an AsyncGenerator");
        }
        return Next(coroutine_);
    }

private:
    explicit AsyncGenerator(std::coroutine_handle<promise_type> coroutine) noexcept
        : coroutine_(coroutine) {}

    std::coroutine_handle<promise_type> coroutine_;
};

template <typename T> class AsyncGenerator<T>::promise_type final : public detail::PromiseBase {
public:
    [[nodiscard]] AsyncGenerator get_return_object() noexcept {
        return AsyncGenerator(std::coroutine_handle<promise_type>::from_promise(*this));
    }

    using PromiseBase::await_transform;

    /// `co_await unwrap(...)`.
    template <typename Source>
    [[nodiscard]] auto
    await_transform(detail::Unwrap<Source>&& unwrap,
                    std::source_location where = std::source_location::current()) noexcept {
        static_assert(is_result<T>, "unwrap needs a generator that yields Results");
        return detail::unwrap_in(*this, std::move(unwrap), where);
    }

    void return_void() const noexcept {}

    void unhandled_exception() noexcept {
        if constexpr (is_result<T>) {
            if (const std::optional<std::error_code> error = take_unwrapped_error()) {
                item_.emplace(std::unexpect, *error);
            }
        } else {
            PromiseBase::unhandled_exception();
        }
    }

    struct YieldAwaiter {
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        std::coroutine_handle<>
        await_suspend(std::coroutine_handle<promise_type> yielding) const noexcept {
            return detail::transfer(yielding.promise().continuation());
        }
        void await_resume() const noexcept {}
    };

    template <typename Item = T> [[nodiscard]] YieldAwaiter yield_value(Item&& item) {
        item_.emplace(std::forward<Item>(item));
        return {};
    }

    [[nodiscard]] std::optional<T> take() {
        rethrow_once();
        return std::exchange(item_, std::nullopt);
    }

private:
    std::optional<T> item_;
};

template <typename T> class [[nodiscard]] AsyncGenerator<T>::Next {
public:
    using ContinuesCoroutine = void;

    explicit Next(std::coroutine_handle<promise_type> coroutine) noexcept : coroutine_(coroutine) {}

    [[nodiscard]] bool await_ready() const noexcept { return coroutine_.done(); }

    template <std::derived_from<detail::PromiseBase> Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> awaiting) const noexcept {
        coroutine_.promise().set_continuation(awaiting, awaiting.promise());
        return detail::transfer(coroutine_);
    }

    std::optional<T> await_resume() const { return coroutine_.promise().take(); }

private:
    std::coroutine_handle<promise_type> coroutine_;
};

} // namespace penstock
