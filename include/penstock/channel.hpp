#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <penstock/detail/wait_queue.hpp>
#include <penstock/errors.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// Hands values from tasks to tasks, of one loop or several, in order. Any number may send and receive;
/// a full channel makes senders wait, an empty one receivers.
///
///     while (Result<Job> job = co_await jobs.receive()) { ... }   // until it is closed and empty
///
/// Fair: who waits longest is served first. A value is given to exactly one receiver; a receiver that
/// is cancelled has taken none. It must outlive those who wait for it. Sending and receiving allocate
/// nothing; the room for `capacity` values is allocated at once.
template <typename T> class Channel {
    static_assert(std::is_nothrow_move_constructible_v<T>,
                  "a value that fails to move could get lost between two tasks");

public:
    class Send;
    class Receive;

    /// Throws `std::invalid_argument` for a capacity of 0, and `std::bad_alloc`.
    explicit Channel(std::size_t capacity)
        : capacity_(capacity != 0
                        ? capacity
                        : throw std::invalid_argument("a channel's capacity is at least 1")),
          room_(std::make_unique<Slot[]>(capacity)) {}

    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;
    ~Channel() {
        while (size_ > 0) {
            (void)pop();
        }
    }

    /// Waits until there is room. `Error::channel_closed` when it is closed, before or meanwhile; the
    /// value is dropped then, as it is after `operation_canceled`.
    [[nodiscard]] Send send(T value) noexcept { return Send(*this, std::move(value)); }

    /// Waits for a value. `Error::channel_closed` when it is closed and nothing is left.
    [[nodiscard]] Receive receive() noexcept { return Receive(*this); }

    /// Without waiting, on any thread, also one that runs no loop. True: `value` was moved from. False:
    /// it is untouched, because the channel is full or closed.
    [[nodiscard]] bool try_send(T& value) noexcept {
        detail::Waiter::Awakened awakened;
        const std::lock_guard guard(lock_);
        return !closed_ && put(value, awakened);
    }

    /// Without waiting, on any thread. Nothing when it is empty.
    [[nodiscard]] std::optional<T> try_receive() noexcept {
        detail::Waiter::Awakened awakened;
        const std::lock_guard guard(lock_);
        return take(awakened);
    }

    /// Nothing more can be sent; what is in the channel can still be received. Who waits to send, or to
    /// receive from an empty channel, gets `Error::channel_closed`. Any thread; safe to call again.
    void close() noexcept {
        detail::Waiter::Awakened awakened;
        const std::lock_guard guard(lock_);
        closed_ = true;
        awakened.add_all(senders_);
        awakened.add_all(receivers_);
    }

    [[nodiscard]] bool closed() const noexcept {
        const std::lock_guard guard(lock_);
        return closed_;
    }
    [[nodiscard]] std::size_t size() const noexcept {
        const std::lock_guard guard(lock_);
        return size_;
    }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

private:
    struct Slot {
        alignas(T) std::byte bytes[sizeof(T)];
    };

    [[nodiscard]] void* slot(std::size_t index) const noexcept {
        return room_[index % capacity_].bytes;
    }

    [[nodiscard]] T pop() noexcept {
        T* oldest = std::launder(static_cast<T*>(slot(first_)));
        T value = std::move(*oldest);
        oldest->~T();
        first_ = (first_ + 1) % capacity_;
        --size_;
        return value;
    }

    void push(T&& value) noexcept {
        ::new (slot(first_ + size_)) T(std::move(value));
        ++size_;
    }

    // A receiver waits only while the channel is empty, a sender only while it is full.
    [[nodiscard]] bool put(T& value, detail::Waiter::Awakened& awakened) noexcept {
        if (detail::Waiter* receiver = detail::Waiter::take_first(receivers_)) {
            static_cast<Receive*>(receiver)->value_.emplace(std::move(value));
            awakened.add(*receiver);
            return true;
        }
        if (size_ == capacity_) {
            return false;
        }
        push(std::move(value));
        return true;
    }

    [[nodiscard]] std::optional<T> take(detail::Waiter::Awakened& awakened) noexcept {
        if (size_ == 0) {
            return std::nullopt;
        }
        std::optional<T> value(pop());
        if (detail::Waiter* sender = detail::Waiter::take_first(senders_)) {
            auto& send = static_cast<Send&>(*sender);
            push(std::move(send.value_));
            send.sent_ = true;
            awakened.add(*sender);
        }
        return value;
    }

    const std::size_t capacity_;
    mutable std::mutex lock_;
    std::unique_ptr<Slot[]> room_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
    bool closed_ = false;
    detail::WaitQueue senders_;
    detail::WaitQueue receivers_;
};

template <typename T> class Channel<T>::Send final : public detail::WaitOperation<Send, void> {
public:
    Send(Channel& channel, T&& value) noexcept
        : detail::WaitOperation<Send, void>(channel.lock_, channel.senders_), channel_(&channel),
          value_(std::move(value)) {}

    bool try_now(detail::Waiter::Awakened& awakened) noexcept {
        sent_ = !channel_->closed_ && channel_->put(value_, awakened);
        return sent_ || channel_->closed_;
    }

    [[nodiscard]] Result<> result() const noexcept {
        if (!sent_) {
            return failure(make_error_code(Error::channel_closed));
        }
        return {};
    }

private:
    friend class Channel;

    Channel* channel_;
    T value_;
    bool sent_ = false;
};

template <typename T> class Channel<T>::Receive final : public detail::WaitOperation<Receive, T> {
public:
    explicit Receive(Channel& channel) noexcept
        : detail::WaitOperation<Receive, T>(channel.lock_, channel.receivers_), channel_(&channel) {
    }

    bool try_now(detail::Waiter::Awakened& awakened) noexcept {
        value_ = channel_->take(awakened);
        return value_.has_value() || channel_->closed_;
    }

    [[nodiscard]] Result<T> result() noexcept {
        if (!value_) {
            return failure(make_error_code(Error::channel_closed));
        }
        return std::move(*value_);
    }

private:
    friend class Channel;

    Channel* channel_;
    std::optional<T> value_;
};

} // namespace penstock
