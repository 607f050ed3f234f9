#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/detail/task/budget_operation.hpp>
#include <penstock/errors.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// A reader with a read-ahead buffer, for line and frame protocols.
///
///     BufReader reader(stream);                       // a reference; std::move(stream) is owned
///     while (auto line = co_await reader.line()) {    // Result<std::optional<std::string_view>>
///         if (!*line) break;                          // the end of the stream
///         ...
///     }
///
/// The returned views point into the buffer. They are valid until the next call. `R` is a reader,
/// or a reference to one that must outlive this object.
///
/// Cancellation: a cancelled call loses nothing. The bytes that it has read stay in the buffer.
///
/// Thread safety: one call at a time, on the thread of the source.
template <typename R>
    requires Reader<std::remove_reference_t<R>>
class BufReader {
public:
    static constexpr std::size_t default_capacity = std::size_t{8} * 1024;

    /// The default limit for the length of a line or delimited frame, in bytes.
    static constexpr std::size_t default_limit = std::size_t{64} * 1024;

    explicit BufReader(R&& source, std::size_t capacity = default_capacity)
        : source_(std::forward<R>(source)), buffer_(std::max<std::size_t>(capacity, 1)) {}

    [[nodiscard]] std::remove_reference_t<R>& source() noexcept { return source_; }

    /// The bytes that are in the buffer.
    [[nodiscard]] Bytes buffered() const noexcept {
        return Bytes(buffer_.data() + begin_, end_ - begin_);
    }

    /// Removes the first `count` bytes from the buffer, at most `buffered().size()`.
    void consume(std::size_t count) noexcept { begin_ += std::min(count, end_ - begin_); }

    /// Waits until the source has more bytes, appends them to `buffered()`, and returns how many
    /// they are. 0 is the end of the stream. Errors: those of the source.
    [[nodiscard]] Task<Result<std::size_t>> fill() {
        make_room();
        Result<std::size_t> count =
            co_await source_.read(MutableBytes(buffer_.data() + end_, buffer_.size() - end_));
        if (count) {
            end_ += *count;
        }
        co_return count;
    }

    /// Waits until at least `count` bytes are buffered, and returns all buffered bytes. They stay
    /// in the buffer until `consume`. Returns fewer than `count` only at the end of the stream.
    [[nodiscard]] Task<Result<Bytes>> peek(std::size_t count = 1) {
        co_await detail::BudgetOperation();
        while (end_ - begin_ < count) {
            if (buffer_.size() < count) {
                grow(count);
            }
            const Result<std::size_t> more = co_await fill();
            if (!more) {
                co_return failure(more.error());
            }
            if (*more == 0) {
                break;
            }
        }
        co_return buffered();
    }

    /// Reads from the buffer. If the buffer is empty, reads from the source.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into) {
        co_await detail::BudgetOperation();
        if (begin_ == end_ && into.size() >= buffer_.size()) {
            co_return co_await source_.read(into);
        }
        if (begin_ == end_ && !into.empty()) {
            if (const Result<std::size_t> count = co_await fill(); !count || *count == 0) {
                co_return count;
            }
        }
        const std::size_t count = std::min(into.size(), end_ - begin_);
        take(into.data(), count);
        co_return count;
    }

    /// Fills `into` completely. Returns `Error::end_of_stream` if the stream ends first. The bytes
    /// read so far then stay in the buffer.
    [[nodiscard]] Task<Result<>> read_exactly(MutableBytes into) {
        co_await detail::BudgetOperation();
        while (end_ - begin_ < into.size()) {
            if (buffer_.size() < into.size()) {
                grow(into.size());
            }
            const Result<std::size_t> count = co_await fill();
            if (!count) {
                co_return failure(count.error());
            }
            if (*count == 0) {
                co_return failure(Error::end_of_stream);
            }
        }
        take(into.data(), into.size());
        co_return Result<>();
    }

    /// Reads up to and including `delimiter`. Errors: `Error::end_of_stream` if the stream ends
    /// first (the bytes read so far are in `buffered()`), `message_size` if `limit` bytes do not
    /// contain the delimiter.
    [[nodiscard]] Task<Result<std::string_view>> read_until(std::string_view delimiter,
                                                            std::size_t limit = default_limit) {
        co_await detail::BudgetOperation();
        std::size_t searched = 0;
        for (;;) {
            const std::string_view text = view();
            const std::size_t found = text.find(delimiter, searched);
            if (found != std::string_view::npos && found + delimiter.size() <= limit) {
                const std::size_t size = found + delimiter.size();
                begin_ += size;
                co_return text.substr(0, size);
            }
            if (text.size() >= limit) {
                co_return failure(std::errc::message_size);
            }
            // The delimiter may start in the bytes that are already buffered.
            searched = text.size() - std::min(text.size(), delimiter.size() - 1);
            const Result<std::size_t> count = co_await fill();
            if (!count) {
                co_return failure(count.error());
            }
            if (*count == 0) {
                co_return failure(Error::end_of_stream);
            }
        }
    }

    /// Reads the next line, without its `\n` or `\r\n`. The last line may lack the line end. It is
    /// then returned unchanged, including a `\r` at its end. Returns an empty optional at the end
    /// of the stream. Errors: `message_size` for a line of more than `limit` bytes, line end
    /// included.
    [[nodiscard]] Task<Result<std::optional<std::string_view>>>
    line(std::size_t limit = default_limit) {
        const Result<std::string_view> found = co_await read_until("\n", limit);
        std::string_view text;
        if (found) {
            text = found->substr(0, found->size() - 1);
            if (text.ends_with('\r')) {
                text.remove_suffix(1);
            }
        } else if (found.error() != Error::end_of_stream) {
            co_return failure(found.error());
        } else if (begin_ == end_) {
            co_return std::optional<std::string_view>();
        } else {
            text = view();
            begin_ = end_;
        }
        co_return std::optional(text);
    }

private:
    [[nodiscard]] std::string_view view() const noexcept {
        return {reinterpret_cast<const char*>(buffer_.data()) + begin_, end_ - begin_};
    }

    void take(std::byte* into, std::size_t count) noexcept {
        std::copy_n(buffer_.data() + begin_, count,
                    into); // unlike memcpy, allows null with a size of 0
        begin_ += count;
    }

    void make_room() {
        if (begin_ == end_) {
            begin_ = end_ = 0;
        } else if (end_ == buffer_.size()) {
            if (begin_ > 0) {
                std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
                end_ -= std::exchange(begin_, 0);
            } else {
                buffer_.resize(buffer_.size() * 2);
            }
        }
    }

    void grow(std::size_t size) { buffer_.resize(begin_ + size); }

    R source_;
    std::vector<std::byte> buffer_;
    std::size_t begin_ = 0;
    std::size_t end_ = 0;
};

template <typename R> BufReader(R&) -> BufReader<R&>;
template <typename R> BufReader(R&, std::size_t) -> BufReader<R&>;
template <typename R> BufReader(R&&) -> BufReader<R>;
template <typename R> BufReader(R&&, std::size_t) -> BufReader<R>;

} // namespace penstock
