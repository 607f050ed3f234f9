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

/// The metadata of a body that clients may request in parts (Range) or on a condition
/// (If-None-Match and the like).
struct Content {
    std::uint64_t size = 0; ///< bytes
    std::string content_type = "application/octet-stream";
    /// The ETag, with its quotation marks: "\"7\"". It must change whenever the body does. A weak
    /// one, which begins with W/, never matches If-Range (RFC 9110, section 13.1.5). Empty: none.
    std::string entity_tag{};
    /// When the body was last changed. Without a value: not known.
    std::optional<std::chrono::sys_seconds> modified{};
    std::string cache_control{}; ///< the field's value. Empty: none
};

/// A part of a body, in bytes.
struct ContentRange {
    std::uint64_t begin = 0;
    std::uint64_t size = 0;
};

/// A body that can be read at any offset, such as `fs::File`: `co_await body.read_at(offset, into)`
/// returns the number of bytes read, 0 only at the end of the body.
template <typename T>
concept SeekableBody = requires(T& body, std::uint64_t offset, MutableBytes into) {
    requires std::same_as<Awaited<decltype(body.read_at(offset, into))>, Result<std::size_t>>;
};

/// Sets the status and the fields of a response to a request for this content: ETag,
/// Last-Modified, Cache-Control, Accept-Ranges, Content-Type, and Content-Range with status 206 if
/// the client asks for a part (RFC 9110, sections 13.2 and 14). Returns the part to send as the
/// body, or nothing if the response is already complete: 304, 412 or 416. A request for several
/// ranges gets the whole content, as RFC 9110, section 14.2, allows.
///
/// `send_content` and `StaticFiles` are built on this. Throws as `Headers::set`.
[[nodiscard]] std::optional<ContentRange> begin_content(const Request& request, Response& response,
                                                        const Content& content);

/// Sends bytes in memory as the content, or the part that the request asks for. The bytes must live
/// until the task has ended. Errors and cancellation: as `Response::write_all`.
[[nodiscard]] Task<Result<>> send_content(Request& request, Response& response, Content content,
                                          Bytes body);

/// The same with an open file, by sendfile(2) over a socket.
[[nodiscard]] Task<Result<>> send_content(Request& request, Response& response, Content content,
                                          fs::File& body);

/// The same with any body that can be read at any offset, in parts of up to 64 KiB. Further errors:
/// those of reading, and `Error::wrong_length` if the body ends early.
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
