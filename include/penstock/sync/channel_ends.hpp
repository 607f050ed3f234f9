#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

#include <penstock/io/never_destroyed.hpp>
#include <penstock/sync/channel.hpp>

namespace penstock {

template <typename T> class Sender;
template <typename T> class Receiver;

namespace detail {

/// A channel with the numbers of its ends.
template <typename T> struct CountedChannel {
    explicit CountedChannel(std::size_t capacity) : channel(capacity) {}

    Channel<T> channel;
    std::atomic<std::size_t> senders{1};
    std::atomic<std::size_t> receivers{1};
};

/// The channel of an end that was moved from: closed and empty.
template <typename T> [[nodiscard]] Channel<T>& closed_channel() noexcept {
    static io::NeverDestroyed<Channel<T>> channel(std::size_t{1});
    (*channel).close();
    return *channel;
}

/// One of the ends counted by `Count`. The last one closes the channel. An end that was moved from
/// is one of a closed channel.
template <typename T, std::atomic<std::size_t> CountedChannel<T>::* Count> class ChannelEnd {
public:
    ChannelEnd(const ChannelEnd& other) noexcept : shared_(other.shared_) { join(); }
    ChannelEnd(ChannelEnd&&) noexcept = default;
    ChannelEnd& operator=(ChannelEnd other) noexcept {
        std::swap(shared_, other.shared_);
        return *this;
    }
    ~ChannelEnd() {
        if (shared_ && ((*shared_).*Count).fetch_sub(1, std::memory_order_acq_rel) == 1) {
            shared_->channel.close();
        }
    }

    /// Closes the channel, even if other ends of either kind are left.
    void close() noexcept { channel().close(); }

    [[nodiscard]] bool closed() const noexcept { return channel().closed(); }

protected:
    explicit ChannelEnd(std::shared_ptr<CountedChannel<T>> shared) noexcept
        : shared_(std::move(shared)) {}

    [[nodiscard]] Channel<T>& channel() const noexcept {
        return shared_ ? shared_->channel : closed_channel<T>();
    }

private:
    void join() noexcept {
        if (shared_) {
            ((*shared_).*Count).fetch_add(1, std::memory_order_relaxed);
        }
    }

    std::shared_ptr<CountedChannel<T>> shared_;
};

} // namespace detail

/// The sending end of a channel. Copies are further senders. When the last one is destroyed, the
/// channel closes: the receivers get what is buffered and then `Error::channel_closed`.
///
/// Thread safety: as `Channel`. One thread at a time may use one object. Copies may be used on
/// several.
template <typename T>
class Sender : public detail::ChannelEnd<T, &detail::CountedChannel<T>::senders> {
public:
    /// As `Channel::send`. Returns `Error::channel_closed` if no receiver is left. This object must
    /// live until the operation has ended.
    [[nodiscard]] auto send(T value) noexcept { return this->channel().send(std::move(value)); }

    /// As `Channel::try_send`.
    [[nodiscard]] bool try_send(T& value) noexcept { return this->channel().try_send(value); }

private:
    template <typename U>
    friend std::pair<Sender<U>, Receiver<U>> make_channel(std::size_t capacity);
    using detail::ChannelEnd<T, &detail::CountedChannel<T>::senders>::ChannelEnd;
};

/// The receiving end of a channel. Copies are further receivers, and each value goes to one of
/// them. When the last one is destroyed, the channel closes: senders get `Error::channel_closed`.
///
/// Thread safety: as `Sender`.
template <typename T>
class Receiver : public detail::ChannelEnd<T, &detail::CountedChannel<T>::receivers> {
public:
    /// As `Channel::receive`. This object must live until the operation has ended.
    [[nodiscard]] auto receive() noexcept { return this->channel().receive(); }

    /// As `Channel::try_receive`.
    [[nodiscard]] std::optional<T> try_receive() noexcept { return this->channel().try_receive(); }

private:
    template <typename U>
    friend std::pair<Sender<U>, Receiver<U>> make_channel(std::size_t capacity);
    using detail::ChannelEnd<T, &detail::CountedChannel<T>::receivers>::ChannelEnd;
};

/// Makes a channel and returns its two ends, which own it together:
///
///     auto [jobs, queue] = make_channel<Job>(16);
///     scope.spawn(work(std::move(queue)));
///     co_await jobs.send(job);    // the worker's loop ends when `jobs` is destroyed
///
/// A task that has an end as a parameter destroys it when the task ends, in a scope, in `all`,
/// `any` and `race`, and under `timeout`. So `all(produce(std::move(sender)),
/// consume(std::move(receiver)))` ends.
///
/// Throws `std::invalid_argument` for a capacity of 0, and `std::bad_alloc`.
template <typename T>
[[nodiscard]] std::pair<Sender<T>, Receiver<T>> make_channel(std::size_t capacity) {
    auto shared = std::make_shared<detail::CountedChannel<T>>(capacity);
    return {Sender<T>(shared), Receiver<T>(shared)};
}

} // namespace penstock
