#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>
#include <penstock/task/task.hpp>

namespace penstock::detail {

/// `T`, or `std::monostate` for `void`, where a value is needed.
template <typename T> using ValueOr = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename Awaited> struct AwaitedType;
template <typename T> struct AwaitedType<Task<T>> {
    using type = T;
};
template <Operation T> struct AwaitedType<T> {
    using type = decltype(std::declval<T&>().await_resume());
};
template <ContinuingAwaiter T> struct AwaitedType<T> {
    using type = decltype(std::declval<T&>().await_resume());
};

} // namespace penstock::detail

namespace penstock {

/// A task, or an operation or step of a generator that was not awaited yet.
template <typename T>
concept Awaitable = requires { typename detail::AwaitedType<T>::type; };

/// The type of `co_await` on a `T`.
template <Awaitable T> using Awaited = typename detail::AwaitedType<T>::type;

namespace detail {

template <typename T> Task<T> to_task(Task<T>&& task) noexcept {
    return std::move(task);
}

template <Operation T>
    requires(!std::is_reference_v<T>)
Task<Awaited<T>> to_task(T operation) {
    co_return co_await std::move(operation);
}

template <ContinuingAwaiter T>
    requires(!std::is_reference_v<T>)
Task<Awaited<T>> to_task(T awaiter) {
    co_return co_await std::move(awaiter);
}

class JoinBase;

/// A task that runs in a context of its own, as a child of a `JoinBase`.
///
/// Owned by the combinator, or by itself when a scope has spawned it. It must not move once it has
/// begun. Its end has three steps, which a derived class calls in this order: keep the
/// outcome, `tell`, free the coroutine's frame, `leave`. After `leave` it may be gone.
///
/// Thread safety: only on the thread of its loop.
class ChildBase : public Completion, public io::ListHook<ChildBase> {
public:
    ChildBase(const ChildBase&) = delete;
    ChildBase& operator=(const ChildBase&) = delete;

    void cancel() noexcept {
        cancelled_ = true;
        if (context_) {
            context_->cancel();
        }
    }

    /// Whether it was cancelled.
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    // Only after its end:

    /// Whether it returned an error or threw.
    [[nodiscard]] bool failed() const noexcept { return error_ != nullptr || exception_; }
    /// The error that it returned, or null.
    [[nodiscard]] const std::error_code* error() const noexcept { return error_; }
    /// What it threw, or null.
    [[nodiscard]] const std::exception_ptr& exception() const noexcept { return exception_; }

    /// The position among its siblings.
    [[nodiscard]] std::size_t index() const noexcept { return index_; }

protected:
    ChildBase(Function completion, JoinBase& join, std::size_t index = 0) noexcept
        : Completion(completion), join_(join), index_(index) {}
    ~ChildBase() = default;

    template <typename Promise>
    void begin(std::coroutine_handle<Promise> coroutine, TaskContext& parent, bool cancelled) {
        begin_context(parent, cancelled);
        set_outermost(coroutine);
        resume(coroutine);
    }

    // The parts of `begin`.
    void begin_context(TaskContext& parent, bool cancelled) noexcept {
        context_.emplace(parent.loop(), &parent, cancelled || cancelled_);
    }
    template <typename Promise>
    void set_outermost(std::coroutine_handle<Promise> coroutine) noexcept {
        // NOLINTNEXTLINE(bugprone-unchecked-optional-access): of what has begun
        coroutine.promise().set_completion(*this, *context_);
    }

    [[nodiscard]] JoinBase& join() const noexcept { return join_; }

    void fail(std::exception_ptr exception) noexcept { exception_ = std::move(exception); }
    /// `error` must stay.
    void fail(const std::error_code& error) noexcept { error_ = &error; }

    /// Tells the join the outcome. The join waits until `leave`.
    inline void tell() noexcept;
    /// Returns the coroutine to resume.
    [[nodiscard]] inline std::coroutine_handle<> leave() noexcept;

private:
    JoinBase& join_;
    std::size_t index_;
    const std::error_code* error_ = nullptr;
    std::exception_ptr exception_;
    bool cancelled_ = false;
    std::optional<TaskContext> context_;
};

/// An operation that runs child tasks and waits for them. The base of all combinators. It never
/// completes before its last child has ended. Cancelling it cancels the children.
///
/// It counts children rather than listing them for its end: a child leaves the list with its
/// outcome (`tell`), and the count with its frame (`leave`). The parent resumes at the last one, by
/// symmetric transfer out of that child, so the join is never resumed while a child's frame exists.
///
/// `on_end` runs inside of a child's last step. It may cancel the others, and must not destroy a
/// child that has not left. Cancelling takes time linear in the children that run; a child's end
/// takes constant time.
class JoinBase : public OperationBase {
public:
    JoinBase(JoinBase&&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }

    /// Cancels every child that has not ended, except `kept`.
    void cancel_children(const ChildBase* kept = nullptr) noexcept;

protected:
    using OnEnd = void (*)(JoinBase&, ChildBase&) noexcept;

    explicit JoinBase(OnEnd on_end, Cancel cancel = &cancel_all) noexcept
        : OperationBase(cancel), on_end_(on_end) {}
    ~JoinBase() = default;

    /// Suspends, calls `begin` to start the children, and returns whether any of them is still
    /// running.
    template <typename Promise, typename Begin>
    [[nodiscard]] bool join_children(std::coroutine_handle<Promise> task, Begin begin) {
        suspend(task);
        ++running_; // so that the last child does not resume a task that is still suspending
        begin();
        if (--running_ > 0) {
            return true;
        }
        unsuspend();
        return false;
    }

    void add_child(ChildBase& child) noexcept {
        ++running_;
        children_.push_back(child);
    }

private:
    friend class ChildBase;

    static void cancel_all(OperationBase& base) noexcept {
        static_cast<JoinBase&>(base).cancel_children();
    }

    void child_ended(ChildBase& child) noexcept {
        children_.remove(child);
        on_end_(*this, child);
    }

    std::coroutine_handle<> child_left() noexcept {
        return --running_ > 0 ? std::noop_coroutine() : take_handle();
    }

    io::IntrusiveList<ChildBase> children_;
    OnEnd on_end_;
    std::size_t running_ = 0;
};

inline void ChildBase::tell() noexcept {
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): what ends has begun
    cancelled_ = context_->cancelled();
    context_.reset();
    join_.child_ended(*this);
}

inline std::coroutine_handle<> ChildBase::leave() noexcept {
    return join_.child_left();
}

inline void JoinBase::cancel_children(const ChildBase* kept) noexcept {
    for (ChildBase* child = children_.front(); child != nullptr;) {
        ChildBase* following = io::IntrusiveList<ChildBase>::after(*child);
        if (child != kept) {
            child->cancel();
        }
        child = following;
    }
}

/// A task and, when it has ended, its outcome.
///
/// The frame is freed, with the task's parameters, on the loop's thread in the task's last step.
/// The order: the outcome is kept, the siblings are told (so an error cancels them), the frame is
/// freed, and then the parent continues if this was its last child. So what a parameter's
/// destructor does, such as closing a channel, never comes before the outcome, and never after the
/// combinator's result. If it spawns another task in the same scope, the scope waits for that one
/// too.
template <typename T> class Child : public ChildBase {
public:
    Child(JoinBase& join, Task<T>&& task, std::size_t index = 0) noexcept
        : ChildBase(&task_ended, join, index), task_(std::move(task)) {}

    void start(TaskContext& parent) { begin(task_.coroutine(), parent, parent.cancelled()); }

    /// Not cancelled, even if the parent is.
    void start_shielded(TaskContext& parent) { begin(task_.coroutine(), parent, false); }

    /// Returns its result, or rethrows its exception.
    T take() {
        if (exception()) {
            std::rethrow_exception(exception());
        }
        if constexpr (!std::is_void_v<T>) {
            // NOLINTNEXTLINE(bugprone-unchecked-optional-access): it has ended without an exception
            return std::move(*value_);
        }
    }

    ValueOr<T> take_value() {
        if constexpr (std::is_void_v<T>) {
            take();
            return {};
        } else {
            return take();
        }
    }

protected:
    /// The completion. A derived class may set another one that calls it.
    static std::coroutine_handle<> task_ended(Completion& completion) noexcept {
        auto& self = static_cast<Child&>(completion);
        {
            const Task<T> ended = std::move(self.task_);
            self.keep_outcome(ended.coroutine().promise());
            self.tell();
        } // The frame is freed here. Its parameters may add children.
        return self.leave();
    }

private:
    using Value = std::conditional_t<std::is_void_v<T>, std::monostate, std::optional<ValueOr<T>>>;

    void keep_outcome(TaskPromise<T>& promise) noexcept {
        if (promise.exception()) {
            fail(promise.exception());
            return;
        }
        if constexpr (std::is_nothrow_move_constructible_v<ValueOr<T>>) {
            keep_value(promise);
        } else {
            try {
                keep_value(promise);
            } catch (...) { // as if the task had thrown it
                fail(std::current_exception());
            }
        }
    }

    void keep_value(TaskPromise<T>& promise) {
        if constexpr (!std::is_void_v<T>) {
            value_.emplace(std::move(promise.value()));
        }
        if constexpr (is_result<T>) {
            if (!value_->has_value()) {
                fail(value_->error());
            }
        }
    }

    Task<T> task_;
    [[no_unique_address]] Value value_;
};

} // namespace detail
} // namespace penstock
