// A connection that speaks HTTP/2: received bytes to streams, streams to requests, and back.

#include "asgi/http2_connection.hpp"

#include <chrono>
#include <new>
#include <string>
#include <utility>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

/// What is written to the transport in one call, unless it takes no more.
constexpr std::size_t most_at_once = 65536;

http2::ServerSession::Time now() noexcept {
    return std::chrono::nanoseconds(io::coarse_monotonic_now());
}

HttpRequestObject* request_of_stream(const http2::Stream* stream) noexcept {
    return static_cast<HttpRequestObject*>(stream->user);
}

/// Runs the application for a new stream, or refuses it. False with an exception set.
bool begin_stream(HttpConnectionObject* connection, http2::Stream* stream) {
    Http2Half& half = *connection->http2;
    HttpServerObject* server = connection->server;
    connection->served = true;
    ++server->total_requests;
    if (half.session.open_streams() + half.abandoned > server->shared->http2_limits.streams) {
        // Resets end streams, and not the applications that were begun for them (CVE-2023-44487).
        half.session.reset(*stream, http2::ErrorCode::refused_stream);
        return true;
    }
    if (stream->head_too_large()) {
        note_refusal(connection, nullptr, 431);
        answer_stream(connection, stream, 431, http::reason_of(431));
        return true;
    }
    Ref scope = make_stream_scope(connection, stream);
    if (!scope) {
        return PyErr_Occurred() == nullptr;
    }
    if (connection->ending) {
        return true; // the program's code that was shown the scope has ended it, or lost it
    }
    if (is_full(server)) {
        report(server, "warning", "Exceeded concurrency limit.");
        note_refusal(connection, scope.get(), 503);
        answer_stream(connection, stream, 503, "Service Unavailable");
        return true;
    }
    HttpRequestObject* request = make_request(connection, std::move(scope), stream);
    if (request == nullptr) {
        return false;
    }
    request->is_head = connection->bytes->last.is_head;
    if (connection->bytes->last.asks_websocket) {
        request->is_websocket = true;
        Py_CLEAR(request->logged); // it has a line of its own
    }
    if (!stream->request_ended() || !stream->received.empty()) {
        request->body_complete = false;
        request->body = new RequestBody{
            .decoder = http::BodyDecoder(http::BodyFraming{}, server->shared->limits)};
        request->wants_continue = connection->bytes->last.expects_continue;
    }
    return true;
}

/// Gives the request what has arrived of its body. False with an exception set.
bool take_received(HttpConnectionObject* connection, http2::Stream* stream,
                   HttpRequestObject* request) {
    if (!stream->received.empty()) {
        const std::span<std::byte> bytes = stream->received.bytes();
        if (request == nullptr || request->response_complete || request->body == nullptr) {
            connection->http2->session.consume(*stream, bytes.size());
        } else if (!append_to_body(request,
                                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
            return false;
        }
        stream->received.clear(0);
        if (request != nullptr) {
            request->waits_since = 0;
        }
    }
    if (request != nullptr && stream->request_ended()) {
        request->body_complete = true;
    }
    return true;
}

/// The stream is closed: its request goes its own way. False with an exception set.
bool close_stream(HttpConnectionObject* connection, http2::Stream* stream, Feeding feeding) {
    Http2Half& half = *connection->http2;
    HttpRequestObject* request = request_of_stream(stream);
    stream->user = nullptr;
    half.session.release(*stream);
    if (half.session.open_streams() == 0) {
        connection->since = io::coarse_monotonic_now();
    }
    if (request == nullptr) {
        return true;
    }
    const Ref alive(as_object(request));
    request->stream = nullptr;
    if (request->response_complete) {
        return true;
    }
    request->gone = true;
    if (request->application != nullptr && !std::exchange(request->abandoned, true)) {
        ++half.abandoned;
    }
    return disconnect(request, feeding);
}

/// False with an exception set.
bool handle_change(HttpConnectionObject* connection, http2::Stream* stream, Feeding feeding) {
    if (stream->take_new() && !stream->is_closed() && !begin_stream(connection, stream)) {
        return false;
    }
    HttpRequestObject* request = request_of_stream(stream);
    if (!take_received(connection, stream, request)) {
        return false;
    }
    if (stream->is_closed()) {
        return close_stream(connection, stream, feeding);
    }
    if (request == nullptr) {
        return true;
    }
    return request->started ? wake(request, feeding) : start_task(request, feeding);
}

bool handle_changes(HttpConnectionObject* connection, Feeding feeding) {
    while (connection->http2 != nullptr) {
        http2::Stream* stream = connection->http2->session.next_change();
        if (stream == nullptr) {
            break;
        }
        if (!handle_change(connection, stream, feeding)) {
            return false;
        }
    }
    return true;
}

/// Whether a head has begun that is not complete; it must be before its time has passed.
void note_open_head(HttpConnectionObject* connection) noexcept {
    const bool open = connection->http2->session.head_is_open();
    if (open && !connection->head_begun) {
        connection->since = io::coarse_monotonic_now();
    }
    connection->head_begun = open;
}

/// Ends the connection if the session has. False with an exception set.
bool end_if_finished(HttpConnectionObject* connection) noexcept {
    if (connection->http2 == nullptr || connection->ending || connection->writing_paused) {
        return true;
    }
    const http2::ServerSession& session = connection->http2->session;
    if (!session.failure().empty()) {
        const Ref text(PyUnicode_FromStringAndSize(
            session.failure().data(), static_cast<Py_ssize_t>(session.failure().size())));
        const Ref line(text ? PyUnicode_FromFormat("Invalid HTTP/2 connection: %U.", text.get())
                            : nullptr);
        if (line) {
            report(connection->server, "warning", line.get());
        }
        return line && end_connection(connection, Ending::linger);
    }
    return !session.is_finished() || end_connection(connection);
}

/// Resets the streams whose applications wait for bodies that do not continue. Throws
/// `std::bad_alloc`.
void reset_waiting(HttpConnectionObject* connection, io::MonotonicTime now,
                   io::MonotonicTime limit) {
    http2::ServerSession& session = connection->http2->session;
    std::vector<Ref> refused;
    for (http2::Stream* stream : session.streams()) {
        HttpRequestObject* request = request_of_stream(stream);
        if (request == nullptr) {
            continue;
        }
        const bool waits = !request->is_websocket && !request->body_complete &&
                           !request->response_complete && !request->receiving.empty();
        if (!waits) {
            request->waits_since = 0;
        } else if (request->waits_since == 0) {
            request->waits_since = now;
        } else if (now - request->waits_since > limit) {
            if (!request->response_started && request->logged != nullptr) {
                refused.push_back(Ref::borrow(request->logged));
            }
            session.reset(*stream, http2::ErrorCode::cancel);
        }
    }
    for (const Ref& scope : refused) {
        note_refusal(connection, scope.get(), 408);
    }
}

bool pump(HttpConnectionObject* connection) {
    Http2Half& half = *connection->http2;
    bool more = true;
    while (more && !connection->writing_paused && connection->transport != nullptr) {
        half.output.clear(most_at_once);
        more = half.session.produce(half.output, most_at_once);
        if (half.output.empty()) {
            break;
        }
        const std::span<std::byte> bytes = half.output.bytes();
        if (!write_bytes(connection, {reinterpret_cast<const char*>(bytes.data()), bytes.size()}) ||
            !handle_changes(connection, Feeding::anywhere)) {
            return false;
        }
    }
    half.output.clear(0);
    return handle_changes(connection, Feeding::anywhere) && end_if_finished(connection);
}

} // namespace

bool begin_http2(HttpConnectionObject* connection) noexcept {
    const ModuleState* state = state_of(Py_TYPE(connection->server));
    const Ref version(PyUnicode_FromString("2"));
    if (!version ||
        PyDict_SetItem(connection->prototype, state->name_http_version, version.get()) != 0) {
        return false;
    }
    try {
        connection->http2 = new Http2Half(connection->server->shared->http2_limits);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    connection->multiplexed = true;
    connection->may_be_http2 = false;
    connection->head_begun = false;
    return true;
}

bool feed_http2(HttpConnectionObject* connection, std::string_view data, Feeding feeding) {
    codec::ByteBuffer& pending = connection->bytes->pending;
    if (connection->feeding || connection->http2->pumping) {
        pending.append(std::as_bytes(std::span(data)));
        return true;
    }
    connection->feeding = true;
    bool well = true;
    codec::ByteBuffer kept;
    const auto take_pending = [&] {
        kept = std::exchange(pending, {});
        data = {reinterpret_cast<const char*>(kept.bytes().data()), kept.size()};
    };
    if (!pending.empty()) { // it has come while `pump_http2` wrote
        pending.append(std::as_bytes(std::span(data)));
        take_pending();
    }
    while (well && connection->http2 != nullptr && !data.empty()) {
        const bool valid = connection->http2->session.receive(data, now());
        well = handle_changes(connection, feeding);
        data = {};
        if (valid && connection->bytes != nullptr && !pending.empty()) {
            take_pending();
        }
    }
    connection->feeding = false;
    if (!well || connection->http2 == nullptr) {
        return well;
    }
    note_open_head(connection);
    return pump_http2(connection);
}

bool pump_http2(HttpConnectionObject* connection) noexcept {
    Http2Half* half = connection->http2;
    if (half == nullptr || connection->feeding || std::exchange(half->pumping, true)) {
        return true;
    }
    const Ref alive = Ref::borrow(as_object(connection));
    half->pump_scheduled = false;
    bool pumped = false;
    try {
        pumped = pump(connection);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    if (connection->http2 == nullptr) {
        return pumped;
    }
    connection->http2->pumping = false;
    // A transport of the program's may deliver inside a call of it: nobody else takes that up.
    if (pumped && !connection->bytes->pending.empty() && !connection->ending &&
        !std::exchange(connection->continuing, true)) {
        return call_soon(connection, as_object(connection), "_continue");
    }
    return pumped;
}

bool schedule_pump(HttpConnectionObject* connection) noexcept {
    Http2Half* half = connection->http2;
    if (half == nullptr || connection->feeding || half->pumping || connection->writing_paused ||
        std::exchange(half->pump_scheduled, true)) {
        return true; // it follows by itself
    }
    return call_soon(connection, as_object(connection), "_pump");
}

bool drain_http2(HttpConnectionObject* connection) noexcept {
    connection->http2->session.go_away(http2::ErrorCode::no_error);
    return pump_http2(connection);
}

bool serves_streams(const HttpConnectionObject* connection) noexcept {
    const http2::ServerSession& session = connection->http2->session;
    return session.open_streams() > 0 && !session.head_is_open();
}

bool sweep_http2(HttpConnectionObject* connection, io::MonotonicTime now) noexcept {
    if (connection->ending) {
        return true;
    }
    const HttpServerObject* server = connection->server;
    if (server->stall_time >= 0) {
        if (connection->writing_paused &&
            now - connection->http2->paused_since > server->stall_time) {
            return end_connection(connection, Ending::abort);
        }
        connection->http2->session.reset_stalled(std::chrono::nanoseconds(now),
                                                 std::chrono::nanoseconds(server->stall_time));
    }
    if (server->body_time >= 0) {
        try {
            reset_waiting(connection, now, server->body_time);
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
            return false;
        }
    }
    return pump_http2(connection);
}

void collect_requests(const HttpConnectionObject* connection, std::vector<Ref>& requests) {
    if (connection->http2 == nullptr) {
        return;
    }
    for (const http2::Stream* stream : connection->http2->session.streams()) {
        if (HttpRequestObject* request = request_of_stream(stream)) {
            requests.push_back(Ref::borrow(as_object(request)));
        }
    }
}

bool lose_streams(HttpConnectionObject* connection) noexcept {
    std::vector<Ref> requests;
    try {
        collect_requests(connection, requests);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    for (const Ref& object : requests) {
        HttpRequestObject* request = request_of(object.get());
        request->gone |= !request->response_complete;
        if (request->stream != nullptr) {
            request->stream->user = nullptr;
            Py_DECREF(as_object(request));
            request->stream = nullptr;
        }
    }
    for (const Ref& object : requests) {
        HttpRequestObject* request = request_of(object.get());
        if (!request->response_complete && !disconnect(request, Feeding::anywhere)) {
            return false;
        }
    }
    return true;
}

void note_pause(HttpConnectionObject* connection) noexcept {
    if (connection->http2 != nullptr) {
        connection->http2->paused_since = io::coarse_monotonic_now();
    }
}

void forget_abandoned(HttpConnectionObject* connection) noexcept {
    if (connection->http2 != nullptr) {
        --connection->http2->abandoned;
    }
}

int visit_streams(const HttpConnectionObject* connection, visitproc visit, void* arg) noexcept {
    if (connection->http2 != nullptr) {
        for (const http2::Stream* stream : connection->http2->session.streams()) {
            Py_VISIT(stream->user);
        }
    }
    return 0;
}

void clear_streams(HttpConnectionObject* connection) noexcept {
    Http2Half* half = std::exchange(connection->http2, nullptr);
    if (half == nullptr) {
        return;
    }
    for (http2::Stream* stream : half->session.streams()) {
        HttpRequestObject* request = request_of_stream(stream);
        stream->user = nullptr;
        if (request != nullptr) {
            request->stream = nullptr;
            request->gone = true;
            Py_DECREF(as_object(request));
        }
    }
    delete half;
}

} // namespace penstock::python
