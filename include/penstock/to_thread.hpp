#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include <penstock/detail/worker_pool.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock {

/// What `to_thread` returns.
template <typename Function>
class [[nodiscard]] ToThreadOperation final : public Suspension, private detail::WorkerJob {
    using Value = std::invoke_result_t<Function&>;

public:
    using Outcome = std::conditional_t<is_result<Value>, Value, Result<Value>>;

    explicit ToThreadOperation(Function&& function) noexcept
        : Suspension(&cancel), WorkerJob(&run_job), function_(std::move(function)) {}

    [[nodiscard]] bool await_ready() noexcept {
        cancelled_ = context().cancelled();
        return cancelled_ && context().loop().spend();
    }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (cancelled_) { // but others must run first
            resume_soon();
            return;
        }
        try {
            detail::WorkerPool::instance().submit(*this);
        } catch (...) {
            unsuspend();
            throw;
        }
    }

    [[nodiscard]] Outcome await_resume() {
        if (cancelled_) {
            return failure(std::errc::operation_canceled);
        }
        if (exception_) {
            std::rethrow_exception(exception_);
        }
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): a call that did not throw
        return std::move(*outcome_);
    }

private:
    static void run_job(WorkerJob& job) {
        auto& self = static_cast<ToThreadOperation&>(job);
        try {
            if constexpr (std::is_void_v<Value>) {
                self.function_();
                self.outcome_.emplace();
            } else {
                self.outcome_.emplace(self.function_());
            }
        } catch (...) {
            self.exception_ = std::current_exception();
        }
        self.resume_from_any_thread();
    }

    // What has begun cannot be stopped: it is awaited.
    static void cancel(Suspension& suspension) noexcept {
        auto& self = static_cast<ToThreadOperation&>(suspension);
        if (detail::WorkerPool::withdraw(self)) {
            self.cancelled_ = true;
            self.resume_soon();
        }
    }

    Function function_;
    std::optional<Outcome> outcome_;
    std::exception_ptr exception_;
    bool cancelled_ = false;
};

/// Calls a function that blocks or computes for long on one of the process's worker threads, and yields
/// what it returns, as a `Result`: `auto sum = co_await to_thread([&] { return checksum(file); });`.
///
/// What it throws is rethrown here. When the task is cancelled before a thread had time for it, it is not
/// called (`operation_canceled`); one that has begun is awaited, so what it refers to stays alive, and
/// its value is not lost.
template <typename Function>
    requires std::is_invocable_v<std::decay_t<Function>&>
[[nodiscard]] ToThreadOperation<std::decay_t<Function>> to_thread(Function&& function) {
    return ToThreadOperation<std::decay_t<Function>>(
        std::decay_t<Function>(std::forward<Function>(function)));
}

} // namespace penstock
