#pragma once

#include <cassert>
#include <concepts>
#include <coroutine>
#include <type_traits>

#include <penstock/detail/transfer.hpp>
#include <penstock/io/work.hpp>
#include <penstock/task_context.hpp>

namespace penstock {

namespace detail {
class PromiseBase;
}

/// The pattern of an operation: the base of everything a task can wait for.
///
/// An operation is an object that a function returns by value and that `co_await` keeps in the
/// coroutine's frame. It is what the dispatcher knows of the waiting task, so waiting allocates
/// nothing, and its end resumes the coroutine from the dispatcher without another turn of the loop.
/// Its life:
///
///  1. `co_await` tells it the task's context (`enter`, done by the promise).
///  2. `await_ready()`: when the task has been cancelled, the result is `operation_canceled` and the
///     answer is true. Otherwise it tries to finish at once (the system call first) if the loop's
///     budget allows, `context().loop().spend()`, and answers whether it did.
///  3. `await_suspend(handle)`: calls `suspend(handle)` and hands itself to whoever will finish it
///     (a descriptor's watch, the timers, a mutex's queue). When that fails it calls `unsuspend()`,
///     keeps the error as its result, and answers false.
///  4. One of these, exactly once, and after it the operation may not be touched any more, because
///     the task may have destroyed it:
///       - `resume()`, from a dispatcher of the loop (a watch, a timer, ready work): the task goes on
///         inside of this call;
///       - `resume_soon()`, from anywhere else on the loop's thread, such as another task's call: it
///         goes on in the next iteration. So a task's call never runs other tasks;
///       - `resume_from_any_thread()`.
///  5. Cancellation calls the function given to the constructor, at most once, and only while the
///     operation is suspended and none of the three has been called. It takes the operation back from
///     whoever had it, sets `operation_canceled` as its result and calls `resume_soon()`. An operation
///     whose end is already on its way to this thread (a worker has the job, the kernel has the
///     buffer) only asks for an early end here, and is resumed when that has come.
///  6. `await_resume()` returns the result.
///
/// An operation may be moved until it is awaited, and is awaited once. Most socket operations derive
/// from `detail::ReadinessOperation`, which has all of this but the system call.
class Suspension : public io::Work {
public:
    Suspension(const Suspension&) = delete;
    Suspension& operator=(const Suspension&) = delete;
    Suspension& operator=(Suspension&&) = delete;

    /// The promise's `await_transform` calls this before anything else.
    void enter(TaskContext& context) noexcept { context_ = &context; }

    [[nodiscard]] TaskContext& context() const noexcept { return *context_; }

    /// The innermost coroutine that waits here, for the trace.
    [[nodiscard]] const detail::PromiseBase* promise() const noexcept { return promise_; }

protected:
    using Cancel = void (*)(Suspension&) noexcept;

    explicit Suspension(Cancel cancel) noexcept : Work(&run_resume), cancel_(cancel) {}
    Suspension(Suspension&&) = default;
    ~Suspension() = default;

    template <std::derived_from<detail::PromiseBase> Promise>
    void suspend(std::coroutine_handle<Promise> waiting) noexcept {
        handle_ = waiting;
        promise_ = &waiting.promise();
        context_->waiting_ = this;
    }

    void unsuspend() noexcept { context_->waiting_ = nullptr; }

    void resume() {
        context_->waiting_ = nullptr;
        context_->loop().refill();
        detail::resume(handle_);
    }

    void resume_soon() noexcept {
        cancel_ = nullptr;
        context_->loop().schedule(*this);
    }

    /// The caller has made sure, by a lock of its own, that no cancellation can come in between.
    void resume_from_any_thread() noexcept { context_->loop().wake(*this); }

    /// The waiting coroutine, for an operation that ends in another coroutine's `final_suspend`.
    [[nodiscard]] std::coroutine_handle<> take_handle() noexcept {
        context_->waiting_ = nullptr;
        return handle_;
    }

private:
    friend class TaskContext;

    static void run_resume(Work& work) { static_cast<Suspension&>(work).resume(); }

    Cancel cancel_;
    TaskContext* context_ = nullptr;
    std::coroutine_handle<> handle_;
    const detail::PromiseBase* promise_ = nullptr;
};

/// What can be awaited in a task besides a `Task`.
template <typename T>
concept Operation = std::derived_from<std::remove_reference_t<T>, Suspension> &&
                    requires(std::remove_reference_t<T>& operation) {
                        { operation.await_ready() } -> std::convertible_to<bool>;
                        operation.await_resume();
                    };

} // namespace penstock
