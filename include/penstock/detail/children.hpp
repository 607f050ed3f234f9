#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <penstock/detail/intrusive_list.hpp>
#include <penstock/suspension.hpp>
#include <penstock/task.hpp>

namespace penstock::detail {

/// What `void` is where a value is needed.
template <typename T> using ValueOr = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <typename Awaited> struct AwaitedType;
template <typename T> struct AwaitedType<Task<T>> {
    using type = T;
};
template <Operation T> struct AwaitedType<T> {
    using type = decltype(std::declval<T&>().await_resume());
};

} // namespace penstock::detail

namespace penstock {

/// A task, or an operation that has not been awaited yet.
template <typename T>
concept Awaitable = requires { typename detail::AwaitedType<T>::type; };

/// What `co_await` makes of one.
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

class Gathering;

/// A task that runs beside others in a context of its own, for a `Gathering`.
class ChildBase : public Completion, public ListHook {
public:
    ChildBase(const ChildBase&) = delete;
    ChildBase& operator=(const ChildBase&) = delete;

    void cancel() noexcept {
        cancelled_ = true;
        if (context_) {
            context_->cancel();
        }
    }

    /// Whether it was told to end early.
    [[nodiscard]] bool cancelled() const noexcept { return cancelled_; }

    /// After its end: whether it yields an error, or threw; and which.
    [[nodiscard]] bool failed() const noexcept { return failure().has_value(); }
    [[nodiscard]] std::optional<Failure> failure() const noexcept { return failure_(*this); }

    /// Which one it is.
    [[nodiscard]] std::size_t place() const noexcept { return place_; }

protected:
    using FindFailure = std::optional<Failure> (*)(const ChildBase&) noexcept;

    ChildBase(Gathering& gathering, std::size_t place, FindFailure failure) noexcept
        : Completion(&ended), gathering_(gathering), place_(place), failure_(failure) {}
    ~ChildBase() = default;

    template <typename Promise>
    void begin(std::coroutine_handle<Promise> coroutine, TaskContext& parent, bool cancelled) {
        context_.emplace(parent.loop(), &parent, cancelled || cancelled_);
        coroutine.promise().complete_with(*this, *context_);
        resume(coroutine);
    }

private:
    static inline std::coroutine_handle<> ended(Completion& completion) noexcept;

    Gathering& gathering_;
    std::size_t place_;
    FindFailure failure_;
    bool cancelled_ = false;
    std::optional<TaskContext> context_;
};

/// An operation that waits for tasks which it runs: the base of what combines tasks. They end before it
/// ends, always; its cancellation is theirs.
class Gathering : public Suspension {
public:
    Gathering(Gathering&&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }

    /// Tells every child that has not ended to end early.
    void cancel_children() noexcept;

protected:
    using OnEnd = void (*)(Gathering&, ChildBase&) noexcept;

    explicit Gathering(OnEnd on_end, Cancel cancel = &cancel_all) noexcept
        : Suspension(cancel), on_end_(on_end) {}
    ~Gathering() = default;

    /// Suspends, calls `begin` to start the children, and answers whether any of them waits.
    template <typename Promise, typename Begin>
    [[nodiscard]] bool gather(std::coroutine_handle<Promise> task, Begin begin) {
        suspend(task);
        ++running_; // so that the last one's end does not resume a task that is only just suspending
        begin();
        if (--running_ > 0) {
            return true;
        }
        unsuspend();
        return false;
    }

    void enlist(ChildBase& child) noexcept {
        ++running_;
        children_.push_back(child);
    }

private:
    friend class ChildBase;

    static void cancel_all(Suspension& suspension) noexcept {
        static_cast<Gathering&>(suspension).cancel_children();
    }

    std::coroutine_handle<> child_ended(ChildBase& child) noexcept {
        children_.remove(child);
        on_end_(*this, child);
        return --running_ > 0 ? std::noop_coroutine() : take_handle();
    }

    IntrusiveList<ChildBase> children_;
    OnEnd on_end_;
    std::size_t running_ = 0;
};

inline std::coroutine_handle<> ChildBase::ended(Completion& completion) noexcept {
    auto& child = static_cast<ChildBase&>(completion);
    // NOLINTNEXTLINE(bugprone-unchecked-optional-access): what ends has begun
    child.cancelled_ = child.context_->cancelled();
    child.context_.reset();
    return child.gathering_.child_ended(child);
}

inline void Gathering::cancel_children() noexcept {
    for (ChildBase* child = children_.front(); child != nullptr;) {
        ChildBase* following = IntrusiveList<ChildBase>::after(*child);
        child->cancel();
        child = following;
    }
}

template <typename T> class Child : public ChildBase {
public:
    Child(Gathering& gathering, Task<T>&& task, std::size_t place = 0) noexcept
        : ChildBase(gathering, place, &find_failure), task_(std::move(task)) {}

    void start(TaskContext& parent) { begin(task_.coroutine(), parent, parent.cancelled()); }

    /// Not cancelled, whatever the parent is.
    void start_shielded(TaskContext& parent) { begin(task_.coroutine(), parent, false); }

    /// Its result, or throws what it threw.
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
