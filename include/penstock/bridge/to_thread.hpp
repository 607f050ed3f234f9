#pragma once

#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include <penstock/detail/task/worker_pool.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

/// The operation of `to_thread`.
///
/// The object lives in the frame of the awaiting task. A worker that has started the call uses the
/// function and the outcome in this object, so the task always waits for a started call. A
/// cancellation takes effect only if it withdraws the job before a worker has taken it. Either the
/// cancellation or the worker resumes the task, never both.
///
/// Thread safety: the function runs on a worker thread. Everything else runs on the loop's thread,
/// which sees what the worker has written when the task resumes.
template <typename Function>
class [[nodiscard]] ToThreadOperation final : public OperationBase, private detail::WorkerJob {
    using Value = std::invoke_result_t<Function&>;

public:
    using Outcome = std::conditional_t<is_result<Value>, Value, Result<Value>>;

    /// `pool` is null for the process-wide pool.
    explicit ToThreadOperation(Function&& function, detail::WorkerPool* pool = nullptr) noexcept
        : OperationBase(&cancel), WorkerJob(&run_job), function_(std::move(function)), pool_(pool) {
    }

    [[nodiscard]] bool await_ready() noexcept {
        cancelled_ = context().cancelled();
        return cancelled_ && context().loop().consume_budget();
    }

    template <typename Promise> void await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (cancelled_) { // other tasks must run first
            resume_soon();
            return;
        }
        try {
            (pool_ != nullptr ? *pool_ : detail::WorkerPool::instance()).submit(*this);
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

    // A call that has started cannot be stopped, so it is awaited.
    static void cancel(OperationBase& base) noexcept {
        auto& self = static_cast<ToThreadOperation&>(base);
        if (detail::WorkerPool::withdraw(self)) {
            self.cancelled_ = true;
            self.resume_soon();
        }
    }

    Function function_;
    detail::WorkerPool* pool_;
    std::optional<Outcome> outcome_;
    std::exception_ptr exception_;
    bool cancelled_ = false;
};

/// Calls a function that blocks, or computes for long, on one of the process's worker threads.
/// Returns its value as a `Result`: `auto sum = co_await to_thread([&] { return checksum(file);
/// });`.
///
/// Errors: an exception of the function is rethrown here. `std::system_error` is thrown if no
/// thread can be started.
///
/// Cancellation: if the task is cancelled before a thread starts the call, the function is not
/// called (`operation_canceled`). A call that has started is awaited, and its value is returned. So
/// everything that the function refers to stays alive.
template <typename Function>
    requires std::is_invocable_v<std::decay_t<Function>&>
[[nodiscard]] ToThreadOperation<std::decay_t<Function>> to_thread(Function&& function) {
    return ToThreadOperation<std::decay_t<Function>>(
        std::decay_t<Function>(std::forward<Function>(function)));
}

} // namespace penstock
