#pragma once

#include <cassert>
#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/transfer.hpp>
#include <penstock/io/work.hpp>
#include <penstock/task/task_context.hpp>

namespace penstock {

namespace detail {
class PromiseBase;
}

/// The base of everything that a task can await, and the contract of an operation.
///
/// An operation is an object that a function returns by value. `co_await` keeps it in the
/// coroutine's frame. The dispatcher knows the waiting task by this object. Waiting therefore does
/// not allocate, and completion resumes the coroutine directly from the dispatcher, without another
/// iteration of the loop.
///
/// Life cycle:
///
///  1. The promise passes the task's context to the operation (`enter`).
///  2. `await_ready()`: if the task is cancelled, the result is `operation_canceled`, and it
///     returns true. Otherwise it tries to complete at once (the system call first) if the loop's
///     budget allows (`context().loop().consume_budget()`), and returns whether it did.
///  3. `await_suspend(handle)`: calls `suspend(handle)` and registers the operation with whatever
///     completes it (a descriptor's watch, the timers, a mutex's queue). If that fails, it calls
///     `unsuspend()`, stores the error as its result, and returns false.
///  4. Exactly one of these calls completes it. The task may destroy the operation in it, so
///     nothing may touch the operation afterwards:
///       - `resume()`, from a dispatcher of the loop (a watch, a timer, ready work): the task runs
///         inside this call;
///       - `resume_soon()`, from anywhere else on the loop's thread, such as a call made by another
///         task: the task runs in the next iteration, so a task's call never runs other tasks;
///       - `resume_from_any_thread()`.
///  5. Cancellation calls the function given to the constructor. That happens at most once, and
///     only while the operation is suspended and step 4 has not happened. The function unregisters
///     the operation, sets `operation_canceled` as its result, and calls `resume_soon()`. If the
///     completion cannot be taken back (a worker has the job, the kernel has the buffer), it only
///     requests an early completion. The operation then resumes when that arrives.
///  6. `await_resume()` returns the result.
///
/// An operation may be moved until it is awaited. It is awaited once. Most socket operations derive
/// from one private class, which implements all of this except the system call.
class OperationBase : public io::Work {
public:
    OperationBase(const OperationBase&) = delete;
    OperationBase& operator=(const OperationBase&) = delete;
    OperationBase& operator=(OperationBase&&) = delete;

    /// Called by the promise's `await_transform` before anything else.
    void enter(TaskContext& context) noexcept { context_ = &context; }

    [[nodiscard]] TaskContext& context() const noexcept { return *context_; }

    /// The innermost coroutine that waits here, for the trace.
    [[nodiscard]] const detail::PromiseBase* promise() const noexcept { return promise_; }

protected:
    using Cancel = void (*)(OperationBase&) noexcept;

    explicit OperationBase(Cancel cancel) noexcept : Work(&run_resume), cancel_(cancel) {}
    OperationBase(OperationBase&&) = default;
    ~OperationBase() = default;

    template <std::derived_from<detail::PromiseBase> Promise>
    void suspend(std::coroutine_handle<Promise> waiting) noexcept {
        handle_ = waiting;
        promise_ = &waiting.promise();
        context_->waiting_ = this;
    }

    void unsuspend() noexcept { context_->waiting_ = nullptr; }

    void resume() {
        context_->waiting_ = nullptr;
        context_->loop().refill_budget();
        detail::resume(handle_);
    }

    void resume_soon() noexcept {
        cancel_ = nullptr;
        context_->loop().schedule(*this);
    }

    /// The caller must exclude, by its own lock, that a cancellation comes in between.
    void resume_from_any_thread() noexcept { context_->loop().wake(*this); }

    /// The waiting coroutine, for an operation that completes in another coroutine's
    /// `final_suspend`.
    [[nodiscard]] std::coroutine_handle<> take_handle() noexcept {
        context_->waiting_ = nullptr;
        return handle_;
    }

    /// Makes the completion resume another coroutine of the task. Returns the waiting one, which
    /// the other one resumes at its end. Only while the operation is suspended.
    [[nodiscard]] std::coroutine_handle<> divert_to(std::coroutine_handle<> other) noexcept {
        return std::exchange(handle_, other);
    }

private:
    friend class TaskContext;

    static void run_resume(Work& work) { static_cast<OperationBase&>(work).resume(); }

    Cancel cancel_;
    TaskContext* context_ = nullptr;
    std::coroutine_handle<> handle_;
    const detail::PromiseBase* promise_ = nullptr;
};

/// An awaitable of a task other than a `Task`.
template <typename T>
concept Operation = std::derived_from<std::remove_reference_t<T>, OperationBase> &&
                    requires(std::remove_reference_t<T>& operation) {
                        { operation.await_ready() } -> std::convertible_to<bool>;
                        operation.await_resume();
                    };

} // namespace penstock
