// A request's coroutine: calls the application, drives it, and ends the response after it.

#include "asgi/http_request.hpp"

#include "asgi/http2_connection.hpp"
#include "core/eager_task.hpp"
#include "net/socket_transport.hpp"

#include <utility>

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

namespace {

PyMethodDef receive_definition = {"receive", &http_receive, METH_NOARGS,
                                  "receive()\n--\n\nThe next message from the client."};
PyMethodDef send_definition = {"send", &http_send, METH_O,
                               "send(message, /)\n--\n\nSend a message to the client."};

/// What the application's call returns, as something that can be sent to. Null with an exception
/// set.
Ref awaited(Ref returned) noexcept {
    if (!returned || PyCoro_CheckExact(returned.get())) {
        return returned;
    }
    const PyAsyncMethods* methods = Py_TYPE(returned.get())->tp_as_async;
    if (methods != nullptr && methods->am_await != nullptr) {
        return Ref(methods->am_await(returned.get()));
    }
    PyErr_Format(PyExc_TypeError, "the ASGI application returned %.200R, which cannot be awaited",
                 returned.get());
    return Ref();
}

/// A method of the request, in the place of the spare one. Null with an exception set.
PyObject* make_method(PyObject*& spare, PyMethodDef* definition, PyObject* request) noexcept {
    PyObject* kept = std::exchange(spare, nullptr);
    if (kept == nullptr) {
        return PyCFunction_New(definition, request);
    }
    reinterpret_cast<PyCFunctionObject*>(kept)->m_self = Py_NewRef(request);
    PyObject_GC_Track(kept);
    return kept;
}

/// Keeps a method of a request that has ended for the next one, if nobody else refers to it.
void keep_method(PyObject*& spare, PyObject* method) noexcept {
    auto* function = reinterpret_cast<PyCFunctionObject*>(method);
    if (spare != nullptr || Py_REFCNT(method) != 1 || function->m_weakreflist != nullptr) {
        Py_DECREF(method);
        return;
    }
    PyObject_GC_UnTrack(method);
    Py_CLEAR(function->m_self);
    spare = method;
}

/// The application has ended: it needs its methods no more. Preserves a raised exception.
void take_methods_back(HttpRequestObject* request) noexcept {
    Ref receive(std::exchange(request->given_receive, nullptr));
    Ref send(std::exchange(request->given_send, nullptr));
    HttpServerObject* server = request->connection->server;
    if (server != nullptr && receive && send) {
        keep_method(server->spare_receive, receive.release());
        keep_method(server->spare_send, send.release());
    }
}

Ref call_application(HttpRequestObject* request) noexcept {
    HttpServerObject* server = request->connection->server;
    const Ref scope(std::exchange(request->scope, nullptr));
    PyObject* self = as_object(request);
    request->given_receive = make_method(server->spare_receive, &receive_definition, self);
    if (request->given_receive != nullptr) {
        request->given_send = make_method(server->spare_send, &send_definition, self);
    }
    const Ref app =
        request->is_websocket
            ? Ref(PyObject_GetAttrString(as_object(request->connection), "_run_websocket"))
            : Ref::borrow(server->app);
    const Ref receive = Ref::borrow(request->given_receive);
    const Ref send = Ref::borrow(request->given_send);
    if (!send || !app) {
        return Ref();
    }
    PyObject* stack[] = {nullptr, scope.get(), receive.get(), send.get()};
    return awaited(Ref(
        PyObject_Vectorcall(app.get(), stack + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
}

/// The application has failed, or has returned too early: 500 if nothing was sent, else the end of
/// the connection. False with an exception set.
bool break_off(HttpRequestObject* request) noexcept {
    if (request->gone || request->response_complete || !is_current(request)) {
        return true;
    }
    request->keep_alive = false;
    if (request->lacks_file && request->head_held) {
        // The head promises what cannot be sent, and nobody has seen it.
        request->head_held = request->response_started = false;
        request->framing = Framing::unknown;
        request->length = 0;
    }
    return request->response_started ? cut_off(request)
                                     : send_text(request, 500, "Internal Server Error");
}

/// The application has raised the exception that is set. Returns whether the task is to raise it
/// too; it is then set again.
bool handle_exception(HttpRequestObject* request) noexcept {
    const ModuleState* state = request->state();
    const bool cancelled = PyErr_ExceptionMatches(state->cancelled_error_type) != 0;
    const bool passes_on = cancelled || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
    // By close(), while the application has its scope to get yet.
    const bool never_called =
        request->scope != nullptr && PyErr_ExceptionMatches(PyExc_GeneratorExit) != 0;
    Ref exception = take_exception();
    HttpServerObject* server = request->connection->server;
    if (server != nullptr && never_called) {
        report(server, "error",
               "The coroutine of a request was closed before its first step, for "
               "example by a task factory. The application was not called.");
    } else if (server != nullptr && cancelled && !request->gone) {
        report(server, "cancelled", exception.get());
    } else if (server != nullptr && !passes_on) {
        report(server, request->gone ? "exception after the client has gone" : "exception",
               exception.get());
    }
    if (!break_off(request)) {
        PyErr_WriteUnraisable(as_object(request));
    }
    if (passes_on) {
        raise_exception(std::move(exception));
    }
    return passes_on;
}

/// The application has returned. Errors are reported.
void handle_return(HttpRequestObject* request, PyObject* value) noexcept {
    HttpServerObject* server = request->connection->server;
    if (server == nullptr) {
        return;
    }
    if (value != Py_None) {
        const Ref text(
            PyUnicode_FromFormat("ASGI callable should return None, but returned '%S'.", value));
        if (text) {
            report(server, "error", text.get());
        } else {
            PyErr_Clear();
        }
    } else if (request->response_complete || request->gone) {
        return;
    } else if (request->disconnected && !request->response_started) {
        // It has seen that the client has gone, and need not answer.
        request->gone = true;
        return;
    } else {
        report(server, "error",
               request->response_started ? "ASGI callable returned without completing response."
                                         : "ASGI callable returned without starting response.");
    }
    if (request->response_complete) {
        if (!request->multiplexed && is_current(request) && !end_connection(request->connection)) {
            PyErr_WriteUnraisable(as_object(request));
        }
    } else if (!break_off(request)) {
        PyErr_WriteUnraisable(as_object(request));
    }
}

void forget_task(HttpRequestObject* request) noexcept {
    const Ref task(std::exchange(request->own_task, nullptr));
    HttpServerObject* server = request->connection->server;
    if (task && server != nullptr && server->tasks != nullptr &&
        PySet_Discard(server->tasks, task.get()) < 0) {
        PyErr_WriteUnraisable(task.get());
    }
    if (task && server != nullptr) {
        report_if_drained(server);
    }
}

/// Ends the connection of a client that has gone for the application, and that may still wait: it
/// has only ended its side. Preserves a raised exception.
void end_without_response(HttpRequestObject* request) noexcept {
    if (!request->gone || request->response_complete || !is_current(request)) {
        return;
    }
    Ref exception = take_exception();
    if (!(request->multiplexed ? reset_stream(request) : end_connection(request->connection))) {
        PyErr_WriteUnraisable(as_object(request));
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

/// A step of the application has ended. `*result` is what it has yielded or returned.
PySendResult conclude(HttpRequestObject* request, PySendResult sent, PyObject** result) noexcept {
    if (sent == PYGEN_NEXT) {
        if (request->head_held && !request->flush_scheduled && !flush_head(request)) {
            Py_CLEAR(*result);
            return PYGEN_ERROR;
        }
        return sent;
    }
    const Ref application(std::exchange(request->application, nullptr));
    take_methods_back(request);
    if (std::exchange(request->abandoned, false)) {
        forget_abandoned(request->connection);
    }
    if (sent == PYGEN_RETURN) {
        const Ref value(std::exchange(*result, nullptr));
        handle_return(request, value.get());
    } else if (handle_exception(request)) {
        end_without_response(request);
        forget_task(request);
        return PYGEN_ERROR;
    }
    end_without_response(request);
    forget_task(request);
    *result = Py_NewRef(Py_None);
    return PYGEN_RETURN;
}

/// Lets the request end with its task, where that need not run it: a task factory may wrap the
/// coroutine, close it or drop it. False with an exception set.
bool watch_task(HttpRequestObject* request, PyObject* task) noexcept {
    const Ref coroutine(PyObject_CallMethod(task, "get_coro", nullptr));
    if (coroutine.get() == as_object(request)) {
        return true;
    }
    PyErr_Clear();
    const Ref callback(PyObject_GetAttrString(as_object(request), "_leave"));
    return callback && Ref(PyObject_CallMethod(task, "add_done_callback", "O", callback.get()));
}

/// Makes the task. Null with an exception set.
Ref make_task(HttpRequestObject* request, Feeding feeding) noexcept {
    HttpServerObject* server = request->connection->server;
    // Its own context, not that of the loop's callback.
    if (server->task_keywords != nullptr && feeding == Feeding::from_dispatcher) {
        auto* loop = reinterpret_cast<LoopObject*>(server->loop);
        if (begins_plainly(loop)) {
            const Ref keywords = Ref::borrow(server->task_keywords);
            const Ref context = Ref::borrow(request->connection->context);
            return begin_task(loop, keywords.get(), as_object(request), context.get());
        }
    }
    const ProtocolContext context(request->connection->context);
    Ref task(PyObject_CallMethodOneArg(server->loop, request->state()->name_create_task,
                                       as_object(request)));
    return task && request->stage == AwaitStage::created && !watch_task(request, task.get())
               ? Ref()
               : std::move(task);
}

} // namespace

bool cut_off(HttpRequestObject* request) noexcept {
    if (!flush_head(request)) {
        return false;
    }
    request->gone = true;
    if (!request->multiplexed) {
        return end_connection(request->connection,
                              request->framing == Framing::close ? Ending::abort : Ending::normal);
    }
    // A response without a body is whole.
    request->response_complete = request->framing == Framing::none;
    // Another task of the application may wait for a message: the close of a stream whose
    // response is complete tells it nothing.
    return wake(request, Feeding::anywhere) &&
           (!is_current(request) ||
            (request->response_complete ? finish_stream(request) : reset_stream(request)));
}

bool start_task(HttpRequestObject* request, Feeding feeding) noexcept {
    const Ref alive = Ref::borrow(as_object(request));
    request->started = true;
    const Ref task = make_task(request, feeding);
    if (!task) {
        return false;
    }
    if (request->stage == AwaitStage::finished) {
        return true;
    }
    // The loop has only a weak reference.
    request->own_task = Py_NewRef(task.get());
    const HttpServerObject* server = request->connection->server;
    PyObject* tasks = server != nullptr ? server->tasks : nullptr;
    if (tasks == nullptr) {
        return true;
    }
    // A task of a factory's own class may have a hash of its own, in which the request ends.
    return PySet_Add(tasks, task.get()) == 0 &&
           (request->own_task != nullptr || PySet_Discard(tasks, task.get()) >= 0);
}

PySendResult HttpRequestObject::advance(bool first, PyObject* value, PyObject** result) noexcept {
    if (first) {
        application = call_application(this).release();
    }
    if (application == nullptr) {
        return conclude(this, PYGEN_ERROR, result);
    }
    const Ref driven = Ref::borrow(application);
    return conclude(this, PyIter_Send(driven.get(), value, result), result);
}

PyObject* HttpRequestObject::throw_into(PyObject* self, PyObject* const* arguments,
                                        Py_ssize_t count) noexcept {
    const Ref alive = Ref::borrow(self);
    HttpRequestObject* request = of(self);
    if (!may_resume(request->stage)) {
        return nullptr;
    }
    PyObject* result = nullptr;
    PySendResult sent = PYGEN_ERROR;
    const bool begun = std::exchange(request->stage, AwaitStage::running) != AwaitStage::created;
    if (!begun || request->application == nullptr) {
        raise_thrown(arguments, count); // before its first step: the application is not called
    } else {
        const Ref driven = Ref::borrow(request->application);
        const Ref method(PyObject_GetAttr(driven.get(), request->state()->name_throw));
        if (method) {
            result = PyObject_Vectorcall(method.get(), arguments, static_cast<std::size_t>(count),
                                         nullptr);
        } else {
            PyErr_Clear();
            raise_thrown(arguments, count);
        }
        if (result != nullptr) {
            sent = PYGEN_NEXT;
        } else if (PyErr_ExceptionMatches(PyExc_StopIteration) != 0) {
            const Ref stop = take_exception();
            result = PyObject_GetAttrString(stop.get(), "value");
            sent = result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
        }
    }
    sent = conclude(request, sent, &result);
    if (sent == PYGEN_NEXT) {
        request->stage = AwaitStage::suspended;
    } else {
        finish(request);
    }
    return send_step(sent, result);
}

PyObject* HttpRequestObject::close(PyObject* self, PyObject* /*unused*/) noexcept {
    const Ref alive = Ref::borrow(self);
    const HttpRequestObject* request = of(self);
    if (!may_close(request->stage)) {
        return nullptr;
    }
    if (request->stage == AwaitStage::finished) {
        Py_RETURN_NONE;
    }
    if (Ref(throw_into(self, &PyExc_GeneratorExit, 1))) {
        PyErr_SetString(PyExc_RuntimeError, "coroutine ignored GeneratorExit");
        return nullptr;
    }
    if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0 &&
        PyErr_ExceptionMatches(PyExc_GeneratorExit) == 0) {
        return nullptr;
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}

PyObject* HttpRequestObject::leave(PyObject* self, PyObject* /*task*/) {
    // Once it has begun, whoever steps it ends it.
    return of(self)->stage == AwaitStage::created ? close(self, nullptr) : Py_NewRef(Py_None);
}

void HttpRequestObject::release() noexcept {
    Py_CLEAR(scope);
    Py_CLEAR(logged);
    Py_CLEAR(application);
    Py_CLEAR(given_receive);
    Py_CLEAR(given_send);
    Py_CLEAR(own_task);
}

int HttpRequestObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(scope);
    Py_VISIT(logged);
    Py_VISIT(application);
    Py_VISIT(given_receive);
    Py_VISIT(given_send);
    Py_VISIT(own_task);
    for (const HttpWaits* waits : {&receiving, &sending}) {
        for (HttpWaitObject* wait = waits->front(); wait != nullptr;
             wait = HttpWaits::after(*wait)) {
            Py_VISIT(wait);
        }
    }
    return 0;
}

void HttpRequestObject::tp_dealloc(PyObject* self) noexcept {
    // Waits own the request, so none is left.
    delete std::exchange(of(self)->body, nullptr);
    NativeAwaitable::tp_dealloc(self);
}

HttpRequestObject* make_request(HttpConnectionObject* connection, Ref scope,
                                http2::Stream* stream) noexcept {
    ModuleState* state = state_of(Py_TYPE(connection->server));
    HttpRequestObject* request = HttpRequestObject::allocate(state, state->http_request_type);
    if (request == nullptr) {
        return nullptr;
    }
    // All that follows the object's header, which the collector's allocation leaves as it was.
    request->connection = http_of(Py_NewRef(as_object(connection)));
    request->logged = connection->server->on_refusal != Py_None ? Py_NewRef(scope.get()) : nullptr;
    request->scope = scope.release();
    request->application = request->given_receive = request->given_send = nullptr;
    request->own_task = nullptr;
    request->body = nullptr;
    request->stream = stream;
    request->waits_since = 0;
    request->multiplexed = stream != nullptr;
    request->abandoned = request->is_websocket = false;
    new (&request->receiving) HttpWaits();
    new (&request->sending) HttpWaits();
    request->length = 0;
    request->stage = AwaitStage::created;
    request->framing = Framing::unknown;
    request->started = request->http_1_0 = request->is_head = request->keep_alive = false;
    request->wants_continue = request->body_received = request->head_held = false;
    request->body_begun = request->flush_scheduled = request->lacks_file = false;
    request->response_started = request->response_complete = false;
    request->disconnected = request->gone = false;
    request->body_complete = true;
    PyObject_GC_Track(as_object(request));
    if (stream != nullptr) {
        stream->user = request;
    } else {
        Py_XSETREF(connection->request, request);
    }
    return request;
}

bool add_http_request_types(PyObject* module, ModuleState* state) {
    state->http_disconnect = Py_BuildValue("{ss}", "type", "http.disconnect");
    state->empty_bytes = PyBytes_FromStringAndSize(nullptr, 0);
    state->http_empty_request = PyDict_New();
    if (state->http_disconnect == nullptr || state->empty_bytes == nullptr ||
        state->http_empty_request == nullptr ||
        PyDict_SetItem(state->http_empty_request, state->name_type, state->name_http_request) !=
            0 ||
        PyDict_SetItem(state->http_empty_request, state->name_body, state->empty_bytes) != 0 ||
        PyDict_SetItem(state->http_empty_request, state->name_more_body, Py_False) != 0) {
        return false;
    }
    state->http_request_type = HttpRequestObject::add_type(module, "penstock._core.HttpRequest",
                                                           "The coroutine of a request's task.");
    return state->http_request_type != nullptr && add_http_wait_type(module, state);
}

} // namespace penstock::python
