#pragma once

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <system_error>
#include <utility>

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif

#include <penstock/detail/task/frame_allocator.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/task/operation_base.hpp>

namespace penstock::detail {

/// A descriptor that is closed when its last owner is destroyed. A file is an owner, and so is each
/// of its operations while the kernel or a worker thread uses the number. If it were closed
/// earlier, the number could become another file's, and a running write would go there.
///
/// Copies are owners. They may be destroyed on any thread. One owner is not thread safe.
class SharedDescriptor {
public:
    class SoleOwner;

    /// Empty.
    SharedDescriptor() = default;

    /// Throws `std::bad_alloc`. The descriptor is closed then.
    explicit SharedDescriptor(OwnedDescriptor descriptor)
        : state_(descriptor ? new State(std::move(descriptor)) : nullptr) {}

    SharedDescriptor(const SharedDescriptor& other) noexcept : state_(other.state_) {
        if (state_ != nullptr) {
            if (is_single_threaded()) {
                state_->owners.store(state_->owners.load(std::memory_order_relaxed) + one,
                                     std::memory_order_relaxed);
            } else {
                state_->owners.fetch_add(one, std::memory_order_relaxed);
            }
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

    /// -1 if empty.
    [[nodiscard]] int get() const noexcept {
        return state_ != nullptr ? state_->descriptor.get() : -1;
    }
    [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }

    /// Waits until this is the only owner. Returns `operation_canceled` if the task is cancelled
    /// first. The operation refers to this object. One task at a time waits.
    [[nodiscard]] SoleOwner sole_owner() const noexcept;

    /// Takes the descriptor. Only for the only owner.
    [[nodiscard]] OwnedDescriptor take() noexcept {
        return state_ != nullptr ? std::move(state_->descriptor) : OwnedDescriptor();
    }

private:
    /// Twice the number of owners, plus a flag: the last but one owner wakes `waiting`.
    using Owners = std::uint32_t;
    static constexpr Owners awaited = 1;
    static constexpr Owners one = 2;

    struct State : FrameAllocated {
        explicit State(OwnedDescriptor source) noexcept : descriptor(std::move(source)) {}

        OwnedDescriptor descriptor;
        std::atomic<Owners> owners{one};
        SoleOwner* waiting = nullptr; ///< written before `awaited` is set, read after it was seen
    };

    static void leave(State& state) noexcept;

    /// Whether the process has only this thread, as in a program on io_uring that starts none. A
    /// read of 4 KiB from the page cache would spend 8 % of its time on two locked instructions.
    [[nodiscard]] static bool is_single_threaded() noexcept {
#if __has_include(<sys/single_threaded.h>)
        return __libc_single_threaded != 0;
#else
        return false;
#endif
    }

    State* state_ = nullptr;
};

/// The operation of `sole_owner`.
class [[nodiscard]] SharedDescriptor::SoleOwner final : public OperationBase {
public:
    [[nodiscard]] bool await_ready() noexcept {
        const bool is_sole_owner =
            state_ == nullptr || state_->owners.load(std::memory_order_acquire) == one;
        cancelled_ = !is_sole_owner && context().cancelled();
        return is_sole_owner || cancelled_;
    }

    template <typename Promise>
    [[nodiscard]] bool await_suspend(std::coroutine_handle<Promise> task) noexcept {
        suspend(task);
        state_->waiting = this;
        if (state_->owners.fetch_or(awaited, std::memory_order_acq_rel) != one) {
            return true;
        }
        state_->owners.store(one, std::memory_order_relaxed); // the other owners have just ended
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

    explicit SoleOwner(State* state) noexcept : OperationBase(&cancel), state_(state) {}

    static void cancel(OperationBase& base) noexcept {
        auto& self = static_cast<SoleOwner&>(base);
        Owners owners = self.state_->owners.load(std::memory_order_relaxed);
        do {
            if (owners < 2 * one) {
                return; // the last of the other owners has ended, and resumes this
            }
        } while (!self.state_->owners.compare_exchange_weak(owners, owners & ~awaited,
                                                            std::memory_order_relaxed));
        self.cancelled_ = true;
        self.resume_soon();
    }

    State* state_;
    bool cancelled_ = false;
};

inline SharedDescriptor::SoleOwner SharedDescriptor::sole_owner() const noexcept {
    return SoleOwner(state_);
}

inline void SharedDescriptor::leave(State& state) noexcept {
    Owners before = 0;
    if (is_single_threaded()) {
        before = state.owners.load(std::memory_order_relaxed);
        state.owners.store(before - one, std::memory_order_relaxed);
    } else {
        before = state.owners.fetch_sub(one, std::memory_order_acq_rel);
    }
    if (before == one) {
        delete &state;
    } else if (before == (2 * one | awaited)) {
        // The waiting task cannot end before it is resumed, so the state is still alive.
        SoleOwner* const waiting = state.waiting;
        state.owners.fetch_and(~awaited, std::memory_order_relaxed);
        waiting->resume_from_any_thread();
    }
}

} // namespace penstock::detail
