#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <penstock/detail/task/wait_queue.hpp>
#include <penstock/errors.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// A bounded queue between tasks, on one loop or several. Any number of tasks may send and receive.
/// Senders wait while the channel is full. Receivers wait while it is empty.
///
///     while (Result<Job> job = co_await jobs.receive()) { ... }
///
/// This loop ends when the channel is closed and empty, or when the task is cancelled. To tell the
/// two apart, use `for_each_concurrent`: only for a cancellation it returns an error.
///
/// Order: first in, first out, for values and for waiting tasks. Exactly one receiver gets each
/// value.
///
/// Cancellation: a cancelled receive takes no value. A cancelled send drops its value.
///
/// Memory: the constructor allocates the storage for `capacity` values. Sending and receiving do
/// not allocate.
///
/// Thread safety: all members may be called on any thread. `send` and `receive` need a task. The
/// channel must outlive the tasks that wait for it.
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

    /// Waits until there is room. Errors: `Error::channel_closed` if the channel is or becomes
    /// closed, `operation_canceled`. The value is dropped on an error.
    [[nodiscard]] Send send(T value) noexcept { return Send(*this, std::move(value)); }

    /// Waits for a value. Errors: `Error::channel_closed` if the channel is closed and empty,
    /// `operation_canceled`.
    [[nodiscard]] Receive receive() noexcept { return Receive(*this); }

    /// Sends without waiting. Any thread may call this, including one without a loop. Returns false
    /// and leaves `value` unchanged if the channel is full or closed. Otherwise moves from `value`.
    [[nodiscard]] bool try_send(T& value) noexcept {
        detail::Waiter::WakeList wake_list;
        const std::lock_guard guard(lock_);
        return !closed_ && put(value, wake_list);
    }

    /// Receives without waiting. Any thread may call this. Returns nothing if the channel is empty.
    [[nodiscard]] std::optional<T> try_receive() noexcept {
        detail::Waiter::WakeList wake_list;
        const std::lock_guard guard(lock_);
        return take(wake_list);
    }

    /// Closes the channel for sending. Buffered values can still be received. Tasks that wait to
    /// send, or to receive from the empty channel, get `Error::channel_closed`. Any thread may call
    /// this. Further calls do nothing.
    void close() noexcept {
        detail::Waiter::WakeList wake_list;
        const std::lock_guard guard(lock_);
        closed_ = true;
        wake_list.add_all(senders_);
        wake_list.add_all(receivers_);
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

    // Receivers wait only while the channel is empty. Senders wait only while it is full.
    [[nodiscard]] bool put(T& value, detail::Waiter::WakeList& wake_list) noexcept {
        if (detail::Waiter* receiver = detail::Waiter::take_first(receivers_)) {
            static_cast<Receive*>(receiver)->value_.emplace(std::move(value));
            wake_list.add(*receiver);
            return true;
        }
        if (size_ == capacity_) {
            return false;
        }
        push(std::move(value));
        return true;
    }

    [[nodiscard]] std::optional<T> take(detail::Waiter::WakeList& wake_list) noexcept {
        if (size_ == 0) {
            return std::nullopt;
        }
        std::optional<T> value(pop());
        if (detail::Waiter* sender = detail::Waiter::take_first(senders_)) {
            auto& send = static_cast<Send&>(*sender);
            push(std::move(send.value_));
            send.sent_ = true;
            wake_list.add(*sender);
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

    bool try_now(detail::Waiter::WakeList& wake_list) noexcept {
        sent_ = !channel_->closed_ && channel_->put(value_, wake_list);
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

    bool try_now(detail::Waiter::WakeList& wake_list) noexcept {
        value_ = channel_->take(wake_list);
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
