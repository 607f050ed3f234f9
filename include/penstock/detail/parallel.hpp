#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <penstock/detail/children.hpp>

namespace penstock::detail {

/// Whose end makes a `Parallel` cancel those that still run.
enum class Decisive : std::uint8_t { nobody, failure, success, anybody };

/// Runs children beside each other until all have ended.
class Parallel : public Gathering {
public:
    static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

    void await_resume() const noexcept {}

    /// The place of the first child whose end was decisive, or `nobody`.
    [[nodiscard]] std::size_t decider() const noexcept { return decider_; }

protected:
    explicit Parallel(Decisive decisive) noexcept : Gathering(&note_end), decisive_(decisive) {}
    ~Parallel() = default;

private:
    static void note_end(Gathering& gathering, ChildBase& child) noexcept {
        auto& self = static_cast<Parallel&>(gathering);
        if (self.decider_ == nobody && self.decides(child)) {
            self.decider_ = child.place();
            self.cancel_children();
        }
    }

    [[nodiscard]] bool decides(const ChildBase& child) const noexcept {
        switch (decisive_) {
        case Decisive::nobody:
            return false;
        case Decisive::failure:
            return child.failed();
        case Decisive::success: {
            const std::optional<Failure> failure = child.failure();
            return !failure || failure->exception;
        }
        case Decisive::anybody:
            return true;
        }
        return true;
    }

    Decisive decisive_;
    std::size_t decider_ = nobody;
};

template <std::size_t Place, typename T> struct PlacedChild {
    PlacedChild(Gathering& gathering, Task<T>&& task) noexcept
        : child(gathering, std::move(task), Place) {}

    Child<T> child;
};

template <typename Places, typename... Ts> class ParallelTuple;

/// Children of any types.
template <std::size_t... Places, typename... Ts>
class ParallelTuple<std::index_sequence<Places...>, Ts...> final
    : public Parallel,
      private PlacedChild<Places, Ts>... {
public:
    explicit ParallelTuple(Decisive decisive, Task<Ts>&&... tasks) noexcept
        : Parallel(decisive), PlacedChild<Places, Ts>(*this, std::move(tasks))... {}

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return gather(task, [this] {
            (enlist(PlacedChild<Places, Ts>::child), ...);
            (PlacedChild<Places, Ts>::child.start(context()), ...);
        });
    }

    /// Calls `visit(child)` for each child in order, and returns what it makes of the results.
    template <typename Visit> auto with_children(Visit visit) {
        return visit(PlacedChild<Places, Ts>::child...);
    }
};

template <typename... Ts> using ParallelOf = ParallelTuple<std::index_sequence_for<Ts...>, Ts...>;

/// Children of one type.
template <typename T> class ParallelVector final : public Parallel {
public:
    ParallelVector(Decisive decisive, std::vector<Task<T>>&& tasks) : Parallel(decisive) {
        for (Task<T>& task : tasks) {
            children_.emplace_back(*this, std::move(task), children_.size());
        }
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return gather(task, [this] {
            for (Child<T>& child : children_) {
                enlist(child);
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

/// Rethrows the first exception, in the order of the arguments.
template <typename... Ts> void rethrow_first(const Child<Ts>&... children) {
    const auto rethrow = [](const ChildBase& child) {
        if (const std::optional<Failure> failure = child.failure(); failure && failure->exception) {
            std::rethrow_exception(failure->exception);
        }
    };
    (rethrow(children), ...);
}

} // namespace penstock::detail
