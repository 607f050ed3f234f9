#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/operation_base.hpp>
#include <penstock/task.hpp>

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

    /// Only after its end: whether it returned an error or threw, and which.
    [[nodiscard]] bool failed() const noexcept { return failure().has_value(); }
    [[nodiscard]] std::optional<Failure> failure() const noexcept { return failure_(*this); }

    /// The position among its siblings.
    [[nodiscard]] std::size_t index() const noexcept { return index_; }

protected:
    using FindFailure = std::optional<Failure> (*)(const ChildBase&) noexcept;

    ChildBase(JoinBase& join, std::size_t index, FindFailure failure) noexcept
        : Completion(&ended), join_(join), index_(index), failure_(failure) {}
    ~ChildBase() = default;

    template <typename Promise>
    void begin(std::coroutine_handle<Promise> coroutine, TaskContext& parent, bool cancelled) {
        context_.emplace(parent.loop(), &parent, cancelled || cancelled_);
        coroutine.promise().set_completion(*this, *context_);
        resume(coroutine);
    }

    /// The completion of a child. A derived class may set another one that calls it.
    static inline std::coroutine_handle<> ended(Completion& completion) noexcept;

private:
    JoinBase& join_;
    std::size_t index_;
    FindFailure failure_;
    bool cancelled_ = false;
    std::optional<TaskContext> context_;
};

/// An operation that runs child tasks and waits for them. The base of all combinators. It never
/// completes before its last child has ended. Cancelling it cancels the children.
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

    std::coroutine_handle<> child_ended(ChildBase& child) noexcept {
        children_.remove(child);
        on_end_(*this, child);
        return --running_ > 0 ? std::noop_coroutine() : take_handle();
    }

    io::IntrusiveList<ChildBase> children_;
    OnEnd on_end_;
    std::size_t running_ = 0;
};

inline std::coroutine_handle<> ChildBase::ended(Completion& completion) noexcept {
    auto& child = static_cast<ChildBase&>(completion);
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): what ends has begun
    child.cancelled_ = child.context_->cancelled();
    child.context_.reset();
    return child.join_.child_ended(child);
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

template <typename T> class Child : public ChildBase {
public:
    Child(JoinBase& join, Task<T>&& task, std::size_t index = 0) noexcept
        : ChildBase(join, index, &find_failure), task_(std::move(task)) {}

    void start(TaskContext& parent) { begin(task_.coroutine(), parent, parent.cancelled()); }

    /// Not cancelled, even if the parent is.
    void start_shielded(TaskContext& parent) { begin(task_.coroutine(), parent, false); }

    /// Returns its result, or rethrows its exception.
    T take() { return promise().take(); }

    ValueOr<T> take_value() {
        if constexpr (std::is_void_v<T>) {
            take();
            return {};
        } else {
            return take();
        }
    }

private:
    static std::optional<Failure> find_failure(const ChildBase& child) noexcept {
        return static_cast<const Child&>(child).promise().failure();
    }

    [[nodiscard]] TaskPromise<T>& promise() const noexcept { return task_.coroutine().promise(); }

    Task<T> task_;
};

} // namespace detail
} // namespace penstock
