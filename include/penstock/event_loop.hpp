#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#include <penstock/detail/intrusive_list.hpp>
#include <penstock/io/event_loop.hpp>

namespace penstock {

template <typename T> class Task;
class TaskContext;
namespace detail {
class Pollable;
}

/// Where tasks run: one thread's loop over ready work, descriptors and timers.
///
/// A program has one loop a thread. `penstock::run(task)` makes one for the time of a call; a program
/// that reaches it from other threads makes it itself. All members but `post` and `wake` belong to
/// the thread that runs the loop (or, before it runs, to the one that made it).
class EventLoop {
public:
    struct Options {
        /// When set, what is ready at the same time runs in an order drawn from this seed instead of
        /// the order in which it became ready. For tests: a program whose result depends on the order
        /// shows it under some seed, and again under the same one.
        std::optional<std::uint64_t> shuffle_seed{};
    };

    /// Throws `std::system_error` when the kernel refuses a descriptor.
    EventLoop() : EventLoop(Options()) {}
    explicit EventLoop(const Options& options);

    /// Descriptors that are still open stay open, and may be used on another loop. Functions that were
    /// posted and have not run are destroyed.
    ~EventLoop();

    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    /// Runs a task to its end and returns its result, or throws what it threw. Throws
    /// `std::logic_error` when this thread is already running a loop. Include <penstock/run.hpp>.
    template <typename T> T run(Task<T> task);

    /// Calls `function` on the loop's thread, in one of its next iterations; functions of one thread
    /// in the order in which it posted them. Any thread, at any time in the loop's life, also before
    /// it runs. The function must not throw: that ends the program.
    template <typename Function>
        requires std::is_invocable_v<std::decay_t<Function>&>
    void post(Function&& function) {
        push(*new Posted<std::decay_t<Function>>(std::forward<Function>(function)));
    }

    /// Runs `work` in one of the next iterations; allocates nothing. Any thread. The work lives until
    /// it has run; the loop may end as soon as it has.
    void post(io::Work& work) noexcept;

    /// Runs `work` in the next iteration. The loop's own thread only.
    void schedule(io::Work& work) noexcept { base_.schedule(work); }

    /// `schedule` on the loop's own thread, `post` from any other.
    void wake(io::Work& work) noexcept {
        if (current_or_null() == this) {
            schedule(work);
        } else {
            post(work);
        }
    }

    /// The loop that this thread runs. Throws `std::logic_error` outside of one.
    [[nodiscard]] static EventLoop& current();
    [[nodiscard]] static EventLoop* current_or_null() noexcept;

    /// Takes one from what a task may do in a row without waiting. False when nothing is left: the
    /// operation then waits for the next iteration, so that a task which always finds its data there
    /// does not starve the others.
    [[nodiscard]] bool spend() noexcept {
        if (budget_ == 0) {
            return false;
        }
        --budget_;
        return true;
    }

    /// Takes so many more, for an operation that has cost as much as several.
    void charge(std::size_t operations) noexcept {
        budget_ -= static_cast<unsigned>(std::min<std::size_t>(operations, budget_));
    }

    /// A dispatcher is about to resume a task.
    void refill() noexcept { budget_ = operations_in_a_row; }

    [[nodiscard]] io::Poller& poller() noexcept { return base_.poller(); }
    [[nodiscard]] io::TimerQueue& timers() noexcept { return base_.timers(); }

    /// Floor 1 of this loop, for what attaches to it.
    [[nodiscard]] io::EventLoop& base() noexcept { return base_; }

    /// What does this loop's file operations; made when it is first asked for: io_uring, or worker
    /// threads where the kernel refuses the ring or the environment's PENSTOCK_FILES says so. Throws
    /// `std::system_error` when the kernel refuses its descriptors.
    [[nodiscard]] io::FileEngine& files();

    /// The live tasks, oldest first.
    [[nodiscard]] const detail::IntrusiveList<TaskContext>& tasks() const noexcept {
        return tasks_;
    }

private:
    friend class TaskContext;
    friend class detail::Pollable;

    static constexpr unsigned operations_in_a_row = 64;

    struct PostedFunction {
        PostedFunction() = default;
        PostedFunction(const PostedFunction&) = delete;
        PostedFunction& operator=(const PostedFunction&) = delete;
        virtual ~PostedFunction() = default;
        virtual void call() = 0;

        PostedFunction* next = nullptr;
    };

    template <typename Function> struct Posted final : PostedFunction {
        explicit Posted(Function source) : function(std::move(source)) {}
        void call() override { function(); }

        Function function;
    };

    /// Turns the loop's wheel until `done`, as this thread's current loop.
    void run_until(const bool& done);
    void push(PostedFunction& function) noexcept;
    void run_posted() noexcept;
    void shuffle_ready();

    io::EventLoop base_;
    std::unique_ptr<io::FileEngine> files_;
    unsigned budget_ = operations_in_a_row;
    detail::IntrusiveList<TaskContext> tasks_;
    detail::IntrusiveList<detail::Pollable> pollables_;
    std::optional<std::mt19937_64> shuffle_;
    std::vector<io::Work*> shuffled_;
    std::atomic<PostedFunction*> posted_{nullptr};
    /// Threads inside `post`, which may still touch the loop when what they posted has run already.
    std::atomic<unsigned> posters_{0};
};

} // namespace penstock
