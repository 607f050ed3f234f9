#pragma once

#include <coroutine>
#include <memory>
#include <system_error>
#include <utility>

#include <penstock/io/intrusive_list.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

/// Mutual exclusion between tasks of one loop: `sync::Mutex` without its lock for other threads,
/// which costs more than all else of a short message. Fair: ownership passes to the longest waiter.
///
/// Thread safety: only on the thread of its loop. It must outlive its guards and waiters.
class LocalMutex {
public:
    /// Holds the mutex.
    class [[nodiscard]] Guard {
    public:
        Guard() = default;
        void unlock() noexcept { mutex_.reset(); }
        [[nodiscard]] explicit operator bool() const noexcept { return mutex_ != nullptr; }

    private:
        friend class LocalMutex;
        struct Unlock {
            void operator()(LocalMutex* mutex) const noexcept { mutex->hand_off(); }
        };
        explicit Guard(LocalMutex& mutex) noexcept : mutex_(&mutex) {}

        std::unique_ptr<LocalMutex, Unlock> mutex_;
    };

    class [[nodiscard]] Lock final : public OperationBase, public io::ListHook<Lock> {
    public:
        explicit Lock(LocalMutex& mutex) noexcept : OperationBase(&cancel), mutex_(&mutex) {}

        [[nodiscard]] bool await_ready() noexcept {
            cancelled_ = context().cancelled();
            taken_ = !cancelled_ && mutex_->take();
            return (cancelled_ || taken_) && context().loop().consume_budget();
        }

        template <typename Promise>
        void await_suspend(std::coroutine_handle<Promise> task) noexcept {
            suspend(task);
            if (cancelled_ || taken_) { // it has completed, but other tasks must run first
                resume_soon();
            } else {
                mutex_->waiting_.push_back(*this);
            }
        }

        [[nodiscard]] Result<Guard> await_resume() const {
            if (!taken_) {
                return failure(std::errc::operation_canceled);
            }
            return Guard(*mutex_);
        }

    private:
        friend class LocalMutex;

        static void cancel(OperationBase& base) noexcept {
            auto& lock = static_cast<Lock&>(base);
            lock.mutex_->waiting_.remove(lock);
            lock.resume_soon();
        }

        void pass() noexcept {
            taken_ = true;
            resume_soon();
        }

        LocalMutex* mutex_;
        bool taken_ = false;
        bool cancelled_ = false;
    };

    LocalMutex() = default;
    LocalMutex(const LocalMutex&) = delete;
    LocalMutex& operator=(const LocalMutex&) = delete;

    /// Waits for the mutex. Errors: only `operation_canceled`, and then nothing was taken.
    [[nodiscard]] Lock lock() noexcept { return Lock(*this); }
    /// An empty guard if the mutex is held.
    [[nodiscard]] Guard try_lock() noexcept { return take() ? Guard(*this) : Guard(); }
    [[nodiscard]] bool locked() const noexcept { return locked_; }

private:
    [[nodiscard]] bool take() noexcept { return !std::exchange(locked_, true); }

    void hand_off() noexcept {
        if (Lock* next = waiting_.pop_front()) {
            next->pass();
        } else {
            locked_ = false;
        }
    }

    bool locked_ = false;
    io::IntrusiveList<Lock> waiting_;
};

} // namespace penstock::detail
