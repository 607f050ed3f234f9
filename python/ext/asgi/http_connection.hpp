#pragma once

#include "asgi/http_server.hpp"
#include "awaitable/direct_steps.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include <penstock/codec/byte_buffer.hpp>
#include <penstock/codec/http/head.hpp>
#include <penstock/codec/http/request_parser.hpp>
#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

struct HttpRequestObject;
struct Http2Half;

/// The last head of a connection and the objects that were made of it. A client that repeats its
/// request, as pollers and load generators do, is not parsed again.
struct LastHead {
    std::string text; ///< empty: none
    PyObject* method = nullptr;
    PyObject* path = nullptr;
    PyObject* raw_path = nullptr;
    PyObject* query = nullptr;
    PyObject* headers = nullptr;       ///< a list, which is copied
    PyObject* scope = nullptr;         ///< without the headers; made when the head is repeated
    std::array<PyObject*, 3> copied{}; ///< what `scope` has of `copied_keys`, or null; borrowed
    http::BodyFraming body;
    bool keep_alive = false;
    bool is_head = false;
    bool forwarded = false;        ///< a proxy tells of the client in it
    bool expects_continue = false; ///< in HTTP/2
    bool asks_websocket = false;   ///< in HTTP/2

    void clear() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;
};

/// The bytes of a connection.
struct HttpBytes {
    explicit HttpBytes(HttpShared& shared) noexcept : parser(shared.fields, shared.limits) {}

    http::RequestParser parser;
    codec::ByteBuffer pending; ///< received, and not parsed yet
    codec::ByteBuffer output;  ///< the head of a response that waits for its body
    LastHead last;
};

/// A connection of an ASGI server: a protocol that parses requests, runs the application for each,
/// and writes its responses. It works on the transports of any asyncio loop; one of Penstock's
/// socket transports passes it received bytes without an object in between.
///
/// One request is answered at a time. What a client pipelines waits in `pending` as it came, and
/// reading pauses when that is too much.
struct HttpConnectionObject {
    PyObject ob_base;
    HttpServerObject* server; ///< owned; null before `_start`
    PyObject* transport;      ///< owned; null before `_start` and after connection_lost
    PyObject* context;        ///< each request runs in a copy of it
    PyObject* prototype;      ///< the scope, with the parts that are the same for all requests
    PyObject* weak_references;
    HttpRequestObject* request; ///< owned; null while the connection waits for a request
    HttpBytes* bytes;
    Http2Half* http2; ///< null unless the connection speaks HTTP/2
    io::ListHook<HttpConnectionObject> of_server;
    io::MonotonicTime since; ///< when it began to wait
    std::size_t dropped;     ///< bytes of a body that nobody has read
    bool listed;
    bool served;     ///< it has had a request
    bool head_begun; ///< a part of a head has arrived
    bool ending;     ///< no request follows: what arrives is dropped
    bool lingering;  ///< its side is shut down, and it waits for the client to close
    bool eof;
    bool lost;
    bool feeding;
    bool continuing; ///< `resume_parsing` is scheduled
    bool reading_paused;
    bool writing_paused;
    bool multiplexed;  ///< it speaks HTTP/2
    bool may_be_http2; ///< nothing has arrived that is not a preface of HTTP/2
};

inline HttpConnectionObject* http_of(PyObject* object) noexcept {
    return reinterpret_cast<HttpConnectionObject*>(object);
}

/// Parses received bytes. False with an exception set.
bool feed_http(HttpConnectionObject* connection, const char* data, std::size_t size,
               Feeding feeding) noexcept;

// Shared by the rooms of a connection.

/// Writes to the transport. False with an exception set.
bool write_bytes(HttpConnectionObject* connection, std::string_view bytes) noexcept;

/// Writes both in one call where the transport can. False with an exception set.
bool write_both(HttpConnectionObject* connection, std::string_view head, PyObject* body) noexcept;

/// Whether the transport has bytes that the client has not taken.
[[nodiscard]] bool writes_wait(const HttpConnectionObject* connection) noexcept;

/// Calls a method of the transport without arguments, if there still is one. False with an
/// exception set.
bool call_transport(HttpConnectionObject* connection, const char* method) noexcept;

bool pause_reading(HttpConnectionObject* connection) noexcept;
bool resume_reading(HttpConnectionObject* connection) noexcept;

enum class Ending : unsigned char {
    normal, ///< lingers if the client is known to be sending
    linger,
    abort, ///< at once, without what waits to be sent
};

/// Closes after what was written is sent. If the client may still be sending, its bytes are read
/// and dropped for a while, because a close would reset the connection, and the client might lose
/// the response. False with an exception set.
bool end_connection(HttpConnectionObject* connection, Ending how = Ending::normal) noexcept;

/// Lets the next request begin, after the response of the last one is complete. False with an
/// exception set.
bool next_request(HttpConnectionObject* connection) noexcept;

/// Answers with a response of the server, and ends the connection. False with an exception set.
bool refuse(HttpConnectionObject* connection, int status, std::string_view text) noexcept;

/// Tells the access log and the program of a response of the server itself, for which no
/// application runs. `scope` is null if there is no valid head. Errors are reported.
void note_refusal(HttpConnectionObject* connection, PyObject* scope, int status) noexcept;

/// Methods are case-sensitive (RFC 9110, 9.1), and a scope's are upper case: to make GET of get
/// would make another request of it. No method that is registered has a small letter.
[[nodiscard]] inline bool has_small_letter(std::string_view method) noexcept {
    return std::ranges::any_of(method, [](char c) { return c >= 'a' && c <= 'z'; });
}

inline constexpr std::string_view unknown_method = "The method is not known: it has small letters.";

/// The body of the request does not continue: 408, and the application receives http.disconnect.
/// False with an exception set.
bool end_stalled_request(HttpConnectionObject* connection) noexcept;

/// Calls a method of `object` in the loop's next iteration. False with an exception set.
bool call_soon(HttpConnectionObject* connection, PyObject* object, const char* method) noexcept;

/// Whether the server has as much to do as it may.
[[nodiscard]] bool is_full(const HttpServerObject* server) noexcept;

/// Makes the last head's objects of a target, a method and a list of fields. False with an error
/// set. Throws `std::bad_alloc`.
bool keep_head(HttpConnectionObject* connection, std::string_view method, std::string_view target,
               Ref headers);

/// Makes the scope of a request with this head. Null with an exception set. Throws
/// `std::bad_alloc`.
Ref make_scope(HttpConnectionObject* connection, const http::RequestHead& head,
               std::string_view text);

/// The same for a head that is the last one's.
Ref repeat_scope(HttpConnectionObject* connection) noexcept;

/// Whether `input` begins with the last head again.
[[nodiscard]] inline bool repeats_head(const HttpConnectionObject* connection,
                                       std::string_view input) noexcept {
    const std::string& text = connection->bytes->last.text;
    return !text.empty() && input.starts_with(text);
}

} // namespace penstock::python
