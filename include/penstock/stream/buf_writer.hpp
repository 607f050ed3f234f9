#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// A writer that collects small writes in a buffer. It writes the buffer when it is full, and on
/// `flush`.
///
/// The destructor does not flush, because a destructor cannot wait. Bytes that were not flushed are
/// lost. `W` is a writer, or a reference to one that must outlive this object.
///
/// Errors and cancellation: a failed or cancelled flush may have written a part. The buffer is
/// empty afterwards.
///
/// Thread safety: one call at a time, on the thread of the target.
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

    /// The number of bytes in the buffer.
    [[nodiscard]] std::size_t pending() const noexcept { return buffer_.size(); }

    /// Appends `from` to the buffer. If it does not fit, writes the buffer and `from`.
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
        co_await detail::BudgetOperation();
        buffer_.insert(buffer_.end(), from.begin(), from.end());
        co_return Result<>();
    }

    /// Writes the buffered bytes.
    [[nodiscard]] Task<Result<>> flush() {
        if (buffer_.empty()) {
            co_return Result<>();
        }
        const Taken pending(buffer_);
        co_return co_await target_.write_all(pending.bytes());
    }

private:
    /// Clears the buffer when the write has ended, even when it is destroyed while it waits.
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
