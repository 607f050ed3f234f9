#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/limits.hpp>

namespace penstock::codec::http {

/// Finds the end of a head that arrives in parts, so that it is parsed at most twice however small
/// the parts are.
class HeadScanner {
public:
    /// Whether `data` may have a whole head, or an error that a parser should name. `data` begins
    /// like the data of the call before.
    [[nodiscard]] bool worth_parsing(std::string_view data, const Limits& limits) noexcept;

    /// After a parse that needed more.
    void remember(std::string_view data) noexcept { scanned_ = data.size(); }

    void reset() noexcept { scanned_ = 0; }

private:
    std::size_t scanned_ = 0;
};

/// Parses the head of an HTTP/1.1 request (RFC 9112), strictly: what two recipients could
/// understand in two ways is refused. `Error` lists the reasons.
///
/// The caller owns the buffer and the field storage. Nothing is copied or allocated; the head
/// consists of views of both. Several parsers may share one storage, as long as a head is used
/// before the next `parse` of any of them.
///
///     std::array<http::Field, 64> storage;
///     http::RequestParser parser(storage);
///     switch (parser.parse(received)) {            // all that follows the last request
///     case Progress::incomplete: break;            // append to `received`, and call again
///     case Progress::failed: respond(status_for(parser.error())); break;
///     case Progress::complete: handle(parser.head()); received.remove_prefix(parser.head().size);
///     }
///
/// One empty line before the request is skipped (RFC 9112, 2.2) and counts to its size.
/// Not thread safe.
class RequestParser {
public:
    explicit RequestParser(std::span<Field> storage, const Limits& limits = {}) noexcept
        : storage_(storage), limits_(limits) {}

    /// Parses the head at the beginning of `data`. After `incomplete`, call again with the same
    /// bytes and more; they may have moved. After `complete` or `failed`, the next call begins a
    /// new head.
    [[nodiscard]] Progress parse(std::string_view data) noexcept;

    /// The head after `complete`.
    [[nodiscard]] const RequestHead& head() const noexcept { return head_; }

    /// The reason after `failed`.
    [[nodiscard]] Error error() const noexcept { return error_; }

    /// Forgets a head that is incomplete.
    void reset() noexcept { scanner_.reset(); }

private:
    [[nodiscard]] Error parse_whole(std::string_view data, bool& more) noexcept;

    std::span<Field> storage_;
    Limits limits_;
    HeadScanner scanner_;
    RequestHead head_;
    Error error_ = Error::none;
};

} // namespace penstock::codec::http
