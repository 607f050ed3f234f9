#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace penstock::codec::http {

/// Writes the head of a request or response into a buffer of the caller. Refuses what would change
/// the message's meaning: control characters in a value, a name that is not a token, a target with
/// spaces.
///
///     std::array<char, 512> buffer;
///     http::HeadWriter head(buffer);
///     head.status(200).field("Content-Type", "text/plain").content_length(5).end();
///     if (head.failed()) ...                       // invalid text, or the buffer is too small
///     write(head.text(), "hello");
///
/// Each call after a failure does nothing. Not thread safe.
class HeadWriter {
public:
    explicit HeadWriter(std::span<char> buffer) noexcept : buffer_(buffer) {}

    /// The request line, HTTP/1.1.
    HeadWriter& request(std::string_view method, std::string_view target) noexcept;

    /// The status line, HTTP/1.1. Without a reason, the registered one (RFC 9110, 15) is written.
    HeadWriter& status(int code, std::string_view reason = {}) noexcept;

    HeadWriter& field(std::string_view name, std::string_view value) noexcept;
    HeadWriter& field(std::string_view name, std::uint64_t value) noexcept;
    HeadWriter& content_length(std::uint64_t length) noexcept {
        return field("Content-Length", length);
    }
    HeadWriter& chunked() noexcept { return field("Transfer-Encoding", "chunked"); }

    /// The empty line after the last field.
    HeadWriter& end() noexcept;

    /// Whether a text was refused or the buffer was too small.
    [[nodiscard]] bool failed() const noexcept { return invalid_ || overflow_; }
    /// Whether the buffer was too small: the same calls succeed with a larger one.
    [[nodiscard]] bool overflowed() const noexcept { return overflow_ && !invalid_; }
    /// What was written so far.
    [[nodiscard]] std::string_view text() const noexcept { return {buffer_.data(), size_}; }

private:
    void put(std::string_view text) noexcept;

    std::span<char> buffer_;
    std::size_t size_ = 0;
    bool invalid_ = false;
    bool overflow_ = false;
};

/// The line before the data of a chunk, and the lines after it.
class ChunkHead {
public:
    /// `size` must not be 0, which would end the body.
    explicit ChunkHead(std::uint64_t size) noexcept;
    [[nodiscard]] std::string_view text() const noexcept { return {text_.data(), size_}; }

private:
    std::array<char, 18> text_{};
    std::size_t size_ = 0;
};

inline constexpr std::string_view chunk_end = "\r\n";
inline constexpr std::string_view last_chunk = "0\r\n\r\n";

/// The registered reason phrase of a status (RFC 9110, 15), or an empty text.
[[nodiscard]] std::string_view reason_of(int status) noexcept;

} // namespace penstock::codec::http
