// send(): the messages of a response, its head and its body.

#include "asgi/http_send.hpp"

#include "asgi/http2_connection.hpp"
#include "asgi/response_fields.hpp"
#include "asgi/response_text.hpp"
#include "shared/buffer_view.hpp"

#include <new>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

/// A body of at most this size is copied behind its head, and leaves with it in one call.
constexpr std::size_t copied_body = 16384;

std::string_view text_of(PyObject* string) noexcept {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_Check(string) ? PyUnicode_AsUTF8AndSize(string, &size) : nullptr;
    if (text == nullptr) {
        PyErr_Clear();
        return {};
    }
    return {text, static_cast<std::size_t>(size)};
}

codec::ByteBuffer& output_of(HttpRequestObject* request) noexcept {
    return request->multiplexed ? request->stream->text : request->connection->bytes->output;
}

/// Begins the head. `headers` is what `plain_fields` has returned. The code of the access log runs
/// in here. False with an exception set. Throws std::bad_alloc.
bool start_response(HttpRequestObject* request, int status, PyObject* headers) {
    HttpConnectionObject* connection = request->connection;
    HttpServerObject* server = connection->server;
    codec::ByteBuffer& output = output_of(request);
    output.clear();
    if (status == 200) {
        append(output, "HTTP/1.1 200 OK\r\n");
    } else {
        append_head(output, [&](http::HeadWriter& head) { head.status(status); });
    }
    ResponseFacts facts;
    if (!add_fields(server, output, status, headers, facts)) {
        if (is_current(request)) { // the text of an error may be made by the program's code
            output_of(request).clear();
        }
        return false;
    }
    if (server->sends_date && !facts.has_server && !facts.has_date) {
        append(output, usual_fields(*server->shared));
    } else {
        append(output, server->shared->fixed_fields);
        append(output, facts.has_server ? std::string_view() : server->shared->server_field);
        append(output, server->sends_date && !facts.has_date ? date_field(*server->shared)
                                                             : std::string_view());
    }
    if (request->is_head || status == 204 || status == 304) {
        request->framing = Framing::none;
    } else if (facts.has_length) {
        request->framing = Framing::length;
        request->length = facts.length;
    }
    // A client that waits for 100 may or may not send its body now.
    request->keep_alive = request->keep_alive && !facts.closes && !request->wants_continue &&
                          !server->draining && !connection->eof;
    request->response_started = true;
    request->head_held = true;
    log_response(request, status);
    return true;
}

/// Sends a part of the body. False with an exception set. Throws std::bad_alloc.
bool send_part(HttpRequestObject* request, PyObject* object, std::string_view data, bool more) {
    request->body_begun = true;
    decide_framing(request, data.size(), more);
    std::string_view sent = request->framing == Framing::none ? std::string_view() : data;
    const bool counted = request->framing == Framing::length;
    if (counted && sent.size() > request->length) {
        PyErr_SetString(PyExc_RuntimeError, "Response content longer than Content-Length");
        return false;
    }
    if (request->multiplexed) {
        if (!send_stream_part(request, sent, more)) {
            return false;
        }
        return more || complete(request);
    }
    codec::ByteBuffer& output = output_of(request);
    if (request->head_held) {
        end_head(request);
    }
    const bool chunk = request->framing == Framing::chunked && !sent.empty();
    if (chunk) {
        append(output, http::ChunkHead(sent.size()).text());
    }
    if (counted) {
        request->length -= sent.size();
    }
    if (sent.size() > copied_body) {
        const bool written = write_both(request->connection, text_in(output), object);
        output.clear(copied_body + 1024);
        if (!written || !is_open(request)) { // a transport of the program's may have lost it
            return written;
        }
    } else {
        append(output, sent);
    }
    if (chunk) {
        append(output, http::chunk_end);
    }
    if (!more && request->framing == Framing::chunked) {
        append(output, http::last_chunk);
    }
    if (!write_output(request)) {
        return false;
    }
    if (more || !is_open(request)) {
        return true;
    }
    if (counted && request->length > 0) {
        PyErr_SetString(PyExc_RuntimeError, "Response content shorter than Content-Length");
        return false;
    }
    return complete(request);
}

/// An awaitable that is done, or that waits for room. Null with an exception set.
PyObject* sent(HttpRequestObject* request) noexcept {
    return !has_room(request) && !request->response_complete
               ? wait_for_room(request)
               : Py_NewRef(request->state()->completed);
}

/// Whether the response has not begun. False with an exception set.
bool check_not_started(const HttpRequestObject* request) noexcept {
    if (request->response_started) {
        PyErr_SetString(PyExc_RuntimeError, "Expected ASGI message 'http.response.body', but got "
                                            "'http.response.start'.");
    }
    return !request->response_started;
}

PyObject* send_start(HttpRequestObject* request, PyObject* message) {
    const ModuleState* state = request->state();
    if (!check_not_started(request)) {
        return nullptr;
    }
    const Ref status = Ref::borrow(PyDict_GetItemWithError(message, state->name_status));
    const Ref headers = Ref::borrow(PyDict_GetItemWithError(message, state->name_headers));
    if ((!status || !headers) && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (!status) {
        PyErr_SetObject(PyExc_KeyError, state->name_status);
        return nullptr;
    }
    const long code = PyLong_AsLong(status.get());
    if (code == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    if (code < 200 || code > 999) {
        PyErr_Format(PyExc_ValueError, "the status of a response must be from 200 to 999, not %R",
                     status.get());
        return nullptr;
    }
    const Ref fields = headers ? plain_fields(headers.get()) : Ref();
    if ((headers && !fields) || !check_open(request) || !check_not_started(request) ||
        !start_response(request, static_cast<int>(code), fields.get())) {
        return nullptr;
    }
    if (request->stage != AwaitStage::running) {
        // Another task sends, and does not tell when it waits.
        request->flush_scheduled = true;
        if (!call_soon(request->connection, as_object(request), "_flush")) {
            return nullptr;
        }
    }
    return Py_NewRef(state->completed);
}

PyObject* send_body(HttpRequestObject* request, PyObject* message) {
    const ModuleState* state = request->state();
    if (!request->response_started) {
        PyErr_SetString(PyExc_RuntimeError, "Expected ASGI message 'http.response.start', but got "
                                            "'http.response.body'.");
        return nullptr;
    }
    const Ref body = Ref::borrow(PyDict_GetItemWithError(message, state->name_body));
    const Ref flag = Ref::borrow(PyDict_GetItemWithError(message, state->name_more_body));
    if ((!body || !flag) && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const int more = flag ? PyObject_IsTrue(flag.get()) : 0;
    if (more < 0) {
        return nullptr;
    }
    Ref bytes = body ? Ref::borrow(body.get()) : Ref::borrow(state->empty_bytes);
    if (!PyBytes_CheckExact(bytes.get())) {
        BufferView view;
        if (!view.acquire(bytes.get(), PyBUF_SIMPLE)) {
            return nullptr;
        }
        bytes = Ref(PyBytes_FromStringAndSize(view.data(), view.size()));
    }
    if (!bytes || !check_open(request)) {
        return nullptr;
    }
    return send_part(request, bytes.get(),
                     {PyBytes_AS_STRING(bytes.get()),
                      static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))},
                     more != 0)
               ? sent(request)
               : nullptr;
}

PyObject* refuse_message(HttpRequestObject* request, PyObject* type) noexcept {
    if (request->response_complete) {
        PyErr_Format(PyExc_RuntimeError,
                     "Unexpected ASGI message %R sent, after response already completed.", type);
    } else {
        PyErr_Format(PyExc_RuntimeError, "Expected ASGI message '%s', but got %R.",
                     request->response_started ? "http.response.body" : "http.response.start",
                     type);
    }
    return nullptr;
}

} // namespace

bool check_open(HttpRequestObject* request) noexcept {
    if (is_open(request)) {
        return true;
    }
    if (request->gone) {
        send_to_gone_client(request);
    } else {
        PyErr_SetString(PyExc_RuntimeError,
                        "the response was completed while a message for it was read");
    }
    return false;
}

void end_head(HttpRequestObject* request) {
    codec::ByteBuffer& output = output_of(request);
    if (request->framing == Framing::chunked) {
        append(output, "transfer-encoding: chunked\r\n");
    }
    if (!request->keep_alive) {
        append(output, "connection: close\r\n");
    } else if (request->http_1_0) {
        append(output, "connection: keep-alive\r\n");
    }
    append(output, http::chunk_end); // an empty line
    request->head_held = false;
}

void decide_framing(HttpRequestObject* request, std::size_t size, bool more) {
    if (request->framing != Framing::unknown) {
        return;
    }
    if (!more) {
        request->framing = Framing::length;
        request->length = size;
        append_head(output_of(request),
                    [&](http::HeadWriter& head) { head.field("content-length", size); });
    } else if (request->multiplexed) {
        request->framing = Framing::close;
    } else if (request->http_1_0) {
        request->framing = Framing::close;
        request->keep_alive = false;
    } else {
        request->framing = Framing::chunked;
    }
}

void append_output(HttpRequestObject* request, std::string_view text) {
    append(output_of(request), text);
}

bool write_output(HttpRequestObject* request) noexcept {
    codec::ByteBuffer& output = output_of(request);
    if (output.empty()) {
        return true;
    }
    const bool written = write_bytes(request->connection, text_in(output));
    if (request->connection->bytes != nullptr) {
        output_of(request).clear(copied_body + 1024);
    }
    return written;
}

bool complete(HttpRequestObject* request) noexcept {
    const Ref alive = Ref::borrow(as_object(request));
    HttpConnectionObject* connection = request->connection;
    request->response_complete = true;
    if (!wake(request, Feeding::anywhere)) {
        return false;
    }
    if (!is_current(request)) {
        return true;
    }
    if (request->multiplexed) {
        return finish_stream(request);
    }
    if (!request->keep_alive) {
        return end_connection(connection);
    }
    if (!request->body_complete) {
        request->body->first = Ref();
        request->body->rest.clear(0);
        return resume_reading(connection); // the rest is read and dropped
    }
    return next_request(connection);
}

PyObject* http_send(PyObject* self, PyObject* message) {
    HttpRequestObject* request = request_of(self);
    if (request->gone) {
        send_to_gone_client(request);
        return nullptr;
    }
    if (!PyDict_Check(message)) {
        PyErr_Format(PyExc_TypeError, "an ASGI message is a dict, not %.100s",
                     Py_TYPE(message)->tp_name);
        return nullptr;
    }
    const ModuleState* state = request->state();
    const Ref type = Ref::borrow(PyDict_GetItemWithError(message, state->name_type));
    if (!type) {
        if (PyErr_Occurred() == nullptr) {
            PyErr_SetObject(PyExc_KeyError, state->name_type);
        }
        return nullptr;
    }
    if (request->response_complete || !is_current(request)) {
        return refuse_message(request, type.get());
    }
    const Ref alive = Ref::borrow(self);
    const std::string_view name = text_of(type.get());
    try {
        if (name == "http.response.body") {
            return send_body(request, message);
        }
        if (name == "http.response.start") {
            return send_start(request, message);
        }
        if (name == "http.response.pathsend") {
            return send_path(request, message);
        }
        if (name == "http.response.zerocopysend") {
            return send_file(request, message);
        }
        if (name == "http.response.early_hint") {
            return send_early_hint(request, message);
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    return refuse_message(request, type.get());
}

bool flush_head(HttpRequestObject* request) noexcept {
    if (!request->head_held || !is_current(request) || request->connection->bytes == nullptr) {
        return true;
    }
    try {
        if (request->framing == Framing::unknown) {
            decide_framing(request, 0, true);
        }
        if (request->multiplexed) {
            return send_stream_part(request, {}, true);
        }
        end_head(request);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
    return write_output(request);
}

void log_response(HttpRequestObject* request, int status) noexcept {
    const Ref log = Ref::borrow(request->connection->server->log_start);
    if (request->logged == nullptr || log.get() == Py_None) {
        return;
    }
    if (!Ref(PyObject_CallFunction(log.get(), "Oi", request->logged, status))) {
        PyErr_WriteUnraisable(log.get());
    }
}

bool send_text(HttpRequestObject* request, int status, std::string_view text) noexcept {
    const Ref headers(Py_BuildValue("((yy))", "content-type", "text/plain; charset=utf-8"));
    const Ref body(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
    try {
        return headers && body && start_response(request, status, headers.get()) &&
               (!is_open(request) || send_part(request, body.get(), text, false));
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
}

void send_to_gone_client(const HttpRequestObject* request) noexcept {
    ModuleState* state = request->state();
    if (state->client_disconnected == nullptr) {
        const Ref module(PyImport_ImportModule("penstock.asgi._errors"));
        state->client_disconnected =
            module ? PyObject_GetAttrString(module.get(), "ClientDisconnected") : nullptr;
    }
    if (state->client_disconnected != nullptr) {
        PyErr_SetString(state->client_disconnected, "the client has closed the connection");
    }
}

} // namespace penstock::python
