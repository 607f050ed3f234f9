#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <source_location>
#include <system_error>
#include <utility>

#include <penstock/detail/frame_allocator.hpp>
#include <penstock/detail/transfer.hpp>
#include <penstock/suspension.hpp>

namespace penstock {

template <typename T> class Task;

namespace detail {

template <typename T> class TaskAwaiter;

/// What a task without an awaiting coroutine (the child of a scope, say) tells of its end.
struct Completion {
    /// Returns the coroutine to go on with, or `std::noop_coroutine()`. The ended task's frame is
    /// still alive and may be destroyed from now on, but not by this function itself.
    using Function = std::coroutine_handle<> (*)(Completion&) noexcept;

    explicit Completion(Function function) noexcept : complete(function) {}

    Function complete;
};

/// Why a task has no value: an error, or an exception.
struct Failure {
    std::error_code error;
    std::exception_ptr exception;
};

/// The part of a task's promise that does not depend on its result.
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
            return transfer(promise.awaiting_
                                ? promise.awaiting_
                                : promise.completion_->complete(*promise.completion_));
        }

        void await_resume() const noexcept {}
    };

    [[nodiscard]] FinalAwaiter final_suspend() const noexcept { return {}; }

    void unhandled_exception() noexcept { exception_ = std::current_exception(); }

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

    /// Makes this the coroutine that `awaiting` waits for, in the same context.
    void continue_with(std::coroutine_handle<> awaiting, const PromiseBase& promise) noexcept {
        awaiting_ = awaiting;
        caller_ = &promise;
        context_ = promise.context_;
    }

    /// Makes this the outermost coroutine of `context`.
    void complete_with(Completion& completion, TaskContext& context) noexcept {
        completion_ = &completion;
        context_ = &context;
    }

    /// The coroutine that awaits this one, null for the outermost of its context.
    [[nodiscard]] const PromiseBase* caller() const noexcept { return caller_; }

    /// What left the coroutine, after its end.
    [[nodiscard]] const std::exception_ptr& exception() const noexcept { return exception_; }

    /// Where this coroutine's last `co_await` stands.
    [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

protected:
    PromiseBase() = default;
    ~PromiseBase() = default;

    [[nodiscard]] std::optional<Failure> thrown() const noexcept {
        return exception_ ? std::optional(Failure{.error = {}, .exception = exception_})
                          : std::nullopt;
    }

    void rethrow_if_failed() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

private:
    std::coroutine_handle<> awaiting_;
    Completion* completion_ = nullptr;
    const PromiseBase* caller_ = nullptr;
    TaskContext* context_ = nullptr;
    std::source_location where_;
    std::exception_ptr exception_;
};

} // namespace detail
} // namespace penstock
