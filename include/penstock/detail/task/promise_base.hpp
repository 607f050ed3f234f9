#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <source_location>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/detail/task/transfer.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock {

template <typename T> class Task;

namespace detail {

template <typename T> class TaskAwaiter;

/// Receives the end of a task that no coroutine awaits, such as the child of a scope.
struct Completion {
    /// Returns the coroutine to resume, or `std::noop_coroutine()`. The ended task is at its final
    /// suspension point, so its frame may be destroyed from now on, even by this function.
    using Function = std::coroutine_handle<> (*)(Completion&) noexcept;

    explicit Completion(Function function) noexcept : complete(function) {}

    Function complete;
};

/// An awaiter that continues another coroutine of this library inside the awaiting task.
template <typename T>
concept ContinuingAwaiter = requires { typename std::remove_cvref_t<T>::ContinuesCoroutine; };

/// The part of a task's promise that does not depend on its result type.
///
/// It is in the coroutine's frame, and owns nothing but the exception. Coroutines that await each
/// other share one `TaskContext`, which the outermost one's owner keeps alive until its completion
/// was called: so cancelling looks at one place, and `where` and `caller` give a back trace without
/// a record of it.
///
/// The end of a coroutine resumes what awaits it by symmetric transfer, so a chain of any length
/// needs no stack. The outermost coroutine calls its `Completion` instead, which may free the frame
/// that it runs in.
///
/// Thread safety: only on the thread of the context's loop.
class PromiseBase {
public:
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        free_frame(memory, size);
    }

    PromiseBase(const PromiseBase&) = delete;
    PromiseBase& operator=(const PromiseBase&) = delete;

    [[nodiscard]] std::suspend_always initial_suspend() const noexcept { return {}; }

    struct FinalAwaiter {
        [[nodiscard]] bool await_ready() const noexcept { return false; }

        template <typename Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
            PromiseBase& promise = ended.promise();
            return transfer(promise.continuation_
                                ? promise.continuation_
                                : promise.completion_->complete(*promise.completion_));
        }

        void await_resume() const noexcept {}
    };

    [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }

    void unhandled_exception() noexcept { exception_ = std::current_exception(); }

    /// As `unhandled_exception`, for a task that returns a `Result`. If the exception is the end
    /// that `unwrap` requested, returns the error instead.
    [[nodiscard]] std::optional<std::error_code> take_unwrapped_error() noexcept;

    template <typename U>
    [[nodiscard]] TaskAwaiter<U>
    await_transform(Task<U>&& task,
                    std::source_location where = std::source_location::current()) noexcept {
        where_ = where;
        return TaskAwaiter<U>(std::move(task));
    }

    /// A task is awaited once: `co_await std::move(task)`.
    template <typename U> void await_transform(Task<U>& task) = delete;

    template <Operation Awaited>
    [[nodiscard]] Awaited&&
    await_transform(Awaited&& operation,
                    std::source_location where = std::source_location::current()) noexcept {
        where_ = where;
        operation.enter(*context_); // NOLINT(clang-analyzer-core.CallAndMessage): set at the start
        return std::forward<Awaited>(operation);
    }

    template <ContinuingAwaiter Awaiter>
    [[nodiscard]] Awaiter&&
    await_transform(Awaiter&& awaiter,
                    std::source_location where = std::source_location::current()) noexcept {
        where_ = where;
        return std::forward<Awaiter>(awaiter);
    }

    /// Makes `awaiting` the continuation of this coroutine. Both share one context.
    void set_continuation(std::coroutine_handle<> awaiting, const PromiseBase& promise) noexcept {
        continuation_ = awaiting;
        caller_ = &promise;
        context_ = promise.context_;
    }

    /// Makes this the outermost coroutine of `context`.
    void set_completion(Completion& completion, TaskContext& context) noexcept {
        completion_ = &completion;
        context_ = &context;
    }

    /// The coroutine that awaits this one. Null for the outermost of a context.
    [[nodiscard]] const PromiseBase* caller() const noexcept { return caller_; }

    /// The exception that left the coroutine. Only after its end.
    [[nodiscard]] const std::exception_ptr& exception() const noexcept { return exception_; }

    /// The source location of this coroutine's last `co_await`.
    [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

protected:
    PromiseBase() = default;
    ~PromiseBase() = default;

    [[nodiscard]] std::coroutine_handle<> continuation() const noexcept { return continuation_; }

    void rethrow_if_failed() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

    /// As `rethrow_if_failed`, for a coroutine whose end is asked for more than once.
    void rethrow_once() {
        if (exception_) {
            std::rethrow_exception(std::exchange(exception_, nullptr));
        }
    }

private:
    std::coroutine_handle<> continuation_;
    Completion* completion_ = nullptr;
    const PromiseBase* caller_ = nullptr;
    TaskContext* context_ = nullptr;
    std::source_location where_;
    std::exception_ptr exception_;
};

} // namespace detail
} // namespace penstock
