#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <penstock/detail/children.hpp>
#include <penstock/result.hpp>

namespace penstock {

namespace detail {
class ScopeGathering;
}

/// Where tasks are spawned: they end before it ends. `with_scope` makes it and gives it to its body,
/// which may hand the reference on to whatever runs inside.
///
/// Belongs to its loop's thread.
class Scope {
public:
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    /// Starts a task in the loop's next iteration, beside what else runs here. It is freed, with its
    /// parameters, as soon as it has ended.
    ///
    /// A `Task<void>` deals with its errors itself. The first `Task<Result<>>` that yields an error
    /// cancels everything else in the scope, and its error is the scope's; `operation_canceled` after
    /// a cancellation is no error. The same holds for the first exception, which is thrown on when all
    /// have ended. What fails after that is dropped.
    ///
    /// Throws `std::bad_alloc`; the task does not run then. In a scope that was cancelled, or has
    /// failed, the task runs cancelled from the start.
    void spawn(Task<void> task);
    void spawn(Task<Result<>> task);

    /// Cancels everything in the scope: its body, what was spawned, and what will be.
    void cancel() noexcept;

    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// How many spawned tasks have not ended.
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
    friend class detail::ScopeGathering;

    explicit Scope(detail::ScopeGathering& gathering) noexcept : gathering_(gathering) {}

    detail::ScopeGathering& gathering_;
    std::size_t size_ = 0;
    bool cancelled_ = false;
};

namespace detail {

/// A scope's children, and why it failed.
class ScopeGathering : public Gathering {
public:
    [[nodiscard]] Scope& scope() noexcept { return scope_; }

    template <typename T> void spawn(Task<T>&& task, std::size_t place);

    /// Cancels all children, now and later.
    void end_early() noexcept {
        ending_ = true;
        cancel_children();
    }

protected:
    ScopeGathering() noexcept : Gathering(&note_end), scope_(*this) {}
    ~ScopeGathering() = default;

    [[nodiscard]] bool ends_early() const noexcept { return ending_; }

    /// Unless something failed before.
    void fail_with(std::exception_ptr exception) noexcept;

    void rethrow_if_threw() const {
        if (exception_) {
            std::rethrow_exception(exception_);
        }
    }

    [[nodiscard]] std::error_code error() const noexcept { return error_; }

private:
    template <typename T> class Spawned;

    static void note_end(Gathering& gathering, ChildBase& child) noexcept;
    void note_failure(const ChildBase& child) noexcept;

    Scope scope_;
    bool ending_ = false;
    std::error_code error_;
    std::exception_ptr exception_;
};

/// The scope with its body, which is called only here: one that is no coroutine may spawn before it
/// returns its task, or throw when it has.
template <typename T, typename Body> class ScopeOperation final : public ScopeGathering {
public:
    explicit ScopeOperation(Body& function) noexcept : function_(function) {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return gather(task, [this] {
            try {
                body_.emplace(*this, std::invoke(function_, scope()));
            } catch (...) {
                fail_with(std::current_exception());
                return;
            }
            enlist(*body_);
            if (ends_early()) { // by what it called before it returned
                body_->cancel();
            }
            body_->start(context());
        });
    }

    void await_resume() const { rethrow_if_threw(); }

    [[nodiscard]] Child<T>& body() noexcept {
        return *body_; // NOLINT(bugprone-unchecked-optional-access): without one it has thrown
    }
    using ScopeGathering::error;

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

/// Runs a body that may spawn tasks, and waits until they have all ended, however the body ends:
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
/// Yields the body's value, as a `Result` in any case. When the body or a `Task<Result<>>` in it yields
/// an error, everything else is cancelled, and that error is the result; the first exception is thrown
/// on, in the same way, when all have ended. A scope without a value that `Scope::cancel` ended has
/// ended as it was told to, and that is success.
///
/// The body is called and kept until the end, so it may capture; it runs at once, until it waits. When it
/// throws, what it spawned ends first.
/// Cancelling the surrounding task cancels the body and all that it spawned.
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
