#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/limits.hpp>
#include <penstock/codec/http/request_parser.hpp>

namespace penstock::codec::http {

/// Parses the head of an HTTP/1.1 response (RFC 9112), under the same rules as `RequestParser`. The
/// framing of a response's body depends on the request, so the caller names it.
///
/// An interim response (1xx, except 101) is followed by another head; the parser returns each.
/// Not thread safe.
class ResponseParser {
public:
    /// The request whose response is expected.
    enum class To : std::uint8_t { other, head, connect };

    explicit ResponseParser(std::span<Field> storage, const Limits& limits = {}) noexcept
        : storage_(storage), limits_(limits) {}

    /// As `RequestParser::parse`.
    [[nodiscard]] Progress parse(std::string_view data, To request = To::other) noexcept;

    [[nodiscard]] const ResponseHead& head() const noexcept { return head_; }
    [[nodiscard]] Error error() const noexcept { return error_; }
    void reset() noexcept { scanner_.reset(); }

private:
    [[nodiscard]] Error parse_whole(std::string_view data, To request, bool& more) noexcept;

    std::span<Field> storage_;
    Limits limits_;
    HeadScanner scanner_;
    ResponseHead head_;
    Error error_ = Error::none;
};

} // namespace penstock::codec::http
