#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <system_error>
#include <utility>

#include <penstock/detail/frame_allocator.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/suspension.hpp>

namespace penstock::detail {

/// A descriptor that is closed when its last owner ends. A file owns it, and so does each of its
/// operations for as long as the kernel or a worker thread may use the number: closed earlier, the
/// number could become another file's, and a write that is under way would go there.
///
/// Copies are owners. Owners may end on any thread; one owner is not thread safe.
class SharedDescriptor {
public:
    class Alone;

    /// None.
    SharedDescriptor() = default;

    /// Throws `std::bad_alloc`; the descriptor is closed then.
    explicit SharedDescriptor(OwnedDescriptor descriptor)
        : state_(descriptor ? new State(std::move(descriptor)) : nullptr) {}

    SharedDescriptor(const SharedDescriptor& other) noexcept : state_(other.state_) {
        if (state_ != nullptr) {
            state_->owners.fetch_add(one, std::memory_order_relaxed);
        }
    }
    SharedDescriptor(SharedDescriptor&& other) noexcept
        : state_(std::exchange(other.state_, nullptr)) {}
    SharedDescriptor& operator=(SharedDescriptor other) noexcept {
        std::swap(state_, other.state_);
        return *this;
    }
    ~SharedDescriptor() {
        if (state_ != nullptr) {
            leave(*state_);
        }
    }

    /// -1 when there is none.
    [[nodiscard]] int get() const noexcept {
        return state_ != nullptr ? state_->descriptor.get() : -1;
    }
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    /// Waits until there is no other owner; `operation_canceled` when the task is cancelled before. It
    /// refers to this object. One at a time waits.
    [[nodiscard]] Alone alone() const noexcept;

    /// Takes the descriptor out, for the only owner.
    [[nodiscard]] OwnedDescriptor take() noexcept {
        return state_ != nullptr ? std::move(state_->descriptor) : OwnedDescriptor();
    }

private:
    /// The number of owners, times two, and whether the last but one of them is to wake `waiting`.
    using Owners = std::uint32_t;
    static constexpr Owners awaited = 1;
    static constexpr Owners one = 2;

    struct State : FrameAllocated {
        explicit State(OwnedDescriptor source) noexcept : descriptor(std::move(source)) {}

        OwnedDescriptor descriptor;
        std::atomic<Owners> owners{one};
        Alone* waiting = nullptr; ///< written before `awaited` is set, read after it has been seen
    };

    static void leave(State& state) noexcept;

    State* state_ = nullptr;
};

/// What `alone` returns.
class [[nodiscard]] SharedDescriptor::Alone final : public Suspension {
public:
    [[nodiscard]] bool await_ready() noexcept {
        const bool alone =
            state_ == nullptr || state_->owners.load(std::memory_order_acquire) == one;
        cancelled_ = !alone && context().cancelled();
        return alone || cancelled_;
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        state_->waiting = this;
        if (state_->owners.fetch_or(awaited, std::memory_order_acq_rel) != one) {
            return true;
        }
        state_->owners.store(one, std::memory_order_relaxed); // the others have just ended
        unsuspend();
        return false;
    }

    [[nodiscard]] Result<> await_resume() const noexcept {
        if (cancelled_) {
            return failure(std::errc::operation_canceled);
        }
        return {};
    }

private:
    friend class SharedDescriptor;

    explicit Alone(State* state) noexcept : Suspension(&cancel), state_(state) {}

    static void cancel(Suspension& suspension) noexcept {
        auto& self = static_cast<Alone&>(suspension);
        Owners owners = self.state_->owners.load(std::memory_order_relaxed);
        do {
            if (owners < 2 * one) {
                return; // the last of the others has ended, and resumes this
            }
        } while (!self.state_->owners.compare_exchange_weak(owners, owners & ~awaited,
                                                            std::memory_order_relaxed));
        self.cancelled_ = true;
        self.resume_soon();
    }

    State* state_;
    bool cancelled_ = false;
};

inline SharedDescriptor::Alone SharedDescriptor::alone() const noexcept {
    return Alone(state_);
}

inline void SharedDescriptor::leave(State& state) noexcept {
    const Owners before = state.owners.fetch_sub(one, std::memory_order_acq_rel);
    if (before == one) {
        delete &state;
    } else if (before == (2 * one | awaited)) {
        // Who waits cannot end before it is resumed, so the state lives on.
        Alone* const waiting = state.waiting;
        state.owners.fetch_and(~awaited, std::memory_order_relaxed);
        waiting->resume_from_any_thread();
    }
}

} // namespace penstock::detail
