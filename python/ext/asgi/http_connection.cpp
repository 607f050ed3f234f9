// The protocol of an ASGI server's connection: received bytes to requests.

#include "asgi/http_connection.hpp"

#include "asgi/http2_connection.hpp"
#include "asgi/http_request.hpp"
#include "net/socket_transport.hpp"
#include "shared/buffer_view.hpp"

#include <new>
#include <string>
#include <utility>

#include <structmember.h>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

/// Requests of one client that are begun one after the other, before others get their turn.
constexpr int maximum_in_turn = 16;

/// Bytes of pipelined requests at which reading pauses. At least one head fits in any case.
constexpr std::size_t maximum_pipelined = 65536;

/// Bytes of a body that nobody reads, beyond which the connection is closed after the response.
constexpr std::size_t maximum_dropped = std::size_t{1} << 20;

/// Bytes of a body that wait for the application, at which reading pauses.
constexpr std::size_t maximum_waiting = 65536;

/// Makes the request of this scope the connection's, unless the connection has ended while the
/// scope was made. False with an exception set; that is so for a scope that is null.
bool begin_request(HttpConnectionObject* connection, Ref scope) noexcept {
    if (!scope) {
        return false;
    }
    if (connection->ending) {
        return true; // the program's code that was shown the scope has ended it, or lost it
    }
    HttpServerObject* server = connection->server;
    connection->served = true;
    ++server->total_requests;
    if (is_full(server)) {
        report(server, "warning", "Exceeded concurrency limit.");
        note_refusal(connection, scope.get(), 503);
        return refuse(connection, 503, "Service Unavailable");
    }
    HttpRequestObject* request = make_request(connection, std::move(scope));
    if (request == nullptr) {
        return false;
    }
    const LastHead& last = connection->bytes->last;
    request->keep_alive = last.keep_alive && !server->draining;
    request->is_head = last.is_head;
    return true;
}

/// A body of this framing follows the head of the request. Throws `std::bad_alloc`.
void expect_body(HttpConnectionObject* connection, const http::BodyFraming& framing) {
    HttpRequestObject* request = connection->request;
    if (framing.kind != http::BodyFraming::Kind::none) {
        request->body_complete = false;
        request->body = new RequestBody{
            .decoder = http::BodyDecoder(framing, connection->server->shared->limits)};
    }
}

/// Gives the connection to the WebSocket half, if there is one. `taken` is whether it has it.
/// False with an exception set.
bool offer_upgrade(HttpConnectionObject* connection, PyObject* scope, std::string_view head,
                   std::string_view rest, bool& taken) noexcept {
    const Ref request(PyBytes_FromStringAndSize(head.data(), static_cast<Py_ssize_t>(head.size())));
    const Ref behind(PyBytes_FromStringAndSize(rest.data(), static_cast<Py_ssize_t>(rest.size())));
    const Ref result(request && behind
                         ? PyObject_CallMethod(as_object(connection), "_on_websocket", "OOO", scope,
                                               request.get(), behind.get())
                         : nullptr);
    taken = result.get() == Py_True;
    return static_cast<bool>(result);
}

/// Handles a parsed head, which is at the front of `input`. False with an exception set.
bool handle_head(HttpConnectionObject* connection, std::string_view& input) {
    const http::RequestHead head = connection->bytes->parser.head();
    const std::string_view text = input.substr(0, head.size);
    if (head.method == "CONNECT") {
        note_refusal(connection, nullptr, 400);
        return refuse(connection, 400, "CONNECT is not supported.");
    }
    if (has_small_letter(head.method)) {
        note_refusal(connection, nullptr, 501);
        return refuse(connection, 501, unknown_method);
    }
    // All connections of the server share the list of fields: the code that is shown the scope may
    // have another head parsed into it.
    const bool asks_websocket = head.upgrade && head.fields.has_token("upgrade", "websocket");
    Ref scope = make_scope(connection, head, text);
    if (!scope) {
        return false;
    }
    input.remove_prefix(head.size);
    if (head.upgrade && !connection->ending) {
        bool taken = false;
        if (asks_websocket && !offer_upgrade(connection, scope.get(), text, input, taken)) {
            return false;
        }
        if (taken) {
            connection->ending = true;
            input = {};
            return true;
        }
        report(connection->server, "warning", "Unsupported upgrade request.");
    }
    connection->bytes->last.keep_alive = head.keep_alive;
    connection->bytes->last.is_head = head.method == "HEAD";
    if (!begin_request(connection, std::move(scope)) || connection->request == nullptr) {
        return PyErr_Occurred() == nullptr;
    }
    HttpRequestObject* request = connection->request;
    request->http_1_0 = head.minor_version == 0;
    request->wants_continue = head.expect_continue && head.minor_version == 1;
    expect_body(connection, head.body);
    return true;
}

enum class HeadStep : unsigned char { begun, incomplete, failed };

/// Takes a head from the front of `input`. `failed` is with an exception set.
HeadStep take_head(HttpConnectionObject* connection, std::string_view& input) {
    if (repeats_head(connection, input)) {
        input.remove_prefix(connection->bytes->last.text.size());
        connection->bytes->parser.reset();
        if (!begin_request(connection, repeat_scope(connection))) {
            return HeadStep::failed;
        }
        if (connection->request != nullptr) {
            expect_body(connection, connection->bytes->last.body);
        }
        return HeadStep::begun;
    }
    http::RequestParser& parser = connection->bytes->parser;
    switch (parser.parse(input)) {
    case http::Progress::incomplete:
        return HeadStep::incomplete;
    case http::Progress::failed: {
        const Ref reason(PyUnicode_FromFormat("Invalid HTTP request received: %s.",
                                              std::string(describe(parser.error())).c_str()));
        if (reason) {
            report(connection->server, "warning", reason.get());
        }
        const int status = http::status_for(parser.error());
        note_refusal(connection, nullptr, status);
        return refuse(connection, status,
                      status == 400 ? "Invalid HTTP request received." : http::reason_of(status))
                   ? HeadStep::begun
                   : HeadStep::failed;
    }
    case http::Progress::complete:
        break;
    }
    return handle_head(connection, input) ? HeadStep::begun : HeadStep::failed;
}

/// The rest of the body is lost, for the reason that the log gets. False with an exception set.
bool refuse_body(HttpConnectionObject* connection, int status, const char* reason) noexcept {
    const Ref alive = Ref::borrow(as_object(connection->request));
    HttpRequestObject* request = connection->request;
    report(connection->server, "warning", reason);
    request->keep_alive = false;
    request->disconnected = true;
    request->wants_continue = false;
    bool ended = false;
    if (request->response_complete) {
        ended = end_connection(connection);
    } else if (request->response_started) {
        ended = cut_off(request); // nothing can follow, so the application is told
    } else {
        request->gone = true;
        note_refusal(connection, request->logged, status);
        ended = refuse(connection, status, reason);
    }
    return ended && wake(request, Feeding::anywhere);
}

/// Takes parts of the body from the front of `input`. False with an exception set.
bool take_body(HttpConnectionObject* connection, std::string_view& input) {
    using Kind = http::BodyDecoder::Part::Kind;
    HttpRequestObject* request = connection->request;
    connection->since = io::coarse_monotonic_now();
    while (!request->body_complete) {
        const http::BodyDecoder::Part part = request->body->decoder.next(input);
        switch (part.kind) {
        case Kind::incomplete:
            return true;
        case Kind::end:
            request->body_complete = true;
            return true;
        case Kind::failed:
            input = {};
            return refuse_body(connection, 400, "Invalid HTTP request received.");
        case Kind::data:
            break;
        }
        if (!request->response_complete) {
            if (!append_to_body(request, part.data)) {
                return false;
            }
        } else {
            connection->dropped += part.data.size();
            if (connection->dropped > maximum_dropped) {
                input = {};
                return end_connection(connection);
            }
        }
        if (request->body->decoder.ended()) {
            request->body_complete = true;
        }
    }
    return true;
}

/// Parses `input` as far as requests may begin. What is left waits. False with an exception set.
bool parse(HttpConnectionObject* connection, std::string_view& input, Feeding feeding) {
    for (int begun = 0; !connection->ending;) {
        HttpRequestObject* request = connection->request;
        if (request == nullptr) {
            if (input.empty()) {
                return true;
            }
            if (begun == maximum_in_turn) {
                connection->continuing = true;
                return call_soon(connection, as_object(connection), "_continue");
            }
            switch (take_head(connection, input)) {
            case HeadStep::failed:
                return false;
            case HeadStep::incomplete:
                // Not at each part of it: a client that sends a byte a second would never end.
                if (!std::exchange(connection->head_begun, true)) {
                    connection->since = io::coarse_monotonic_now();
                }
                return true;
            case HeadStep::begun:
                connection->head_begun = false;
                ++begun;
                continue;
            }
        }
        const Ref alive = Ref::borrow(as_object(request));
        const bool had_body = !request->body_complete;
        if (had_body && !take_body(connection, input)) {
            return false;
        }
        if (connection->request != request) {
            continue;
        }
        if (!request->started) {
            if (!start_task(request, feeding)) {
                return false;
            }
        } else if (!had_body) {
            return true; // its response is not complete
        } else if (request->response_complete) {
            if (request->body_complete && !next_request(connection)) {
                return false;
            }
        } else if (!wake(request, feeding)) {
            return false;
        }
        if (connection->request == request && (!request->body_complete || input.empty())) {
            break;
        }
    }
    if (connection->ending) {
        input = {};
    }
    return true;
}

/// Pauses reading where too much waits. False with an exception set.
bool limit_input(HttpConnectionObject* connection) noexcept {
    const HttpRequestObject* request = connection->request;
    const bool full = connection->bytes->pending.size() > maximum_pipelined ||
                      (request != nullptr && request->body != nullptr &&
                       !request->response_complete && request->body->size() > maximum_waiting);
    return !full || connection->ending || pause_reading(connection);
}

/// All that has arrived, as one text, in `kept` if something waited before.
bool feed(HttpConnectionObject* connection, std::string_view data, Feeding feeding) {
    if (connection->http2 != nullptr) {
        return feed_http2(connection, data, feeding);
    }
    codec::ByteBuffer& pending = connection->bytes->pending;
    if (connection->feeding || connection->continuing) {
        pending.append(std::as_bytes(std::span(data)));
        return limit_input(connection);
    }
    // An application that runs in here may have the connection fed: what waits is taken first.
    codec::ByteBuffer kept;
    std::string_view input = data;
    if (!pending.empty()) {
        pending.append(std::as_bytes(std::span(data)));
        kept = std::exchange(pending, {});
        input = {reinterpret_cast<const char*>(kept.bytes().data()), kept.size()};
    }
    if (connection->may_be_http2) {
        switch (look_at_preface(input)) {
        case Preface::none:
            connection->may_be_http2 = false;
            break;
        case Preface::incomplete:
            if (!std::exchange(connection->head_begun, true)) {
                connection->since = io::coarse_monotonic_now();
            }
            pending.append(std::as_bytes(std::span(input)));
            return true;
        case Preface::whole:
            return begin_http2(connection) && feed_http2(connection, input, feeding);
        }
    }
    connection->feeding = true;
    const bool parsed = parse(connection, input, feeding);
    connection->feeding = false;
    if (!parsed || connection->bytes == nullptr) {
        return parsed;
    }
    // A transport of the program's may deliver inside a call of it: nobody else takes that up.
    const bool fed_meanwhile = !pending.empty();
    if (!input.empty() && !connection->ending) {
        codec::ByteBuffer later = std::exchange(pending, {});
        pending.append(std::as_bytes(std::span(input)));
        pending.append(later.bytes());
    }
    if (fed_meanwhile && !connection->ending && !std::exchange(connection->continuing, true) &&
        !call_soon(connection, as_object(connection), "_continue")) {
        return false;
    }
    return limit_input(connection);
}

/// The scope has the addresses: a transport of this module need not keep them as objects too. It
/// finds them again when it is asked.
void forget_addresses(const ModuleState* state, PyObject* object) noexcept {
    SocketTransportObject* transport =
        Py_IS_TYPE(object, state->socket_transport_type) ? transport_of(object) : nullptr;
    if (transport == nullptr || transport->extra == nullptr ||
        (transport->family != AF_INET && transport->family != AF_INET6)) {
        return;
    }
    Py_ssize_t place = 0;
    for (PyObject* key = nullptr; PyDict_Next(transport->extra, &place, &key, nullptr) != 0;) {
        if (!PyUnicode_Check(key) || (PyUnicode_CompareWithASCIIString(key, "peername") != 0 &&
                                      PyUnicode_CompareWithASCIIString(key, "sockname") != 0)) {
            return;
        }
    }
    Py_CLEAR(transport->extra);
}

// ---- methods

PyObject* connection_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return type->tp_alloc(type, 0);
}

/// _start(server, transport, scope, http2): `scope` has what all requests have in common, with all
/// keys. `http2` is None if the client decides by how it begins.
PyObject* connection_start(PyObject* self, PyObject* arguments) {
    HttpConnectionObject* connection = http_of(self);
    PyObject* server = nullptr;
    PyObject* transport = nullptr;
    PyObject* prototype = nullptr;
    PyObject* http2 = Py_False;
    if (PyArg_ParseTuple(arguments, "OOO!|O", &server, &transport, &PyDict_Type, &prototype,
                         &http2) == 0) {
        return nullptr;
    }
    if (connection->server != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the connection was started before");
        return nullptr;
    }
    connection->context = PyContext_CopyCurrent();
    connection->bytes = new (std::nothrow) HttpBytes(*server_of(server)->shared);
    if (connection->context == nullptr || connection->bytes == nullptr) {
        return PyErr_Occurred() != nullptr ? nullptr : PyErr_NoMemory();
    }
    connection->server = server_of(Py_NewRef(server));
    connection->transport = Py_NewRef(transport);
    connection->prototype = Py_NewRef(prototype);
    forget_addresses(state_of(Py_TYPE(server)), transport);
    connection->since = io::coarse_monotonic_now();
    connection->server->connections.push_back(*connection);
    connection->listed = true;
    Py_INCREF(self); // a paused transport of asyncio's is referred to by nothing else
    ++connection->server->open_connections;
    connection->may_be_http2 = http2 == Py_None;
    if (http2 == Py_True && !(begin_http2(connection) && pump_http2(connection))) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* connection_data_received(PyObject* self, PyObject* data) {
    BufferView view;
    if (!view.acquire(data, PyBUF_SIMPLE)) {
        return nullptr;
    }
    return feed_http(http_of(self), view.data(), static_cast<std::size_t>(view.size()),
                     Feeding::anywhere)
               ? Py_NewRef(Py_None)
               : nullptr;
}

PyObject* connection_eof_received(PyObject* self, PyObject* /*unused*/) {
    HttpConnectionObject* connection = http_of(self);
    connection->eof = true;
    HttpRequestObject* request = connection->request;
    if (request == nullptr || request->response_complete || connection->lingering) {
        Py_RETURN_NONE; // the transport closes itself
    }
    // The client has gone, or it has ended its side and waits for the response: then it gets that.
    const Ref alive = Ref::borrow(as_object(request));
    connection->ending = true;
    request->keep_alive = false;
    return disconnect(request, Feeding::anywhere) ? Py_NewRef(Py_True) : nullptr;
}

/// Takes the connection from its server's list. The caller holds a reference of its own.
void unlist(HttpConnectionObject* connection) noexcept {
    if (std::exchange(connection->listed, false)) {
        connection->server->connections.remove(*connection);
        --connection->server->open_connections;
        report_if_drained(connection->server);
        Py_DECREF(connection);
    }
}

PyObject* connection_lost(PyObject* self, PyObject* /*exception*/) {
    HttpConnectionObject* connection = http_of(self);
    connection->lost = true;
    connection->ending = true;
    unlist(connection);
    const Ref transport(std::exchange(connection->transport, nullptr));
    const Ref request(as_object(std::exchange(connection->request, nullptr)));
    if (request) {
        request_of(request.get())->gone = true;
    }
    if (connection->bytes != nullptr) {
        connection->bytes->pending.clear(0);
        connection->bytes->output.clear(0);
    }
    if (request && !disconnect(request_of(request.get()), Feeding::anywhere)) {
        return nullptr;
    }
    return lose_streams(connection) ? Py_NewRef(Py_None) : nullptr;
}

/// _release(): the transport has another protocol from now on.
PyObject* connection_release(PyObject* self, PyObject* /*unused*/) {
    HttpConnectionObject* connection = http_of(self);
    connection->ending = true;
    unlist(connection);
    Py_CLEAR(connection->transport);
    Py_RETURN_NONE;
}

PyObject* connection_pause_writing(PyObject* self, PyObject* /*unused*/) {
    http_of(self)->writing_paused = true;
    note_pause(http_of(self));
    Py_RETURN_NONE;
}

PyObject* connection_resume_writing(PyObject* self, PyObject* /*unused*/) {
    HttpConnectionObject* connection = http_of(self);
    connection->writing_paused = false;
    if (connection->http2 != nullptr) {
        return pump_http2(connection) ? Py_NewRef(Py_None) : nullptr;
    }
    const Ref request = Ref::borrow(as_object(connection->request));
    return !request || wake(request_of(request.get()), Feeding::anywhere) ? Py_NewRef(Py_None)
                                                                          : nullptr;
}

/// _continue(): parses what waits.
PyObject* connection_continue(PyObject* self, PyObject* /*unused*/) {
    HttpConnectionObject* connection = http_of(self);
    connection->continuing = false;
    return feed_http(connection, nullptr, 0, Feeding::from_dispatcher) ? Py_NewRef(Py_None)
                                                                       : nullptr;
}

/// _pump(): writes what the streams have to send.
PyObject* connection_pump(PyObject* self, PyObject* /*unused*/) {
    return pump_http2(http_of(self)) ? Py_NewRef(Py_None) : nullptr;
}

/// shutdown(): no request follows the one that runs, as in uvicorn.
PyObject* connection_shutdown(PyObject* self, PyObject* /*unused*/) {
    HttpConnectionObject* connection = http_of(self);
    if (connection->http2 != nullptr) {
        return drain_http2(connection) ? Py_NewRef(Py_None) : nullptr;
    }
    if (connection->request != nullptr) {
        connection->request->keep_alive = false;
        Py_RETURN_NONE;
    }
    return end_connection(connection) ? Py_NewRef(Py_None) : nullptr;
}

int connection_traverse(PyObject* self, visitproc visit, void* arg) {
    HttpConnectionObject* connection = http_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(connection->server);
    Py_VISIT(connection->transport);
    Py_VISIT(connection->context);
    Py_VISIT(connection->prototype);
    Py_VISIT(connection->request);
    if (const int result = visit_streams(connection, visit, arg); result != 0) {
        return result;
    }
    return connection->bytes != nullptr ? connection->bytes->last.visit(visit, arg) : 0;
}

int connection_clear(PyObject* self) {
    HttpConnectionObject* connection = http_of(self);
    connection->ending = true;
    connection->lost = true;
    // What is dropped here may run code that sends: it finds no client.
    const Ref request(as_object(std::exchange(connection->request, nullptr)));
    if (request) {
        request_of(request.get())->gone = true;
    }
    unlist(connection);
    clear_streams(connection);
    if (HttpBytes* bytes = std::exchange(connection->bytes, nullptr)) {
        bytes->last.clear();
        delete bytes;
    }
    Py_CLEAR(connection->transport);
    Py_CLEAR(connection->context);
    Py_CLEAR(connection->prototype);
    Py_CLEAR(connection->server);
    return 0;
}

void connection_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (http_of(self)->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    connection_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef connection_methods[] = {
    {"_start", &connection_start, METH_VARARGS, nullptr},
    {"data_received", &connection_data_received, METH_O, "Parse received bytes."},
    {"eof_received", &connection_eof_received, METH_NOARGS, "The client sends no more."},
    {"connection_lost", &connection_lost, METH_O, "End what waits for the client."},
    {"pause_writing", &connection_pause_writing, METH_NOARGS, "Make sends wait."},
    {"resume_writing", &connection_resume_writing, METH_NOARGS, "Let sends continue."},
    {"shutdown", &connection_shutdown, METH_NOARGS, "End after the response."},
    {"_release", &connection_release, METH_NOARGS, nullptr},
    {"_continue", &connection_continue, METH_NOARGS, nullptr},
    {"_pump", &connection_pump, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef connection_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(HttpConnectionObject, weak_references), READONLY,
     nullptr},
    {"transport", T_OBJECT, offsetof(HttpConnectionObject, transport), READONLY, nullptr},
    {"_server", T_OBJECT, offsetof(HttpConnectionObject, server), READONLY, nullptr},
    {"_context", T_OBJECT, offsetof(HttpConnectionObject, context), READONLY, nullptr},
    {"_multiplexed", T_BOOL, offsetof(HttpConnectionObject, multiplexed), READONLY, nullptr},
    {"_scope", T_OBJECT, offsetof(HttpConnectionObject, prototype), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot connection_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native half of an ASGI server's connection.")},
    {Py_tp_new, reinterpret_cast<void*>(&connection_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&connection_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&connection_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&connection_clear)},
    {Py_tp_methods, connection_methods},
    {Py_tp_members, connection_members},
    {0, nullptr},
};

PyType_Spec connection_spec = {
    .name = "penstock._core.HttpConnection",
    .basicsize = sizeof(HttpConnectionObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = connection_slots,
};

} // namespace

bool is_full(const HttpServerObject* server) noexcept {
    return server->limit_concurrency != 0 &&
           (server->open_connections >= server->limit_concurrency ||
            static_cast<std::size_t>(PySet_GET_SIZE(server->tasks)) >= server->limit_concurrency);
}

bool feed_http(HttpConnectionObject* connection, const char* data, std::size_t size,
               Feeding feeding) noexcept {
    if (connection->ending || connection->bytes == nullptr) {
        return true; // dropped: no request follows
    }
    const Ref alive = Ref::borrow(as_object(connection));
    try {
        return feed(connection, {data, size}, feeding);
    } catch (const std::bad_alloc&) {
        connection->feeding = false;
        PyErr_NoMemory();
        return false;
    }
}

bool end_stalled_request(HttpConnectionObject* connection) noexcept {
    return refuse_body(connection, 408, "The request's body has stalled.");
}

bool next_request(HttpConnectionObject* connection) noexcept {
    const Ref request(as_object(std::exchange(connection->request, nullptr)));
    connection->dropped = 0;
    if (!request_of(request.get())->keep_alive || connection->eof || connection->ending) {
        return end_connection(connection);
    }
    connection->since = io::coarse_monotonic_now();
    if (!connection->feeding && !connection->continuing && !connection->bytes->pending.empty()) {
        connection->continuing = true;
        if (!call_soon(connection, as_object(connection), "_continue")) {
            return false;
        }
    }
    return resume_reading(connection);
}

bool add_http_connection_type(PyObject* module, ModuleState* state) {
    state->http_connection_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &connection_spec, nullptr));
    return state->http_connection_type != nullptr &&
           PyModule_AddType(module, state->http_connection_type) == 0;
}

} // namespace penstock::python
