#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <system_error>
#include <utility>

#include <penstock/detail/intrusive_list.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock::detail {

class Waiter;

/// Those who wait for one thing, the first one first. Everything in it, and in those who wait, is
/// guarded by the lock of whatever they wait for.
using WaitQueue = IntrusiveList<Waiter>;

/// What waits for another task, perhaps on another thread's loop: the base of what mutexes, channels
/// and their like return.
class Waiter : public Suspension, public ListHook {
public:
    /// Takes the first one out of a queue: it gets what it waits for, and can no longer be cancelled.
    /// Under the lock. Null when nobody waits.
    [[nodiscard]] static Waiter* take_first(WaitQueue& queue) noexcept {
        Waiter* waiter = queue.pop_front();
        if (waiter != nullptr) {
            waiter->state_ = State::finished;
        }
        return waiter;
    }

    /// Those who have got what they wait for, to be resumed when the lock is open again: one of them
    /// may destroy it.
    class Awakened {
    public:
        Awakened() = default;
        Awakened(const Awakened&) = delete;
        Awakened& operator=(const Awakened&) = delete;
        ~Awakened() {
            while (Waiter* waiter = waiters_.pop_front()) {
                waiter->resume_from_any_thread();
            }
        }

        void add(Waiter& waiter) noexcept { waiters_.push_back(waiter); }

        /// The whole queue.
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
        : Suspension(&take_back), lock_(&lock), queue_(&queue) {}
    /// One that cancellation passes over.
    Waiter(std::mutex& lock, WaitQueue& queue, std::nullptr_t) noexcept
        : Suspension(nullptr), lock_(&lock), queue_(&queue), shielded_(true) {}
    Waiter(Waiter&&) = default;
    ~Waiter() = default;

    /// Whether it has ended, by being cancelled before it began.
    [[nodiscard]] bool begin_cancelled() noexcept {
        if (context().cancelled() && !shielded_) {
            state_ = State::cancelled;
        }
        return state_ == State::cancelled;
    }

    [[nodiscard]] std::mutex& lock() const noexcept { return *lock_; }
    [[nodiscard]] State state() const noexcept { return state_; }
    void finish() noexcept { state_ = State::finished; }

    /// Under the lock.
    void enter_queue() noexcept {
        state_ = State::queued;
        queue_->push_back(*this);
    }

private:
    static void take_back(Suspension& suspension) noexcept {
        auto& self = static_cast<Waiter&>(suspension);
        {
            const std::lock_guard guard(*self.lock_);
            if (self.state_ != State::queued) {
                return; // it has got what it waits for, and is about to be resumed
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

/// A waiter's awaiting. `Derived::try_now(awakened)` is called under the lock: true when it got what it
/// wants without waiting; `Derived::result()` afterwards, unless it was cancelled.
template <typename Derived, typename T> class [[nodiscard]] WaitOperation : public Waiter {
public:
    [[nodiscard]] bool await_ready() {
        if (begin_cancelled()) {
            return context().loop().spend();
        }
        {
            Awakened awakened;
            const std::lock_guard guard(lock());
            if (!static_cast<Derived&>(*this).try_now(awakened)) {
                return false;
            }
        }
        finish();
        return context().loop().spend();
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (state() != State::idle) { // it has ended, but others must run first
            resume_soon();
            return true;
        }
        Awakened awakened;
        const std::lock_guard guard(lock());
        if (static_cast<Derived&>(*this).try_now(awakened)) {
            finish();
            unsuspend();
            return false;
        }
        enter_queue();
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
