#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <penstock/http/head.hpp>
#include <penstock/http/headers.hpp>
#include <penstock/http/status.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {
class Exchange;
}

/// The version of a message.
enum class Version : std::uint8_t { http_1_0, http_1_1, http_2, other };

/// A response whose body is read as a stream:
///
///     http::ClientResponse response = co_await unwrap(client.send({.url = url}));
///     co_await unwrap(copy(response, file));
///
/// A `Reader`: `copy`, `BufReader` and `read_all` take it. While the program does not read, the
/// client keeps at most `ClientOptions::buffer` bytes, and the server has to wait. With HTTP/2 they
/// may be more: see that option.
///
/// The destructor ends a transfer that is not complete: HTTP/1.1 closes the connection, HTTP/2
/// resets the stream. The object must not be moved or destroyed while an operation waits. It may
/// outlive its client and its loop, but the transfer ends with either of them.
///
/// Thread safety: only on the thread of its loop, one task at a time.
class ClientResponse {
public:
    explicit ClientResponse(std::unique_ptr<detail::Exchange> exchange) noexcept;
    ClientResponse(ClientResponse&&) noexcept;
    ClientResponse& operator=(ClientResponse&&) noexcept;
    ClientResponse(const ClientResponse&) = delete;
    ClientResponse& operator=(const ClientResponse&) = delete;
    ~ClientResponse();

    [[nodiscard]] Status status() const noexcept;
    /// The fields as the server has sent them: after decompression, Content-Encoding and
    /// Content-Length still describe the compressed body.
    [[nodiscard]] const Headers& headers() const noexcept;
    [[nodiscard]] Version version() const noexcept;
    /// The URL of this response, after redirects. Without user name and password.
    [[nodiscard]] const std::string& url() const noexcept;
    /// How many redirects were followed.
    [[nodiscard]] std::size_t redirects() const noexcept;
    /// The fields after the body (RFC 9110, section 6.5). Complete when `read` has returned 0.
    [[nodiscard]] const Headers& trailers() const noexcept;

    /// Waits for a part of the body and returns its size, at most `into.size()`. 0 is the end of
    /// the body. While the request's body is not sent completely, this goes on sending it.
    ///
    /// Errors: those of `ClientError`, such as `truncated` if the connection ends before the body
    /// does; the error of the request's body; `operation_canceled` if the client or the loop was
    /// destroyed. Bytes that arrived before an error are returned first.
    ///
    /// Cancellation: a cancelled read has consumed nothing.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);

    /// Reads the rest of the body. Errors: those of `read`, `ClientError::body_too_large`.
    [[nodiscard]] Task<Result<std::string>> text(std::size_t limit = default_read_all_limit);

private:
    [[nodiscard]] detail::Exchange& exchange() const noexcept;

    std::unique_ptr<detail::Exchange> exchange_;
};

/// A response with its whole body.
struct FetchedResponse {
    Status status = Status::ok;
    Version version = Version::http_1_1;
    Headers headers{};
    std::string body{};
    Headers trailers{};
    /// The URL of this response, after redirects.
    std::string url{};
    std::size_t redirects = 0;
};

} // namespace penstock::http
