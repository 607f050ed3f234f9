#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <penstock/fs/file.hpp>
#include <penstock/http/head.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

namespace detail {
class BodyCoding;
class ServerExchange;
} // namespace detail

/// The response that a handler makes. Either whole:
///
///     response.header("Content-Type", "text/plain");
///     response.body("Hello\n");                      // sent when the handler has ended
///
/// or piece by piece, which `write_all` begins:
///
///     while (more) {
///         co_await unwrap(response.write_all(part)); // waits while the client is slow
///     }
///
/// Without either, the response has an empty body. The server adds Date, Content-Length or
/// Transfer-Encoding, and Connection.
///
/// A `Writer`, so `copy(file, response)` works. One task at a time writes. Another one may read the
/// request meanwhile. The object is valid until the handler has ended.
///
/// Thread safety: only on the thread of its connection's loop.
class Response {
public:
    Response(const Response&) = delete;
    Response& operator=(const Response&) = delete;

    [[nodiscard]] Status status() const noexcept { return head_.status; }
    /// 200 by default. Throws `std::invalid_argument` for a number that is not from 200 to 999, and
    /// `std::logic_error` if the head was sent.
    void status(Status status);

    /// Changes do nothing after the head was sent. Fields that concern the connection or the
    /// framing (Content-Length, Transfer-Encoding, Keep-Alive) are the server's: they are not sent.
    /// "Connection: close" closes the connection after the response.
    [[nodiscard]] Headers& headers() noexcept { return head_.headers; }
    /// Sets a field. Throws as `Headers::set`.
    void header(std::string_view name, std::string_view value) { head_.headers.set(name, value); }

    /// Sets the whole body. It replaces an earlier one. A text is copied into a buffer that the
    /// connection keeps, a temporary string is moved. Throws `std::bad_alloc`, and
    /// `std::logic_error` if the head was sent.
    void body(std::string_view text);
    void body(const char* text) { body(std::string_view(text)); }
    void body(std::string&& text);

    /// The body that was set, for filters. Empty if there is none, or once it was sent.
    [[nodiscard]] std::string_view body_text() const noexcept;

    /// Announces the size of the body that `write_all` will send. Without it an HTTP/1.1 client
    /// gets chunks, and the connection to an older one is closed after the response. It is also
    /// the Content-Length of a response to HEAD. Throws `std::logic_error` if the head was sent.
    void content_length(std::uint64_t size);

    /// Sends a part of the body, after the head if that was not sent. Returns when the part is
    /// accepted by the connection. An empty part sends the head only.
    ///
    /// Errors: those of the stream, `Error::response_sent` if there is to be no body (HEAD, 204,
    /// 205, 304) or it was set by `body`, and `Error::wrong_length` beyond the announced size. A
    /// handler may return any of them to the server.
    ///
    /// Cancellation: a cancelled or failed write may have sent a part, so the connection is closed
    /// when the handler has ended.
    [[nodiscard]] Task<Result<>> write_all(Bytes part);

    /// Sends a part of an open file as the whole body, or as a part of one that has an announced
    /// size. Over a socket, with sendfile(2). Errors: as `write_all`, those of reading, and
    /// `Error::wrong_length` if the file ends early.
    [[nodiscard]] Task<Result<>> send_file(fs::File& file, std::uint64_t offset,
                                           std::uint64_t size);

    /// Whether the head was sent, so that the status cannot change any more.
    [[nodiscard]] bool started() const noexcept;

private:
    friend class detail::BodyCoding;
    friend class detail::ServerExchange;
    explicit Response(detail::ServerExchange& exchange) noexcept : exchange_(exchange) {}

    void require_not_started() const;

    detail::ServerExchange& exchange_;
    detail::BodyCoding* coding_ = nullptr; ///< a filter's, between the handler and the exchange
    ResponseHead head_;
};

} // namespace penstock::http
