#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <penstock/detail/io/loop_member.hpp>
#include <penstock/io/event_loop.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/intrusive_queue.hpp>
#include <penstock/io/post_queue.hpp>
#include <penstock/io/time_slice.hpp>

namespace penstock {

template <typename T> class Task;
class TaskContext;

/// The event loop of one thread. It runs tasks, and dispatches ready work, descriptors and timers.
///
/// A thread runs at most one loop. `penstock::run(task)` creates one for the duration of the call.
/// A program that posts from other threads creates the loop itself.
///
/// Thread safety: `post` and `wake` may be called on any thread. All other members belong to the
/// thread that runs the loop, or, before it runs, to the thread that created it.
class EventLoop {
public:
    struct Options {
        /// If set, work that is ready at the same time runs in a random order drawn from this seed,
        /// instead of the order in which it became ready. For tests: the same seed gives the same
        /// order.
        std::optional<std::uint64_t> shuffle_seed{};
    };

    /// Throws `std::system_error` if the kernel has no descriptors left.
    EventLoop() : EventLoop(Options()) {}
    explicit EventLoop(const Options& options);

    /// Open descriptors stay open and may be used on another loop. Posted functions that have not
    /// run are destroyed.
    ~EventLoop();

    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;

    /// Runs a task to its end. Returns its result or rethrows its exception. Throws
    /// `std::logic_error` if this thread already runs a loop. Include <penstock/task/run.hpp>.
    template <typename T> T run(Task<T> task);

    /// Calls `function` on the loop's thread in one of its next iterations. Functions that one
    /// thread posts run in that order. Any thread may call this at any time in the loop's life,
    /// even before `run`. An exception from the function terminates the program. Throws
    /// `std::bad_alloc`.
    template <typename Function>
        requires std::is_invocable_v<std::decay_t<Function>&>
    void post(Function&& function) {
        push(*new Posted<std::decay_t<Function>>(std::forward<Function>(function)));
    }

    /// Runs `work` in one of the next iterations. Any thread may call this. Does not allocate. The
    /// work must live until it has run. The loop may be destroyed as soon as the work has run.
    void post(io::Work& work) noexcept;

    /// Runs `work` in the next iteration. Only on the loop's thread.
    void schedule(io::Work& work) noexcept { base_.schedule(work); }

    /// Calls `schedule` on the loop's thread and `post` on any other.
    void wake(io::Work& work) noexcept {
        if (current_or_null() == this) {
            schedule(work);
        } else {
            post(work);
        }
    }

    /// The loop that this thread runs. Throws `std::logic_error` if there is none.
    [[nodiscard]] static EventLoop& current();
    [[nodiscard]] static EventLoop* current_or_null() noexcept;

    /// Consumes one unit of the task's budget: the number of operations that it may complete in a
    /// row without suspending. Returns false if the budget is used up, or if the task has run for
    /// `task_slice` ns. The operation then waits for the next iteration, so that a task whose data
    /// is always ready does not starve the others. The guarantee: a task delays the others by at
    /// most `task_slice` and one step. A step is the work between two operations, however long it
    /// takes.
    ///
    /// Rejected: a limit of operations alone. A task that works for 5 ms between two operations
    /// would delay the others by 64 times that.
    [[nodiscard]] bool consume_budget() noexcept {
        if (budget_ == 0 || slice_.is_over()) {
            budget_ = 0;
            return false;
        }
        --budget_;
        return true;
    }

    /// Consumes up to `operations` further units, for an operation that costs as much as several.
    void charge_budget(std::size_t operations) noexcept {
        budget_ -= static_cast<unsigned>(std::min<std::size_t>(operations, budget_));
    }

    /// Restores the budget. Dispatchers call this before they resume a task.
    void refill_budget() noexcept {
        budget_ = max_budget;
        slice_.begin();
    }

    [[nodiscard]] io::Poller& poller() noexcept { return base_.poller(); }
    [[nodiscard]] io::TimerQueue& timers() noexcept { return base_.timers(); }

    /// The loop without coroutines that this one is built on. Python's loop is built on it too.
    [[nodiscard]] io::EventLoop& base() noexcept { return base_; }

    /// The file engine of this loop, created on first use: io_uring, or worker threads if the
    /// kernel refuses the ring or PENSTOCK_FILES in the environment selects them. Throws
    /// `std::system_error` if the kernel has no descriptors left.
    [[nodiscard]] io::FileEngine& files();

    /// Registers a member: the loop's destructor calls `member.leave`, unless `remove` was called.
    void add(detail::LoopMember& member) noexcept { members_.push_back(member); }
    void remove(detail::LoopMember& member) noexcept { members_.remove(member); }

    /// The live tasks, oldest first.
    [[nodiscard]] const io::IntrusiveList<TaskContext>& tasks() const noexcept { return tasks_; }

private:
    friend class TaskContext;

    static constexpr unsigned max_budget = 64;
    static constexpr std::int64_t task_slice = 100'000;

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

    class Shuffle;

    /// Runs iterations until `done` is true, as this thread's current loop.
    void run_until(const bool& done);
    void push(PostedFunction& function) noexcept;
    void run_posted() noexcept;

    io::EventLoop base_;
    std::unique_ptr<io::FileEngine> files_;
    unsigned budget_ = max_budget;
    io::TimeSlice slice_{task_slice};
    io::IntrusiveList<TaskContext> tasks_;
    io::IntrusiveList<detail::LoopMember> members_;
    // Behind a pointer: <random> would be a twentieth of what an echo server takes to compile.
    std::unique_ptr<Shuffle> shuffle_;
    io::PostQueue<PostedFunction, &PostedFunction::next> posted_;
    /// The number of threads inside `post`. Such a thread may still touch the loop after its work
    /// has run.
    std::atomic<unsigned> posters_{0};
};

} // namespace penstock
