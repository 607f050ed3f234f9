#pragma once

#include <cstdint>
#include <memory>
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

    /// The fields of the head. Changes have no effect once the head was sent. The server sets the
    /// fields of the connection and of the framing (Content-Length, Transfer-Encoding, Keep-Alive)
    /// itself, and does not send those that are set here. "Connection: close" closes the connection
    /// after the response.
    [[nodiscard]] Headers& headers() noexcept { return head_.headers; }
    /// Sets a field. Throws as `Headers::set`.
    void header(std::string_view name, std::string_view value) { head_.headers.set(name, value); }

    /// Sets a field that also stands on the answers that replace this response: the server's to an
    /// error of the handler, and those of `refuse`. For filters such as `Cors`: without its fields,
    /// a script cannot read why its request has failed. The handler may replace the field in its
    /// own response. Throws as `Headers::set`.
    void lasting_header(std::string_view name, std::string_view value);

    /// Adds a name to Vary, unless it is there, so that caches keep responses apart by that field
    /// of the request (RFC 9110, section 12.5.5). It lasts as a `lasting_header`. Throws as
    /// `Headers::add`.
    void vary_by(std::string_view name);

    /// Makes it an answer of a status alone, as the server's own to an unknown path: with a body of
    /// one line, or that of `ServerOptions::error_page`. What was set before is forgotten, but for
    /// lasting fields: an ETag or a Cache-Control was meant for another response. For filters that
    /// refuse a request. Throws as `status`.
    void refuse(Status status);

    /// Sets the whole body, which replaces an earlier one. The text is copied into a buffer that
    /// the connection keeps. A temporary string is moved instead. Throws `std::bad_alloc`, and
    /// `std::logic_error` if the head was sent.
    void body(std::string_view text);
    void body(const char* text) { body(std::string_view(text)); }
    void body(std::string&& text);

    /// The body that `body` has set, for filters. Empty if there is none or if it was sent.
    [[nodiscard]] std::string_view body_text() const noexcept;

    /// Announces the size of the body that `write_all` will send, in bytes. Without it, an HTTP/1.1
    /// client gets chunks, and the connection to an HTTP/1.0 client is closed after the response. A
    /// response to HEAD has this Content-Length too. Throws `std::logic_error` if the head was
    /// sent.
    void content_length(std::uint64_t size);

    /// Sends the head if that was not sent, and a part of the body. Returns when the connection has
    /// accepted the part, which waits while the client reads slowly. An empty part sends only the
    /// head.
    ///
    /// Errors: those of the stream, `Error::response_sent` if the response must have no body (HEAD,
    /// 204, 205, 304) or `body` has set one, and `Error::wrong_length` for more than the announced
    /// size. A handler may return any of them to the server.
    ///
    /// Cancellation: a cancelled or failed write may have sent a part, so the connection is closed
    /// when the handler has ended.
    [[nodiscard]] Task<Result<>> write_all(Bytes part);

    /// Sends a part of an open file, over a socket with sendfile(2). It is the whole body, unless
    /// `content_length` has announced a larger one. Errors: those of `write_all` and of reading,
    /// and `Error::wrong_length` if the file ends early.
    [[nodiscard]] Task<Result<>> send_file(fs::File& file, std::uint64_t offset,
                                           std::uint64_t size);

    /// Whether the head was sent, so that the status cannot change any more.
    [[nodiscard]] bool started() const noexcept;

private:
    friend class detail::BodyCoding;
    friend class detail::ServerExchange;
    explicit Response(detail::ServerExchange& exchange) noexcept : exchange_(exchange) {}

    void require_not_started() const;
    void require_final(Status status) const;
    [[nodiscard]] Headers& lasting();

    detail::ServerExchange& exchange_;
    detail::BodyCoding* coding_ = nullptr; ///< a filter's, between the handler and the exchange
    ResponseHead head_;
    std::unique_ptr<Headers> lasting_; ///< null until a request has one
};

} // namespace penstock::http
