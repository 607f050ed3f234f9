#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <penstock/fs/file.hpp>
#include <penstock/http/errors.hpp>
#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::http {

/// What a handler says about a body of which clients may ask for a part, or whether it has changed.
struct Content {
    std::uint64_t size = 0;
    std::string content_type = "application/octet-stream";
    /// Changes with each change of the body; with its quotation marks: "\"7\"". One that begins
    /// with W/ is weak: it allows no parts under a condition. Empty: none.
    std::string entity_tag{};
    /// When the body was changed. Nothing: not known.
    std::optional<std::chrono::sys_seconds> modified{};
    std::string cache_control{}; ///< the field's value. Empty: none
};

/// A part of a body.
struct ContentRange {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
};

/// A body that can be read from anywhere, such as `fs::File`: `co_await body.read_at(offset, into)`
/// returns how many bytes it has read; fewer than asked for only at its end.
template <typename T>
concept SeekableBody = requires(T& body, std::uint64_t offset, MutableBytes into) {
    requires std::same_as<Awaited<decltype(body.read_at(offset, into))>, Result<std::size_t>>;
};

/// Sets status and fields of the response to a request for this content: ETag, Last-Modified,
/// Cache-Control, Accept-Ranges, Content-Type, and Content-Range with status 206 if a part of it is
/// asked for (RFC 9110, sections 13.2 and 14). Returns what is to be sent as the body. Nothing if
/// the response is complete: 304, 412 or 416. Several ranges in one request are answered with the
/// whole content, as RFC 9110, 14.2, allows.
///
/// `send_content` and `StaticFiles` are made of this. Throws as `Headers::set`.
[[nodiscard]] std::optional<ContentRange> begin_content(const Request& request, Response& response,
                                                        const Content& content);

/// Answers with a text or bytes in memory. Errors: those of `Response::write_all`. The bytes must
/// live until then.
[[nodiscard]] Task<Result<>> send_content(Request& request, Response& response, Content content,
                                          Bytes body);

/// The same with an open file, by sendfile(2) over a socket.
[[nodiscard]] Task<Result<>> send_content(Request& request, Response& response, Content content,
                                          fs::File& body);

/// The same with any body that can be read from anywhere, in parts of 64 KiB. Errors: those of
/// reading too, and `Error::wrong_length` if the body ends early.
template <SeekableBody Body>
[[nodiscard]] Task<Result<>> send_content(Request& request, Response& response, Content content,
                                          Body& body) {
    const std::optional<ContentRange> range = begin_content(request, response, content);
    if (!range) {
        co_return Result<>();
    }
    response.content_length(range->size);
    if (request.method() == Method::head) {
        co_return Result<>();
    }
    constexpr std::size_t part_size = std::size_t{64} * 1024;
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(
        static_cast<std::size_t>(std::min<std::uint64_t>(part_size, range->size)));
    for (std::uint64_t sent = 0; sent < range->size;) {
        const auto wanted =
            static_cast<std::size_t>(std::min<std::uint64_t>(part_size, range->size - sent));
        const std::size_t size =
            co_await unwrap(body.read_at(range->begin + sent, MutableBytes(buffer.get(), wanted)));
        if (size == 0) {
            co_return failure(Error::wrong_length);
        }
        co_await unwrap(response.write_all(Bytes(buffer.get(), size)));
        sent += size;
    }
    co_return Result<>();
}

} // namespace penstock::http
