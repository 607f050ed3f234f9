// The type of an ASGI server's native part: settings, counts, and the sweep of idle connections.

#include "asgi/http_server.hpp"

#include "asgi/http2_connection.hpp"
#include "asgi/http_connection.hpp"
#include "asgi/http_request.hpp"
#include "core/eager_task.hpp"
#include "shared/buffer_view.hpp"

#include <cstddef>
#include <ctime>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include <structmember.h>

#include <penstock/codec/http/head_writer.hpp>

namespace penstock::python {

namespace {

io::MonotonicTime nanoseconds_of(double seconds) noexcept {
    return seconds < 0 ? -1 : static_cast<io::MonotonicTime>(seconds * 1e9);
}

/// Appends a line for each pair of bytes. False with an exception set. Throws std::bad_alloc.
bool append_fields(HttpShared& shared, PyObject* fields) {
    const Ref pairs(PySequence_Fast(fields, "fields must be a sequence of pairs of bytes"));
    if (!pairs) {
        return false;
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(pairs.get()); ++i) {
        PyObject* name = nullptr;
        PyObject* value = nullptr;
        const Ref pair(PySequence_Tuple(PySequence_Fast_GET_ITEM(pairs.get(), i)));
        if (!pair || PyArg_ParseTuple(pair.get(), "O!O!", &PyBytes_Type, &name, &PyBytes_Type,
                                      &value) == 0) {
            return false;
        }
        const std::string_view key(PyBytes_AS_STRING(name),
                                   static_cast<std::size_t>(PyBytes_GET_SIZE(name)));
        const std::string_view text(PyBytes_AS_STRING(value),
                                    static_cast<std::size_t>(PyBytes_GET_SIZE(value)));
        std::string line(key.size() + text.size() + 4, '\0');
        http::HeadWriter writer(line);
        writer.field(key, text);
        if (writer.failed()) {
            PyErr_Format(PyExc_ValueError, "%R cannot be sent as a header field", pair.get());
            return false;
        }
        const bool names_server = http::equal_ignoring_case(key, "server");
        (names_server ? shared.server_field : shared.fixed_fields) += writer.text();
    }
    return true;
}

/// Makes the texts that tell the date, where its second is over.
void renew_date(HttpShared& shared) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (shared.date_second == now.tv_sec) {
        return;
    }
    shared.date_field = "date: ";
    shared.date_field += http::DateText(now.tv_sec).text();
    shared.date_field += "\r\n";
    shared.usual_fields = shared.fixed_fields + shared.server_field + shared.date_field;
    shared.date_second = now.tv_sec;
}

PyObject* server_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return type->tp_alloc(type, 0);
}

/// HttpServer(loop, app, state, report, *, log_start, on_refusal, fields, date, keep_alive,
/// head_time, body_time, head_size, head_fields, limit_concurrency, stall_time, http2, websockets,
/// forwarded)
int server_init(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop",        "app",
                                  "state",       "report",
                                  "log_start",   "on_refusal",
                                  "fields",      "date",
                                  "keep_alive",  "head_time",
                                  "body_time",   "head_size",
                                  "head_fields", "limit_concurrency",
                                  "stall_time",  "http2",
                                  "websockets",  "forwarded",
                                  nullptr};
    HttpServerObject* server = server_of(self);
    PyObject* loop = nullptr;
    PyObject* app = nullptr;
    PyObject* state = nullptr;
    PyObject* reporter = nullptr;
    PyObject* log_start = nullptr;
    PyObject* on_refusal = nullptr;
    PyObject* fields = nullptr;
    PyObject* forwarded = nullptr;
    int date = 0;
    double keep_alive = 0;
    double head_time = 0;
    double body_time = 0;
    Py_ssize_t head_size = 0;
    Py_ssize_t head_fields = 0;
    Py_ssize_t limit_concurrency = 0;
    double stall_time = -1;
    int http2 = 0;
    int websockets = 0;
    if (!PyArg_ParseTupleAndKeywords(
            arguments, keywords, "OOOO$OOOpdddnnndppO:HttpServer", const_cast<char**>(names), &loop,
            &app, &state, &reporter, &log_start, &on_refusal, &fields, &date, &keep_alive,
            &head_time, &body_time, &head_size, &head_fields, &limit_concurrency, &stall_time,
            &http2, &websockets, &forwarded)) {
        return -1;
    }
    if (server->shared != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the server was initialised before");
        return -1;
    }
    if (http2 != 0 && !codec::http2::is_available()) {
        PyErr_SetString(PyExc_RuntimeError, "HTTP/2 needs libnghttp2.so.14 (Debian: apt-get "
                                            "install libnghttp2-14)");
        return -1;
    }
    try {
        auto shared = std::make_unique<HttpShared>();
        shared->fields.resize(static_cast<std::size_t>(head_fields));
        shared->limits.head = static_cast<std::size_t>(head_size);
        shared->limits.line = shared->limits.head;
        shared->http2_limits.head = shared->limits.head;
        shared->http2_limits.fields = shared->fields.size();
        shared->http2_limits.websockets = websockets != 0;
        if (!append_fields(*shared, fields)) {
            return -1;
        }
        server->tasks = PySet_New(nullptr);
        if (server->tasks == nullptr) {
            return -1;
        }
        server->shared = shared.release();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return -1;
    }
    server->loop = Py_NewRef(loop);
    server->app = Py_NewRef(app);
    server->state = Py_NewRef(state);
    server->report = Py_NewRef(reporter);
    server->log_start = Py_NewRef(log_start);
    server->on_refusal = Py_NewRef(on_refusal);
    server->forwarded = Py_NewRef(forwarded);
    server->keep_alive = nanoseconds_of(keep_alive);
    server->head_time = nanoseconds_of(head_time);
    server->body_time = nanoseconds_of(body_time);
    server->stall_time = nanoseconds_of(stall_time);
    server->limit_concurrency = static_cast<std::size_t>(limit_concurrency);
    server->sends_date = date != 0;
    if (may_begin_tasks(state_of(Py_TYPE(self)), loop)) {
        server->task_keywords = keywords_of_task(loop);
        return server->task_keywords != nullptr ? 0 : -1;
    }
    return 0;
}

/// How long a connection has let its time pass: it is idle, or its head does not end.
bool is_overdue(const HttpServerObject* server, HttpConnectionObject* connection,
                io::MonotonicTime now) noexcept {
    if (connection->lingering) {
        if (writes_wait(connection)) {
            connection->since = now; // it takes what was sent to it, or resets the connection
        }
        constexpr io::MonotonicTime linger = 2'000'000'000;
        return now - connection->since > linger;
    }
    if (const HttpRequestObject* request = connection->request) {
        // Only a client that the server waits for lets time pass.
        const bool waits = request->response_complete || !request->receiving.empty();
        if (request->body_complete || !waits || connection->reading_paused) {
            connection->since = now;
        }
        return server->body_time >= 0 && now - connection->since > server->body_time;
    }
    if (connection->continuing) {
        return false;
    }
    if (connection->http2 != nullptr && serves_streams(connection)) {
        return false;
    }
    const bool between = connection->served && !connection->head_begun;
    const io::MonotonicTime limit = between ? server->keep_alive : server->head_time;
    return limit >= 0 && now - connection->since > limit;
}

/// Ends a connection whose client has let its time pass. False with an exception set.
bool end_overdue(HttpConnectionObject* connection) noexcept {
    if (connection->lingering) {
        return end_connection(connection, Ending::abort);
    }
    const HttpRequestObject* request = connection->request;
    return request != nullptr && !request->response_complete ? end_stalled_request(connection)
                                                             : end_connection(connection);
}

/// sweep(): closes connections that have been idle for too long. Idle ones free their memory.
PyObject* server_sweep(PyObject* self, PyObject* /*unused*/) {
    HttpServerObject* server = server_of(self);
    const io::MonotonicTime now = io::coarse_monotonic_now();
    std::vector<Ref> overdue;
    std::vector<Ref> multiplexed;
    try {
        for (HttpConnectionObject* connection = server->connections.front(); connection != nullptr;
             connection = OpenConnections::after(*connection)) {
            if (connection->feeding) {
                continue; // it is in the middle of what has arrived, below this call
            }
            if (connection->http2 != nullptr) {
                multiplexed.push_back(Ref::borrow(as_object(connection)));
            }
            if (is_overdue(server, connection, now)) {
                overdue.push_back(Ref::borrow(as_object(connection)));
            } else if (connection->request == nullptr && now - connection->since > 1'000'000'000) {
                connection->bytes->output.clear(0);
                connection->bytes->last.clear();
                std::string().swap(connection->bytes->last.text); // clear() keeps its memory
                if (connection->bytes->pending.empty()) {
                    connection->bytes->pending.clear(0);
                }
            }
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    for (const Ref& object : overdue) {
        HttpConnectionObject* connection = http_of(object.get());
        // Code of the program, such as its log, may have run at the end of those before.
        if (!is_overdue(server, connection, now)) {
            continue;
        }
        if (connection->http2 != nullptr && !connection->ending && !drain_http2(connection)) {
            return nullptr;
        }
        if (!end_overdue(connection)) {
            return nullptr;
        }
    }
    for (const Ref& object : multiplexed) {
        HttpConnectionObject* connection = http_of(object.get());
        if (connection->http2 != nullptr && !sweep_http2(connection, now)) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

/// drain(): idle connections are closed, the others after their responses.
PyObject* server_drain(PyObject* self, PyObject* /*unused*/) {
    HttpServerObject* server = server_of(self);
    server->draining = true;
    std::vector<Ref> idle;
    std::vector<Ref> multiplexed;
    try {
        for (HttpConnectionObject* connection = server->connections.front(); connection != nullptr;
             connection = OpenConnections::after(*connection)) {
            if (connection->request != nullptr) {
                connection->request->keep_alive = false;
            } else if (connection->http2 != nullptr) {
                multiplexed.push_back(Ref::borrow(as_object(connection)));
            } else if (connection->served || connection->bytes->pending.empty()) {
                idle.push_back(Ref::borrow(as_object(connection)));
            }
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    for (const Ref& connection : multiplexed) {
        if (!drain_http2(http_of(connection.get()))) {
            return nullptr;
        }
    }
    for (const Ref& object : idle) {
        HttpConnectionObject* connection = http_of(object.get());
        if (connection->request != nullptr) { // begun by what the end of another one has run
            connection->request->keep_alive = false;
        } else if (!end_connection(connection)) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

/// disconnect(): the applications of unfinished requests receive http.disconnect.
PyObject* server_disconnect(PyObject* self, PyObject* /*unused*/) {
    std::vector<Ref> requests;
    try {
        for (HttpConnectionObject* connection = server_of(self)->connections.front();
             connection != nullptr; connection = OpenConnections::after(*connection)) {
            if (connection->request != nullptr) {
                requests.push_back(Ref::borrow(as_object(connection->request)));
            }
            collect_requests(connection, requests);
        }
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    for (const Ref& request : requests) {
        if (!disconnect(request_of(request.get()), Feeding::anywhere)) {
            return nullptr;
        }
    }
    Py_RETURN_NONE;
}

/// connections(): a list of those that are open.
PyObject* server_connections(PyObject* self, PyObject* /*unused*/) {
    Ref list(PyList_New(0));
    for (HttpConnectionObject* connection = server_of(self)->connections.front();
         list && connection != nullptr; connection = OpenConnections::after(*connection)) {
        if (PyList_Append(list.get(), as_object(connection)) != 0) {
            return nullptr;
        }
    }
    return list.release();
}

int server_traverse(PyObject* self, visitproc visit, void* arg) {
    HttpServerObject* server = server_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(server->loop);
    Py_VISIT(server->app);
    Py_VISIT(server->state);
    Py_VISIT(server->tasks);
    Py_VISIT(server->task_keywords);
    Py_VISIT(server->report);
    Py_VISIT(server->log_start);
    Py_VISIT(server->on_refusal);
    Py_VISIT(server->forwarded);
    for (HttpConnectionObject* connection = server->connections.front(); connection != nullptr;
         connection = OpenConnections::after(*connection)) {
        Py_VISIT(connection);
    }
    return 0;
}

int server_clear(PyObject* self) {
    HttpServerObject* server = server_of(self);
    Py_CLEAR(server->loop);
    Py_CLEAR(server->app);
    Py_CLEAR(server->state);
    Py_CLEAR(server->tasks);
    Py_CLEAR(server->task_keywords);
    Py_CLEAR(server->report);
    Py_CLEAR(server->log_start);
    Py_CLEAR(server->on_refusal);
    Py_CLEAR(server->forwarded);
    Py_CLEAR(server->spare_receive);
    Py_CLEAR(server->spare_send);
    while (HttpConnectionObject* connection = server->connections.pop_front()) {
        connection->listed = false;
        --server->open_connections;
        Py_DECREF(connection);
    }
    return 0;
}

void server_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    server_clear(self);
    if (HttpShared* shared = std::exchange(server_of(self)->shared, nullptr)) {
        shared->names.clear();
        shared->known_fields.clear();
        delete shared;
    }
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef server_methods[] = {
    {"sweep", &server_sweep, METH_NOARGS, "Close connections that were idle for too long."},
    {"drain", &server_drain, METH_NOARGS, "Keep no connection after its response."},
    {"disconnect", &server_disconnect, METH_NOARGS, "Send http.disconnect to all applications."},
    {"connections", &server_connections, METH_NOARGS, "The open connections."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef server_members[] = {
    {"loop", T_OBJECT, offsetof(HttpServerObject, loop), READONLY, nullptr},
    {"app", T_OBJECT, offsetof(HttpServerObject, app), READONLY, nullptr},
    {"state", T_OBJECT, offsetof(HttpServerObject, state), 0, nullptr},
    {"tasks", T_OBJECT, offsetof(HttpServerObject, tasks), READONLY, nullptr},
    {"open_connections", T_PYSSIZET, offsetof(HttpServerObject, open_connections), READONLY,
     nullptr},
    {"total_requests", T_ULONGLONG, offsetof(HttpServerObject, total_requests), 0, nullptr},
    {"draining", T_BOOL, offsetof(HttpServerObject, draining), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot server_slots[] = {
    {Py_tp_doc, const_cast<char*>("What the connections of an ASGI server share.")},
    {Py_tp_new, reinterpret_cast<void*>(&server_new)},
    {Py_tp_init, reinterpret_cast<void*>(&server_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&server_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&server_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&server_clear)},
    {Py_tp_methods, server_methods},
    {Py_tp_members, server_members},
    {0, nullptr},
};

PyType_Spec server_spec = {
    .name = "penstock._core.HttpServer",
    .basicsize = sizeof(HttpServerObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = server_slots,
};

} // namespace

Ref FieldNames::lower(std::string_view name) noexcept {
    std::array<char, longest> text;
    if (name.size() > longest) {
        Ref bytes(PyBytes_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size())));
        char* data = bytes ? PyBytes_AS_STRING(bytes.get()) : nullptr;
        for (std::size_t i = 0; data != nullptr && i < name.size(); ++i) {
            data[i] = static_cast<char>(Py_TOLOWER(name[i]));
        }
        return bytes;
    }
    std::size_t hash = name.size();
    for (std::size_t i = 0; i < name.size(); ++i) {
        text[i] = static_cast<char>(Py_TOLOWER(name[i]));
        hash = hash * 31 + static_cast<unsigned char>(text[i]);
    }
    const std::string_view lowered(text.data(), name.size());
    PyObject*& place = names_[hash % places];
    if (place != nullptr &&
        lowered == std::string_view(PyBytes_AS_STRING(place),
                                    static_cast<std::size_t>(PyBytes_GET_SIZE(place)))) {
        return Ref::borrow(place);
    }
    Ref made(PyBytes_FromStringAndSize(lowered.data(), static_cast<Py_ssize_t>(lowered.size())));
    if (place == nullptr && made) {
        place = Py_NewRef(made.get());
    }
    return made;
}

void FieldNames::clear() noexcept {
    for (PyObject*& name : names_) {
        Py_CLEAR(name);
    }
}

std::string_view date_field(HttpShared& shared) {
    renew_date(shared);
    return shared.date_field;
}

std::string_view usual_fields(HttpShared& shared) {
    renew_date(shared);
    return shared.usual_fields;
}

void report(HttpServerObject* server, const char* kind, PyObject* value) noexcept {
    const Ref reporter = Ref::borrow(server->report);
    if (reporter && !Ref(PyObject_CallFunction(reporter.get(), "sO", kind, value))) {
        PyErr_WriteUnraisable(reporter.get());
    }
}

void report(HttpServerObject* server, const char* kind, const char* text) noexcept {
    const Ref value(PyUnicode_FromString(text));
    if (value) {
        report(server, kind, value.get());
    } else {
        PyErr_Clear();
    }
}

void report_if_drained(HttpServerObject* server) noexcept {
    if (server->draining && server->open_connections == 0 && server->tasks != nullptr &&
        PySet_GET_SIZE(server->tasks) == 0) {
        Ref exception = take_exception();
        report(server, "drained", Py_None);
        if (exception) {
            raise_exception(std::move(exception));
        }
    }
}

bool add_http_server_type(PyObject* module) {
    const Ref type(PyType_FromModuleAndSpec(module, &server_spec, nullptr));
    return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) == 0;
}

} // namespace penstock::python
