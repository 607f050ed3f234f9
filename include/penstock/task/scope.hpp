#pragma once

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/children.hpp>
#include <penstock/detail/task/deadline.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {
class AcceptLoop;
class EmbeddedTask;
class ScopeJoin;
class DrainOperation;

/// Gets the exceptions of spawned tasks.
class ExceptionHandler {
public:
    virtual void handle(const std::exception_ptr& exception) noexcept = 0;

protected:
    ~ExceptionHandler() = default;
};
} // namespace detail

/// Owns spawned tasks. All of them end before the scope ends. `with_scope` creates the scope and
/// passes it to the body, which may pass the reference on.
///
/// Thread safety: only on the thread of its loop.
class Scope {
public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// Starts a task in the loop's next iteration. Its frame and parameters are freed as soon as it
    /// has ended.
    ///
    /// Errors: a `Task<void>` handles its own errors. The first `Task<Result<>>` that returns an
    /// error cancels everything else in the scope, and the scope returns that error.
    /// `operation_canceled` after `cancel` or a failure is not an error. The first exception also
    /// cancels the rest. It is rethrown when all tasks have ended. Later errors and exceptions are
    /// dropped.
    ///
    /// Cancellation: in a scope that was cancelled or has failed, the task starts cancelled.
    ///
    /// Throws `std::bad_alloc`. The task does not run then.
    void spawn(Task<void> task);
    void spawn(Task<Result<>> task);

    /// Waits until all spawned tasks have ended, at most `grace`. Then cancels those that remain,
    /// and every task spawned later. Does not cancel the body, and does not wait for the cancelled
    /// tasks: `with_scope` does.
    ///
    /// For a graceful shutdown, at the end of the body: stop accepting, `co_await
    /// scope.drain(5s)`. Call it from the body. A spawned task cannot wait for its own end.
    ///
    /// Errors: `timed_out` if tasks were cancelled, `operation_canceled`, and
    /// `device_or_resource_busy` if another task drains the scope.
    template <typename Rep, typename Period>
    [[nodiscard]] Task<Result<>> drain(std::chrono::duration<Rep, Period> grace) {
        return drain_until(detail::deadline_after(grace));
    }

    /// Cancels everything in the scope: the body, the spawned tasks, and tasks spawned later.
    void cancel() noexcept;

    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// The number of spawned tasks that have not ended.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    friend class detail::AcceptLoop;
    friend class detail::EmbeddedTask;
    friend class detail::ScopeJoin;

    /// From now on an exception ends the spawned task that threw it and no other one. A `try` in
    /// each task would cost a server a frame for each connection.
    void isolate(detail::ExceptionHandler& handler) noexcept;

    explicit Scope(detail::ScopeJoin& join) noexcept : join_(join) {}

    [[nodiscard]] Task<Result<>> drain_until(io::MonotonicTime deadline);

    detail::ScopeJoin& join_;
    std::size_t size_ = 0;
    bool cancelled_ = false;
};

namespace detail {

/// The children of a scope, and the first failure.
class ScopeJoin : public JoinBase {
public:
    [[nodiscard]] Scope& scope() noexcept { return scope_; }

    template <typename T> void spawn(Task<T>&& task);
    /// Counts a task that another object owns as a spawned one. Its owner calls `remove_spawned`
    /// when the task has ended, and nothing of the scope afterwards.
    void adopt(ChildBase& spawned) noexcept;
    void remove_spawned() noexcept;

    void set_exception_handler(ExceptionHandler& handler) noexcept { handler_ = &handler; }

    /// Cancels all children, present and future.
    void cancel() noexcept {
        cancelling_ = true;
        cancel_children();
    }

    /// Cancels all children, present and future, except the body.
    void cancel_spawned() noexcept {
        cancelling_ = true;
        cancel_children(body_child_);
    }

protected:
    ScopeJoin() noexcept : JoinBase(&on_child_end), scope_(*this) {}
    ~ScopeJoin() = default;

    [[nodiscard]] bool cancelling() const noexcept { return cancelling_; }

    void set_body(ChildBase& body) noexcept { body_child_ = &body; }

    /// Ignored if there was a failure before.
    void fail_with(std::exception_ptr exception) noexcept;

    void rethrow_if_threw() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

    /// The first failure, or else `operation_canceled` if a spawned task has reported that a
    /// cancellation from outside ended it.
    [[nodiscard]] std::error_code error() const noexcept {
        return !error_ && cut_short_ ? std::make_error_code(std::errc::operation_canceled) : error_;
    }

private:
    friend class DrainOperation;
    template <typename T> class Spawned;

    static void on_child_end(JoinBase& join, ChildBase& child) noexcept;
    void record_failure(const ChildBase& child) noexcept;

    Scope scope_;
    const ChildBase* body_child_ = nullptr;
    DrainOperation* draining_ = nullptr;
    ExceptionHandler* handler_ = nullptr; ///< null: the first exception ends the scope
    bool cancelling_ = false;
    bool cut_short_ = false;
    std::error_code error_;
    std::exception_ptr exception_;
};

/// The scope and its body. The body is called only here, because a body that is not a coroutine may
/// spawn before it returns its task, and may throw afterwards.
template <typename T, typename Body> class ScopeOperation final : public ScopeJoin {
public:
    explicit ScopeOperation(Body& function) noexcept : function_(function) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return join_children(task, [this] {
            try {
                body_.emplace(*this, std::invoke(function_, scope()));
            } catch (...) {
                fail_with(std::current_exception());
                return;
            }
            add_child(*body_);
            set_body(*body_);
            if (cancelling()) { // the body cancelled the scope before it returned
                body_->cancel();
            }
            body_->start(context());
        });
    }

    void await_resume() const { rethrow_if_threw(); }

    [[nodiscard]] Child<T>& body() noexcept {
        return *body_; // NOLINT(bugprone-unchecked-optional-access): without one it has thrown
    }
    using ScopeJoin::error;

private:
    Body& function_;
    std::optional<Child<T>> body_;
};

template <typename T> struct ScopeResultOf {
    using type = Result<T>;
};
template <typename T> struct ScopeResultOf<Result<T>> {
    using type = Result<T>;
};

template <typename Body>
using BodyResult = typename std::invoke_result_t<Body&, Scope&>::value_type;

template <typename Body> using ScopeResult = typename ScopeResultOf<BodyResult<Body>>::type;

} // namespace detail

/// Runs a body that may spawn tasks, and waits until all of them have ended.
///
///     co_await with_scope([&](Scope& scope) -> Task<Result<>> {
///         for (;;) {
///             Result<TcpStream> stream = co_await listener.accept();
///             if (!stream) {
///                 co_return failure(stream.error());
///             }
///             scope.spawn(serve(std::move(*stream)));
///         }
///     });
///
/// The body runs at once, until it first suspends. The scope keeps it until the end, so it may
/// capture.
///
/// Result: the body's value, always as a `Result`. A scope without a value that `Scope::cancel`
/// ended is a success.
///
/// Errors: an error of the body or of a spawned `Task<Result<>>` cancels everything else and is the
/// result. The first exception also cancels everything else. It is rethrown when all tasks have
/// ended. If calling the body throws, its spawned tasks end first.
///
/// Cancellation: cancelling the awaiting task cancels the body and all spawned tasks. The result is
/// `operation_canceled` if that ended one of them that returns a `Result`.
template <typename Body>
    requires std::is_invocable_v<Body&, Scope&>
Task<detail::ScopeResult<Body>> with_scope(Body body) {
    using BodyResult = detail::BodyResult<Body>;
    using ScopeResult = detail::ScopeResult<Body>;
    detail::ScopeOperation<BodyResult, Body> operation(body);
    co_await operation;
    if (operation.error()) {
        co_return failure(operation.error());
    }
    if constexpr (std::is_void_v<BodyResult>) {
        operation.body().take();
        co_return ScopeResult();
    } else if constexpr (std::is_same_v<BodyResult, Result<void>>) {
        Result<> result = operation.body().take();
        if (!result && operation.scope().cancelled() && !operation.context().cancelled()) {
            co_return Result<>();
        }
        co_return result;
    } else {
        co_return operation.body().take();
    }
}

} // namespace penstock
