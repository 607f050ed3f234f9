#pragma once

#include "asgi/http_request.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace penstock::python {

/// What a connection has in addition when it speaks HTTP/2: the session, whose streams own their
/// requests.
struct Http2Half {
    explicit Http2Half(const http2::Limits& limits) : session(limits) {}

    http2::ServerSession session;
    codec::ByteBuffer output;
    std::vector<http::Field> fields; ///< of the head that is sent
    std::size_t abandoned = 0;       ///< applications that run although their streams were reset
    io::MonotonicTime paused_since = 0;
    bool pumping = false;
    bool pump_scheduled = false;
};

enum class Preface : unsigned char { none, incomplete, whole };

/// Whether a connection begins as one of HTTP/2 does.
[[nodiscard]] inline Preface look_at_preface(std::string_view input) noexcept {
    const std::string_view preface = http2::client_preface;
    if (!preface.starts_with(input.substr(0, preface.size()))) {
        return Preface::none;
    }
    return input.size() < preface.size() ? Preface::incomplete : Preface::whole;
}

// The connection.

/// Makes it one of HTTP/2. False with an exception set.
bool begin_http2(HttpConnectionObject* connection) noexcept;

/// Takes received bytes. False with an exception set.
bool feed_http2(HttpConnectionObject* connection, std::string_view data, Feeding feeding);

/// Writes what the streams have to send, as far as the transport takes it. False with an exception
/// set.
bool pump_http2(HttpConnectionObject* connection) noexcept;

/// No stream begins any more; the connection is closed behind the last one. False with an exception
/// set.
bool drain_http2(HttpConnectionObject* connection) noexcept;

/// Whether a stream is open, other than one whose head is not complete.
[[nodiscard]] bool serves_streams(const HttpConnectionObject* connection) noexcept;

/// Ends what its client neither takes nor sends on. False with an exception set.
bool sweep_http2(HttpConnectionObject* connection, io::MonotonicTime now) noexcept;

/// Adds the requests that its streams answer. Throws `std::bad_alloc`.
void collect_requests(const HttpConnectionObject* connection, std::vector<Ref>& requests);

/// The connection is lost, and with it all streams. False with an exception set.
bool lose_streams(HttpConnectionObject* connection) noexcept;

void note_pause(HttpConnectionObject* connection) noexcept;
void forget_abandoned(HttpConnectionObject* connection) noexcept;
int visit_streams(const HttpConnectionObject* connection, visitproc visit, void* arg) noexcept;
void clear_streams(HttpConnectionObject* connection) noexcept;

// A request and its stream. The stream is there: the request is the current one.

/// Makes the scope of a new stream. Null with an exception set, or without one if the stream was
/// refused. Throws `std::bad_alloc`.
Ref make_stream_scope(HttpConnectionObject* connection, http2::Stream* stream);

/// A response of the server itself. Throws `std::bad_alloc`.
void answer_stream(HttpConnectionObject* connection, http2::Stream* stream, int status,
                   std::string_view text);

/// Sends the head, unless it has left, and a part of the body. `more` is whether others follow.
/// False with an exception set. Throws `std::bad_alloc`.
bool send_stream_part(HttpRequestObject* request, std::string_view part, bool more);

/// Appends to the body, of which no part is counted. False with an exception set. Throws
/// `std::bad_alloc`.
bool write_stream(HttpRequestObject* request, std::string_view part);

/// Sends an interim response, whose head is as in HTTP/1.1. False with an exception set.
bool send_stream_interim(HttpRequestObject* request, std::string_view head) noexcept;

/// The response is complete. False with an exception set.
bool finish_stream(HttpRequestObject* request) noexcept;

/// Ends the stream at once, because its response cannot be completed. False with an exception set.
bool reset_stream(HttpRequestObject* request) noexcept;

/// The application has received a part of the body. False with an exception set.
bool consume_part(HttpRequestObject* request, std::size_t size) noexcept;

/// Has `pump_http2` called in this iteration of the loop or the next. False with an exception set.
bool schedule_pump(HttpConnectionObject* connection) noexcept;

} // namespace penstock::python
