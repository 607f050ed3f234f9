#pragma once

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

#include <penstock/detail/io/hang_up_hook.hpp>
#include <penstock/detail/io/input_hook.hpp>
#include <penstock/detail/io/loop_member.hpp>
#include <penstock/detail/io/write_watch.hpp>
#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/io/poller.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

enum class Direction : std::uint8_t { reading, writing };

class ReadinessOperation;

/// An error code that looks up its category only when it is set. `std::error_code` calls into a
/// library for its category even when there is no error.
class LazyErrorCode {
public:
    LazyErrorCode() = default;
    LazyErrorCode(std::error_code error) noexcept
        : value_(error.value()), category_(error ? &error.category() : nullptr) {}

    /// The error in `errno`.
    [[nodiscard]] static LazyErrorCode last() noexcept {
        return std::error_code(errno, std::system_category());
    }

    explicit operator bool() const noexcept { return value_ != 0; }
    [[nodiscard]] std::error_code code() const noexcept { return {value_, *category_}; }

private:
    int value_ = 0;
    const std::error_category* category_ = nullptr;
};

/// An owned non-blocking descriptor that tasks can wait for: a socket, pipe, terminal or pidfd. At
/// most one operation waits in each direction.
///
/// It joins the loop of the first operation that has to wait, and stays registered there for life.
/// From then on it belongs to that loop's thread. Before that it may move to another thread.
class Pollable final : private io::Watch, private LoopMember, public FrameAllocated {
public:
    /// `fd` must be non-blocking. Takes ownership even if it throws `std::bad_alloc`.
    [[nodiscard]] static std::unique_ptr<Pollable> adopt(int fd);

    explicit Pollable(int fd) noexcept
        : Watch(&on_ready), LoopMember(&on_loop_end), descriptor_(fd) {}
    /// Closes the descriptor. Waiting operations get `operation_canceled`.
    ~Pollable();
    Pollable(const Pollable&) = delete;
    Pollable& operator=(const Pollable&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

    /// Releases ownership of the descriptor. Waiting operations get `operation_canceled`.
    [[nodiscard]] int release() noexcept;

    /// Registers an operation that could not complete at once. Errors: `device_or_resource_busy` if
    /// another operation waits in this direction, `operation_not_supported` if the descriptor
    /// belongs to another loop, and those of epoll_ctl(2): ENOMEM, ENOSPC, EPERM for a regular
    /// file.
    [[nodiscard]] LazyErrorCode wait(ReadinessOperation& operation, Direction direction);

    [[nodiscard]] bool waits(const ReadinessOperation& operation,
                             Direction direction) const noexcept {
        return waiting_[static_cast<std::size_t>(direction)] == &operation;
    }

    /// Unregisters a waiting operation.
    void remove_waiter(ReadinessOperation& operation) noexcept;

    [[nodiscard]] bool is_awaited(Direction direction) const noexcept {
        return waiting_[static_cast<std::size_t>(direction)] != nullptr;
    }

    /// Whether an attempt may succeed. False after a call that has taken everything. The next
    /// operation then waits at once, which saves a system call that would return EAGAIN.
    [[nodiscard]] bool may_be_ready(Direction direction) const noexcept {
        return may_be_ready_[static_cast<std::size_t>(direction)];
    }
    void set_may_be_ready(Direction direction, bool worth) noexcept {
        may_be_ready_[static_cast<std::size_t>(direction)] = worth;
    }

    /// Calls the hook when the peer has ended its side, once, unless a reader waits then: it stays
    /// for the next call. Without effect if the descriptor belongs to another loop, or if the
    /// kernel refuses.
    void watch_hang_up(HangUpHook& hook, EventLoop& loop) noexcept;
    void forget_hang_up(const HangUpHook& hook) noexcept {
        if (hang_up_hook_ == &hook) {
            hang_up_hook_ = nullptr;
        }
    }

    /// Calls the hook, once, when a read would not wait: there is data, the end, or an error. An
    /// operation that waits to read goes first, and the hook stays. Errors: those of `wait`.
    [[nodiscard]] LazyErrorCode watch_input(InputHook& hook, EventLoop& loop);
    void forget_input(const InputHook& hook) noexcept {
        if (input_hook_ == &hook) {
            input_hook_ = nullptr;
        }
    }

    /// Limits how long operations wait to write, from the next wait on.
    void limit_writes(const net::WriteLimit& limit) noexcept;

private:
    friend class WriteWatch;

    static void on_ready(io::Watch& watch, std::uint32_t events);
    static void on_loop_end(LoopMember& member) noexcept;
    void leave_loop() noexcept;
    void dispatch(std::uint32_t events);
    [[nodiscard]] ReadinessOperation* attempt_waiting(Direction direction) noexcept;
    void cancel_waiting() noexcept;
    [[nodiscard]] LazyErrorCode register_with(EventLoop& loop, std::uint32_t event);
    [[nodiscard]] LazyErrorCode begin_limited_wait() noexcept;
    /// Attempts the waiting write once more, and resumes its task if it has completed.
    [[nodiscard]] bool retry_write();
    void interrupt_write() noexcept;

    [[nodiscard]] static constexpr std::uint32_t event_of(Direction direction) noexcept {
        return direction == Direction::reading ? io::readable : io::writable;
    }

    int descriptor_;
    std::array<bool, 2> may_be_ready_{true, true}; // fills the gap behind the descriptor
    EventLoop* loop_ = nullptr;
    std::array<ReadinessOperation*, 2> waiting_{};
    net::WriteLimit write_limit_{.time = std::chrono::milliseconds(0)};
    std::unique_ptr<WriteWatch> write_watch_; ///< null until a limited write waits
    HangUpHook* hang_up_hook_ = nullptr;
    InputHook* input_hook_ = nullptr;
};

/// A system call on a descriptor, attempted until it does not return EAGAIN. To write one, derive
/// from `SystemCallOperation` below.
///
/// It is in the frame of the task that awaits it, and must not move while it waits: the pollable
/// knows it by address. It leaves the pollable before its task resumes, in each of the four ways in
/// which it ends: the attempt succeeds or fails, it is cancelled, interrupted, or the pollable is
/// destroyed or released. The task may destroy the pollable when it resumes.
///
/// Thread safety: only on the thread of the loop on which it waits. Cost: no allocation; one system
/// call if the descriptor is ready, none before the wait if the last call has found it empty.
class ReadinessOperation : public OperationBase {
public:
    /// Completes the operation with `timed_out` if it waits, and returns whether it did. The task
    /// resumes in the next iteration. Only on the loop's thread. Unlike a cancellation, it concerns
    /// this operation alone.
    bool interrupt() noexcept;

protected:
    /// Returns true if the operation has completed, with a value or an error, and false if it has
    /// to wait for readiness.
    using Attempt = bool (*)(ReadinessOperation&) noexcept;

    /// Without a pollable (a closed stream) it completes with `bad_file_descriptor`.
    ReadinessOperation(Pollable* pollable, Direction direction, Attempt attempt) noexcept
        : OperationBase(&cancel), pollable_(pollable), attempt_(attempt), direction_(direction) {}

    /// Whether the operation has completed without waiting. An immediate failure also consumes
    /// budget: a task that retries on a closed stream must not starve the others.
    [[nodiscard]] bool try_now() noexcept {
        if (!error_ && (pollable_ == nullptr || context().cancelled())) {
            error_ = failure(pollable_ == nullptr ? std::errc::bad_file_descriptor
                                                  : std::errc::operation_canceled)
                         .error();
        }
        if (error_) {
            return context().loop().consume_budget();
        }
        return pollable_->may_be_ready(direction_) && context().loop().consume_budget() &&
               attempt_(*this);
    }

    /// Returns false if the operation has completed instead of waiting.
    template <typename Promise> [[nodiscard]] bool wait(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (error_) { // already known, but other tasks must run first
            resume_soon();
            return true;
        }
        const LazyErrorCode error = pollable_->wait(*this, direction_);
        return !error || wait_refused(error);
    }

    [[nodiscard]] int fd() const noexcept { return pollable_->descriptor(); }

    /// Completes the operation with the error in `errno`.
    bool fail() noexcept {
        error_ = LazyErrorCode::last();
        return true;
    }

    /// The result of `attempt` after a failed call: true for an error, false for EAGAIN.
    bool fail_unless_would_block() noexcept {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            mark_not_ready();
            return false;
        }
        return fail();
    }

    /// The call has taken everything. The next one would return EAGAIN.
    void mark_not_ready() noexcept { pollable_->set_may_be_ready(direction_, false); }

    /// For a derived class that learns what it waits for when it is awaited: the pollable of an
    /// operation that was not.
    void aim_as(const ReadinessOperation& other) noexcept {
        pollable_ = other.pollable_;
        error_ = other.error_;
    }

    /// For a derived class that adds something to the attempt of its base.
    void replace_attempt(Attempt attempt) noexcept { attempt_ = attempt; }

    /// Whether it waits, and nothing has completed it.
    [[nodiscard]] bool is_waiting() const noexcept {
        // With an error it has completed, and the pollable may be gone.
        return !error_ && pollable_ != nullptr && pollable_->waits(*this, direction_);
    }

    /// The error of the operation. If the constructor sets it, the operation completes before it
    /// starts.
    LazyErrorCode error_;

private:
    friend class Pollable;

    static void cancel(OperationBase& base) noexcept;
    [[nodiscard]] bool wait_refused(LazyErrorCode error);

    Pollable* pollable_;
    Attempt attempt_;
    Direction direction_;
};

inline LazyErrorCode Pollable::wait(ReadinessOperation& operation, Direction direction) {
    ReadinessOperation*& waiting = waiting_[static_cast<std::size_t>(direction)];
    if (waiting != nullptr) {
        return std::make_error_code(std::errc::device_or_resource_busy);
    }
    EventLoop& loop = operation.context().loop();
    if (loop_ != &loop || (interest & event_of(direction)) == 0) {
        if (const LazyErrorCode error = register_with(loop, event_of(direction))) {
            return error;
        }
    }
    if (direction == Direction::writing && write_limit_.time.count() != 0) {
        if (const LazyErrorCode error = begin_limited_wait()) {
            return error;
        }
    }
    waiting = &operation;
    return {};
}

/// Repeats a system call while signals interrupt it.
template <typename Call> auto uninterrupted(Call call) noexcept {
    auto result = call();
    while (result < 0 && errno == EINTR) {
        result = call();
    }
    return result;
}

/// The base of an operation that is a system call on a descriptor. A derived class is, for example:
///
///     class ReadOperation final : public SystemCallOperation<ReadOperation, std::size_t> {
///     public:
///         ReadOperation(Pollable* pollable, MutableBytes into) noexcept
///             : SystemCallOperation(pollable, Direction::reading), into_(into) {}
///
///         // Makes the call. Returns true if the operation has completed, and false if it has to
///         // wait until the descriptor is ready. It is then called again. It must not run other
///         // tasks, nor keep state that breaks a second call.
///         bool attempt() noexcept {
///             count_ = uninterrupted([&] { return ::read(fd(), into_.data(), into_.size()); });
///             return count_ >= 0 || fail_unless_would_block();
///         }
///
///         // Called after a successful attempt.
///         std::size_t result() noexcept { return static_cast<std::size_t>(count_); }
///
///     private:
///         MutableBytes into_;
///         ssize_t count_ = 0;
///     };
///
/// The stream's member function is `ReadOperation read(MutableBytes into) { return
/// {pollable_.get(), into}; }`. This base handles cancellation, closing, registration errors and
/// the loop's budget.
template <typename Derived, typename T>
class [[nodiscard]] SystemCallOperation : public ReadinessOperation {
public:
    [[nodiscard]] bool await_ready() noexcept { return try_now(); }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) {
        return wait(task);
    }

    [[nodiscard]] Result<T> await_resume() {
        if (error_) {
            return failure(error_.code());
        }
        if constexpr (std::is_void_v<T>) {
            return {};
        } else {
            return static_cast<Derived&>(*this).result();
        }
    }

private:
    friend Derived;

    SystemCallOperation(Pollable* pollable, Direction direction) noexcept
        : ReadinessOperation(pollable, direction, &run_attempt) {}

    static bool run_attempt(ReadinessOperation& operation) noexcept {
        return static_cast<Derived&>(operation).attempt();
    }
};

} // namespace penstock::detail
