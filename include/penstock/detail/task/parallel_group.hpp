#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <utility>
#include <vector>

#include <penstock/detail/task/children.hpp>

namespace penstock::detail {

/// Which child's outcome cancels the rest.
enum class CancelOn : std::uint8_t { never, failure, success, any_end };

/// Runs children concurrently until all have ended.
class ParallelGroup : public JoinBase {
public:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    void await_resume() const noexcept {}

    /// The index of the child whose outcome cancelled the rest, or `none`.
    [[nodiscard]] std::size_t trigger() const noexcept { return trigger_; }

protected:
    explicit ParallelGroup(CancelOn cancel_on) noexcept
        : JoinBase(&on_child_end), cancel_on_(cancel_on) {}
    ~ParallelGroup() = default;

private:
    static void on_child_end(JoinBase& join, ChildBase& child) noexcept {
        auto& self = static_cast<ParallelGroup&>(join);
        if (self.trigger_ == none && self.triggers(child)) {
            self.trigger_ = child.index();
            self.cancel_children();
        }
    }

    [[nodiscard]] bool triggers(const ChildBase& child) const noexcept {
        switch (cancel_on_) {
        case CancelOn::never:
            return false;
        case CancelOn::failure:
            return child.failed();
        case CancelOn::success: // or an exception
            return child.error() == nullptr;
        case CancelOn::any_end:
            return true;
        }
        return true;
    }

    CancelOn cancel_on_;
    std::size_t trigger_ = none;
};

template <std::size_t Index, typename T> struct IndexedChild {
    IndexedChild(JoinBase& join, Task<T>&& task) noexcept : child(join, std::move(task), Index) {}

    Child<T> child;
};

template <typename Indices, typename... Ts> class ParallelTuple;

/// Children of different types.
template <std::size_t... Indices, typename... Ts>
class ParallelTuple<std::index_sequence<Indices...>, Ts...> final
    : public ParallelGroup,
      private IndexedChild<Indices, Ts>... {
public:
    explicit ParallelTuple(CancelOn cancel_on, Task<Ts>&&... tasks) noexcept
        : ParallelGroup(cancel_on), IndexedChild<Indices, Ts>(*this, std::move(tasks))... {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return join_children(task, [this] {
            (add_child(IndexedChild<Indices, Ts>::child), ...);
            (IndexedChild<Indices, Ts>::child.start(context()), ...);
        });
    }

    /// Calls `visit` with all children in order, and returns its result.
    template <typename Visit> auto with_children(Visit visit) {
        return visit(IndexedChild<Indices, Ts>::child...);
    }
};

template <typename... Ts>
using ParallelGroupOf = ParallelTuple<std::index_sequence_for<Ts...>, Ts...>;

/// Children of one type.
template <typename T> class ParallelVector final : public ParallelGroup {
public:
    ParallelVector(CancelOn cancel_on, std::vector<Task<T>>&& tasks) : ParallelGroup(cancel_on) {
        for (Task<T>& task : tasks) {
            children_.emplace_back(*this, std::move(task), children_.size());
        }
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return join_children(task, [this] {
            for (Child<T>& child : children_) {
                add_child(child);
            }
            for (Child<T>& child : children_) {
                child.start(context());
            }
        });
    }

    [[nodiscard]] std::deque<Child<T>>& children() noexcept { return children_; }

private:
    std::deque<Child<T>> children_;
};

/// Rethrows the first exception, in argument order.
template <typename... Ts> void rethrow_first(const Child<Ts>&... children) {
    const auto rethrow = [](const ChildBase& child) {
        if (child.exception()) {
            std::rethrow_exception(child.exception());
        }
    };
    (rethrow(children), ...);
}

} // namespace penstock::detail
