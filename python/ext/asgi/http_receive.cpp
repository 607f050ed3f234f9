// receive(), and the wait of a send(): awaitables that complete at once where they can.

#include "asgi/http_request.hpp"

#include "asgi/http2_connection.hpp"
#include "net/socket_transport.hpp"

#include <cstring>
#include <new>

namespace penstock::python {

namespace {

/// Takes a wait out of its request's list. The caller holds a reference of its own.
void unlist(HttpWaitObject* wait) noexcept {
    if (std::exchange(wait->listed, false)) {
        (wait->sending ? wait->request->sending : wait->request->receiving).remove(*wait);
        Py_DECREF(wait);
    }
}

/// The body's next part: at most what has arrived, and nothing if that is not the end of it.
bool has_part(const HttpRequestObject* request) noexcept {
    return !request->body_received &&
           (request->body_complete || (request->body != nullptr && request->body->size() > 0));
}

bool may_send(const HttpRequestObject* request) noexcept {
    return has_room(request) || request->gone;
}

bool may_receive(const HttpRequestObject* request) noexcept {
    return has_part(request) || request->disconnected || request->response_complete ||
           request->gone;
}

/// All of the body that has arrived. Null with an exception set.
Ref take_part(RequestBody& body) noexcept {
    if (body.rest.empty()) {
        return body.first ? std::move(body.first) : Ref(PyBytes_FromStringAndSize(nullptr, 0));
    }
    const std::size_t first = static_cast<std::size_t>(PyBytes_GET_SIZE(body.first.get()));
    Ref joined(
        PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(first + body.rest.size())));
    if (joined) {
        char* data = PyBytes_AS_STRING(joined.get());
        std::memcpy(data, PyBytes_AS_STRING(body.first.get()), first);
        std::memcpy(data + first, body.rest.bytes().data(), body.rest.size());
        body.first = Ref();
        body.rest.clear(0);
    }
    return joined;
}

/// The next http.request. Null with an exception set.
PyObject* next_part(HttpRequestObject* request) noexcept {
    const ModuleState* state = request->state();
    HttpConnectionObject* connection = request->connection;
    Ref message(PyDict_Copy(state->http_empty_request));
    if (request->body != nullptr) {
        const Ref part = take_part(*request->body);
        if (!message || !part || PyDict_SetItem(message.get(), state->name_body, part.get()) != 0 ||
            PyDict_SetItem(message.get(), state->name_more_body,
                           request->body_complete ? Py_False : Py_True) != 0) {
            return nullptr;
        }
        if (request->multiplexed) {
            request->body_received = request->body_complete;
            return consume_part(request, static_cast<std::size_t>(PyBytes_GET_SIZE(part.get())))
                       ? message.release()
                       : nullptr;
        }
    }
    request->body_received = request->body_complete;
    return !request->multiplexed && is_current(request) && !resume_reading(connection)
               ? nullptr
               : message.release();
}

/// Asks the client for its body, if it waits for that. False with an exception set.
bool send_continue(HttpRequestObject* request) noexcept {
    if (!std::exchange(request->wants_continue, false) || request->response_started ||
        !is_current(request)) {
        return true;
    }
    constexpr std::string_view head = "HTTP/1.1 100 Continue\r\n\r\n";
    return request->multiplexed ? send_stream_interim(request, head)
                                : write_bytes(request->connection, head);
}

HttpWaitObject* make_wait(HttpRequestObject* request, bool sending) noexcept {
    ModuleState* state = request->state();
    HttpWaitObject* wait = HttpWaitObject::allocate(state, state->http_wait_type);
    if (wait == nullptr) {
        return nullptr;
    }
    wait->request = request_of(Py_NewRef(as_object(request)));
    wait->waiting_hook = {};
    wait->task = {};
    wait->stage = AwaitStage::created;
    wait->sending = sending;
    wait->listed = false;
    PyObject_GC_Track(as_object(wait));
    return wait;
}

/// The first one that a task is blocked on, or null.
HttpWaitObject* first_blocked(const HttpWaits& waits) noexcept {
    HttpWaitObject* wait = waits.front();
    while (wait != nullptr && wait->task.wakeup == nullptr) {
        wait = HttpWaits::after(*wait);
    }
    return wait;
}

/// Steps the waits of a list while `ready` says that they need not wait. False with an exception
/// set.
bool wake_list(HttpRequestObject* request, HttpWaits& waits,
               bool (*ready)(const HttpRequestObject*), Feeding feeding) noexcept {
    // One that is stepped may begin another wait, which is listed only if there is something to
    // wait for. Those that are stepped later find out then.
    while (HttpWaitObject* wait = ready(request) ? first_blocked(waits) : nullptr) {
        const Ref alive = Ref::borrow(as_object(wait));
        if (feeding == Feeding::anywhere) {
            if (!wait->wake_soon()) {
                return false;
            }
            continue;
        }
        unlist(wait);
        if (!step(wait->state(), wait->task, as_object(wait))) {
            return false;
        }
    }
    return true;
}

} // namespace

Ref HttpWaitObject::owning_loop() const noexcept {
    HttpServerObject* server = request->connection->server;
    if (server == nullptr || server->loop == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the connection is closed");
        return Ref();
    }
    return Ref::borrow(server->loop);
}

PySendResult HttpWaitObject::advance(bool /*first*/, PyObject* /*value*/,
                                     PyObject** result) noexcept {
    if (sending) {
        if (request->gone) {
            return send_to_gone_client(request), PYGEN_ERROR;
        }
        if (may_send(request)) {
            *result = Py_NewRef(Py_None);
            return PYGEN_RETURN;
        }
    } else {
        // First: a transport of the program's may deliver the answer before it returns.
        if (!may_receive(request) && !send_continue(request)) {
            return PYGEN_ERROR;
        }
        if (has_part(request) && !request->response_complete && !request->gone) {
            *result = next_part(request);
            return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
        }
        if (request->disconnected || request->response_complete || request->gone) {
            // Before it is told, a client that has only ended its side still gets its response.
            request->gone |= request->connection->eof && !request->response_complete;
            *result = PyDict_Copy(state()->http_disconnect);
            return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
        }
    }
    if (!listed) {
        listed = true;
        Py_INCREF(as_object(this));
        (sending ? request->sending : request->receiving).push_back(*this);
    }
    task.blocking = true;
    *result = Py_NewRef(as_object(this));
    return PYGEN_NEXT;
}

bool HttpWaitObject::wake_soon() noexcept {
    const Ref alive = Ref::borrow(as_object(this));
    unlist(this);
    if (task.wakeup == nullptr || request->connection->server == nullptr) {
        return true; // no task waits for it yet
    }
    return step_later(state(), task, as_object(this), request->connection->server->loop);
}

void HttpWaitObject::release() noexcept {
    unlist(this);
    python::release(task);
}

PyObject* http_receive(PyObject* self, PyObject* /*unused*/) {
    return as_object(make_wait(request_of(self), false));
}

PyObject* wait_for_room(HttpRequestObject* request) noexcept {
    return as_object(make_wait(request, true));
}

bool append_to_body(HttpRequestObject* request, std::string_view part) noexcept {
    RequestBody& body = *request->body;
    if (!body.first) {
        body.first =
            Ref(PyBytes_FromStringAndSize(part.data(), static_cast<Py_ssize_t>(part.size())));
        return static_cast<bool>(body.first);
    }
    try {
        body.rest.append(std::as_bytes(std::span(part)));
        return true;
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
}

bool wake(HttpRequestObject* request, Feeding feeding) noexcept {
    const Ref alive = Ref::borrow(as_object(request));
    return wake_list(request, request->receiving, &may_receive, feeding) &&
           wake_list(request, request->sending, &may_send, feeding);
}

bool disconnect(HttpRequestObject* request, Feeding feeding) noexcept {
    request->disconnected = true;
    return wake(request, feeding);
}

bool add_http_wait_type(PyObject* module, ModuleState* state) {
    state->http_wait_type = HttpWaitObject::add_type(
        module, "penstock._core.HttpWait",
        "A receive of a message, or the wait of a send, to be awaited once.");
    return state->http_wait_type != nullptr;
}

} // namespace penstock::python
