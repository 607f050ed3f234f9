#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

#include <penstock/detail/frame_allocator.hpp>
#include <penstock/detail/intrusive_list.hpp>
#include <penstock/io/poller.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock::detail {

enum class Direction : std::uint8_t { reading, writing };

class ReadinessOperation;

/// An error code that costs nothing while there is none: `std::error_code` asks a library for its
/// category even to say so.
class LateError {
public:
    LateError() = default;
    LateError(std::error_code error) noexcept
        : value_(error.value()), category_(error ? &error.category() : nullptr) {}

    /// What `errno` tells of.
    [[nodiscard]] static LateError last() noexcept {
        return std::error_code(errno, std::system_category());
    }

    explicit operator bool() const noexcept { return value_ != 0; }
    [[nodiscard]] std::error_code code() const noexcept { return {value_, *category_}; }

private:
    int value_ = 0;
    const std::error_category* category_ = nullptr;
};

/// An owned non-blocking descriptor that tasks wait for: sockets, pipes, terminals, pidfds. At most one
/// operation waits in each direction.
///
/// It joins the loop of the first operation that has to wait, stays registered there for its life, and
/// belongs to that loop's thread from then on. What has not waited yet may move to another thread.
class Pollable final : private io::Watch, public ListHook, public FrameAllocated {
public:
    /// `fd` must be non-blocking. Ownership is taken even when this throws `std::bad_alloc`.
    [[nodiscard]] static std::unique_ptr<Pollable> adopt(int fd);

    explicit Pollable(int fd) noexcept : Watch(&on_ready), descriptor_(fd) {}
    /// Closes the descriptor; who still waits is resumed with `operation_canceled`.
    ~Pollable();
    Pollable(const Pollable&) = delete;
    Pollable& operator=(const Pollable&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

    /// Gives the descriptor away; who still waits is resumed with `operation_canceled`.
    [[nodiscard]] int release() noexcept;

    /// Enters an operation that could not finish at once, or says why it cannot wait:
    /// `device_or_resource_busy` when another one waits in this direction, `operation_not_supported`
    /// when the descriptor has joined another loop, and epoll_ctl(2)'s: ENOMEM, ENOSPC, EPERM for a
    /// regular file.
    [[nodiscard]] LateError wait(ReadinessOperation& operation, Direction direction);

    /// Takes a waiting operation back.
    void forget(ReadinessOperation& operation) noexcept;

    /// Whether a try may succeed. False after a call that is known to have taken all there was: the
    /// next operation then waits at once, and saves a system call that would only learn so.
    [[nodiscard]] bool worth_trying(Direction direction) const noexcept {
        return worth_trying_[static_cast<std::size_t>(direction)];
    }
    void set_worth_trying(Direction direction, bool worth) noexcept {
        worth_trying_[static_cast<std::size_t>(direction)] = worth;
    }

    /// The loop is about to end.
    void leave_loop() noexcept;

private:
    static void on_ready(io::Watch& watch, std::uint32_t events);
    void serve(std::uint32_t events);
    [[nodiscard]] ReadinessOperation* finished(Direction direction) noexcept;
    void abandon() noexcept;
    [[nodiscard]] LateError join(EventLoop& loop, std::uint32_t event);

    [[nodiscard]] static constexpr std::uint32_t event_of(Direction direction) noexcept {
        return direction == Direction::reading ? io::readable : io::writable;
    }

    int descriptor_;
    EventLoop* loop_ = nullptr;
    std::array<ReadinessOperation*, 2> waiting_{};
    std::array<bool, 2> worth_trying_{true, true};
};

/// An operation that is a system call on a descriptor, tried until the kernel does not answer EAGAIN.
/// To write one, derive from `SystemCallOperation` below.
class ReadinessOperation : public Suspension {
protected:
    /// True when the operation has ended, well or badly; false when it waits for readiness.
    using Attempt = bool (*)(ReadinessOperation&) noexcept;

    /// Without a pollable (a stream that was closed) it ends with `bad_file_descriptor`.
    ReadinessOperation(Pollable* pollable, Direction direction, Attempt attempt) noexcept
        : Suspension(&cancel), pollable_(pollable), attempt_(attempt), direction_(direction) {}

    /// Whether the operation has ended without waiting. One that fails at once counts too: a task that
    /// tries a closed stream again and again must not starve the others.
    [[nodiscard]] bool try_now() noexcept {
        if (!error_ && (pollable_ == nullptr || context().cancelled())) {
            error_ = failure(pollable_ == nullptr ? std::errc::bad_file_descriptor
                                                  : std::errc::operation_canceled)
                         .error();
        }
        if (error_) {
            return context().loop().spend();
        }
        return pollable_->worth_trying(direction_) && context().loop().spend() && attempt_(*this);
    }

    /// Whether it waits; if not, it has ended.
    template <typename Promise> [[nodiscard]] bool wait(std::coroutine_handle<Promise> task) {
        suspend(task);
        if (error_) { // known at once, but others must run first
            resume_soon();
            return true;
        }
        const LateError error = pollable_->wait(*this, direction_);
        return !error || not_waiting(error);
    }

    [[nodiscard]] int fd() const noexcept { return pollable_->descriptor(); }

    /// Ends the operation with the error that `errno` tells of.
    bool fail() noexcept {
        error_ = LateError::last();
        return true;
    }

    /// What `attempt` answers after a call that failed: true for an error, false for EAGAIN.
    bool failed_for_good() noexcept {
        if (errno == EAGAIN || errno == EWOULDBLOCK) {
            expect_nothing();
            return false;
        }
        return fail();
    }

    /// The call has taken what there was; the next one would answer EAGAIN.
    void expect_nothing() noexcept { pollable_->set_worth_trying(direction_, false); }

    /// Why it ended badly; set by the constructor, it ends the operation before it begins.
    LateError error_;

private:
    friend class Pollable;

    static void cancel(Suspension& suspension) noexcept;
    [[nodiscard]] bool not_waiting(LateError error);

    Pollable* pollable_;
    Attempt attempt_;
    Direction direction_;
};

inline LateError Pollable::wait(ReadinessOperation& operation, Direction direction) {
    ReadinessOperation*& waiting = waiting_[static_cast<std::size_t>(direction)];
    if (waiting != nullptr) {
        return std::make_error_code(std::errc::device_or_resource_busy);
    }
    EventLoop& loop = operation.context().loop();
    if (loop_ != &loop || (interest & event_of(direction)) == 0) {
        if (const LateError error = join(loop, event_of(direction))) {
            return error;
        }
    }
    waiting = &operation;
    return {};
}

/// Makes a system call again for as long as signals interrupt it.
template <typename Call> auto uninterrupted(Call call) noexcept {
    auto result = call();
    while (result < 0 && errno == EINTR) {
        result = call();
    }
    return result;
}

/// The base of an operation that is a system call on a descriptor. What is left to write:
///
///     class ReadOperation final : public SystemCallOperation<ReadOperation, std::size_t> {
///     public:
///         ReadOperation(Pollable* pollable, MutableBytes into) noexcept
///             : SystemCallOperation(pollable, Direction::reading), into_(into) {}
///
///         // Makes the call. True: the operation has ended; false: it waits until the descriptor
///         // is ready, and is then called again. It runs no other task and keeps no state that a
///         // second call would trip over.
///         bool attempt() noexcept {
///             count_ = uninterrupted([&] { return ::read(fd(), into_.data(), into_.size()); });
///             return count_ >= 0 || failed_for_good();
///         }
///
///         // After an attempt that ended well.
///         std::size_t result() noexcept { return static_cast<std::size_t>(count_); }
///
///     private:
///         MutableBytes into_;
///         ssize_t count_ = 0;
///     };
///
/// and a stream's member is `ReadOperation read(MutableBytes into) { return {pollable_.get(), into}; }`.
/// Cancellation, closing, errors of the registration and the loop's budget are taken care of here.
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
