#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

class Waiter;

/// FIFO of waiters, guarded by the primitive's mutex. The mutex also guards the waiters in it.
using WaitQueue = io::IntrusiveList<Waiter>;

/// An operation that waits for another task, possibly on another thread's loop. The base of the
/// operations of mutexes, channels and the like.
///
/// It is in the frame of the task that awaits it, and refers to the primitive's mutex and queue.
/// Exactly one of two takes it out of the queue, under the mutex: whoever completes it
/// (`take_first`), or its cancellation. Whoever is second finds that and does nothing, so a value
/// that was handed over is never lost by a cancellation.
///
/// After `resume_from_any_thread` the waiter may be gone, and with it the primitive: so waiters are
/// resumed by a `WakeList`, which is declared before the lock and hence ends after it.
///
/// Thread safety: `cancel` and the constructor, on the thread of the waiter's loop; the rest under
/// the mutex. Cost: no allocation; completing and cancelling take constant time.
class Waiter : public OperationBase, public io::ListHook<Waiter> {
public:
    /// Removes the first waiter, which can then no longer be cancelled. Null if there is none.
    /// Under the mutex.
    [[nodiscard]] static Waiter* take_first(WaitQueue& queue) noexcept {
        Waiter* waiter = queue.pop_front();
        if (waiter != nullptr) {
            waiter->state_ = State::finished;
        }
        return waiter;
    }

    /// Completed waiters, resumed when the mutex is unlocked: one of them may destroy it.
    class WakeList {
    public:
        WakeList() = default;
        WakeList(const WakeList&) = delete;
        WakeList& operator=(const WakeList&) = delete;
        ~WakeList() {
            while (Waiter* waiter = waiters_.pop_front()) {
                waiter->resume_from_any_thread();
            }
        }

        void add(Waiter& waiter) noexcept { waiters_.push_back(waiter); }

        /// Adds the whole queue.
        void add_all(WaitQueue& queue) noexcept {
            while (Waiter* waiter = take_first(queue)) {
                add(*waiter);
            }
        }

    private:
        WaitQueue waiters_;
    };

protected:
    enum class State : std::uint8_t { idle, queued, finished, cancelled };

    Waiter(std::mutex& lock, WaitQueue& queue) noexcept
        : OperationBase(&cancel), lock_(&lock), queue_(&queue) {}
    /// A waiter that ignores cancellation.
    Waiter(std::mutex& lock, WaitQueue& queue, std::nullptr_t) noexcept
        : OperationBase(nullptr), lock_(&lock), queue_(&queue), shielded_(true) {}
    Waiter(Waiter&&) = default;
    ~Waiter() = default;

    /// Whether it completes at once because it was cancelled before it started.
    [[nodiscard]] bool complete_if_cancelled() noexcept {
        if (context().cancelled() && !shielded_) {
            state_ = State::cancelled;
        }
        return state_ == State::cancelled;
    }

    [[nodiscard]] std::mutex& lock() const noexcept { return *lock_; }
    [[nodiscard]] State state() const noexcept { return state_; }
    void finish() noexcept { state_ = State::finished; }

    /// Under the mutex.
    void enqueue() noexcept {
        state_ = State::queued;
        queue_->push_back(*this);
    }

private:
    static void cancel(OperationBase& base) noexcept {
        auto& self = static_cast<Waiter&>(base);
        {
            const std::lock_guard guard(*self.lock_);
            if (self.state_ != State::queued) {
                return; // it has completed and is about to be resumed
            }
            self.queue_->remove(self);
            self.state_ = State::cancelled;
        }
        self.resume_soon();
    }

    std::mutex* lock_;
    WaitQueue* queue_;
    State state_ = State::idle;
    bool shielded_ = false;
};

/// The awaitable interface of a waiter. `Derived::try_now(wake_list)` is called under the mutex and
/// returns true if it completed without waiting. `Derived::result()` is called afterwards, unless
/// it was cancelled.
template <typename Derived, typename T> class [[nodiscard]] WaitOperation : public Waiter {
public:
    [[nodiscard]] bool await_ready() {
        if (complete_if_cancelled()) {
            return context().loop().consume_budget();
        }
        {
            WakeList wake_list;
            const std::lock_guard guard(lock());
            if (!static_cast<Derived&>(*this).try_now(wake_list)) {
                return false;
            }
        }
        finish();
        return context().loop().consume_budget();
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (state() != State::idle) { // it has completed, but other tasks must run first
            resume_soon();
            return true;
        }
        WakeList wake_list;
        const std::lock_guard guard(lock());
        if (static_cast<Derived&>(*this).try_now(wake_list)) {
            finish();
            unsuspend();
            return false;
        }
        enqueue();
        return true;
    }

    [[nodiscard]] Result<T> await_resume() {
        if (state() == State::cancelled) {
            return failure(std::errc::operation_canceled);
        }
        return static_cast<Derived&>(*this).result();
    }

private:
    friend Derived;

    WaitOperation(std::mutex& lock, WaitQueue& queue) noexcept : Waiter(lock, queue) {}
    WaitOperation(std::mutex& lock, WaitQueue& queue, std::nullptr_t /*shielded*/) noexcept
        : Waiter(lock, queue, nullptr) {}
};

} // namespace penstock::detail
