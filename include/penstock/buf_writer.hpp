#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <penstock/bytes.hpp>
#include <penstock/detail/turn.hpp>
#include <penstock/stream.hpp>
#include <penstock/task.hpp>

namespace penstock {

/// Gathers small writes in a buffer, and hands them on when it is full or when asked to.
///
/// Nothing is handed on by its end: what has not been flushed is lost with it, for a destructor cannot
/// wait. `W` is a writer, or a reference to one that must outlive this. After a failed or cancelled
/// flush it is not known how much of the buffer has left; the buffer is empty then. One call at a time;
/// on the target's thread.
template <typename W>
    requires Writer<std::remove_reference_t<W>>
class BufWriter {
public:
    static constexpr std::size_t default_capacity = std::size_t{8} * 1024;

    explicit BufWriter(W&& target, std::size_t capacity = default_capacity)
        : target_(std::forward<W>(target)), capacity_(std::max<std::size_t>(capacity, 1)) {
        buffer_.reserve(capacity_);
    }

    [[nodiscard]] std::remove_reference_t<W>& target() noexcept { return target_; }

    /// How many bytes wait to be flushed.
    [[nodiscard]] std::size_t pending() const noexcept { return buffer_.size(); }

    /// Buffers `from`; when the buffer has no room for it, both are written.
    [[nodiscard]] Task<Result<>> write_all(Bytes from) {
        if (buffer_.size() + from.size() > capacity_) {
            const Taken pending(buffer_);
            if constexpr (requires { target_.write_all(from, from); }) {
                co_return co_await target_.write_all(pending.bytes(), from);
            } else {
                const Result<> written = co_await target_.write_all(pending.bytes());
                co_return written ? co_await target_.write_all(from) : written;
            }
        }
        co_await detail::TurnOperation();
        buffer_.insert(buffer_.end(), from.begin(), from.end());
        co_return Result<>();
    }

    /// Writes what is buffered.
    [[nodiscard]] Task<Result<>> flush() {
        if (buffer_.empty()) {
            co_return Result<>();
        }
        const Taken pending(buffer_);
        co_return co_await target_.write_all(pending.bytes());
    }

private:
    /// Empties the buffer when its bytes have been handed on, or when the task that did so ends.
    class Taken {
    public:
        explicit Taken(std::vector<std::byte>& buffer) noexcept : buffer_(buffer) {}
        ~Taken() { buffer_.clear(); }
        Taken(const Taken&) = delete;
        Taken& operator=(const Taken&) = delete;
        [[nodiscard]] Bytes bytes() const noexcept { return Bytes(buffer_.data(), buffer_.size()); }

    private:
        std::vector<std::byte>& buffer_;
    };

    W target_;
    std::size_t capacity_;
    std::vector<std::byte> buffer_;
};

template <typename W> BufWriter(W&) -> BufWriter<W&>;
template <typename W> BufWriter(W&, std::size_t) -> BufWriter<W&>;
template <typename W> BufWriter(W&&) -> BufWriter<W>;
template <typename W> BufWriter(W&&, std::size_t) -> BufWriter<W>;

} // namespace penstock
