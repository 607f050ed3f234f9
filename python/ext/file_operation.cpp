#include "file_operation.hpp"

#include "file_calls.hpp"

#include <cerrno>
#include <new>

#include <unistd.h>

namespace penstock::python {

namespace {

using Stage = FileOperationObject::Stage;

FileOperationObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<FileOperationObject*>(object);
}

// ---- what it holds --------------------------------------------------------------------------------

/// Lets go of the buffers and paths that the engine used, once it is done with them.
void release_buffers(FileOperationObject* operation) noexcept {
    Py_CLEAR(operation->target);
    if (operation->view.obj != nullptr) {
        PyBuffer_Release(&operation->view);
    }
    delete std::exchange(operation->extra, nullptr);
    Py_CLEAR(operation->subject);
    Py_CLEAR(operation->other_subject);
    Py_CLEAR(operation->path);
    Py_CLEAR(operation->other_path);
}

void release_waiting(FileOperationObject* operation) noexcept {
    Py_CLEAR(operation->wakeup);
    Py_CLEAR(operation->context);
    Py_CLEAR(operation->cancel_message);
    Py_CLEAR(operation->delegate);
}

/// Tells whoever wanted to know that the operation is not in flight any more; and its result, when
/// its task could not be told.
void settle(FileOperationObject* operation) noexcept {
    const Ref callback(std::exchange(operation->settled, nullptr));
    if (!callback) {
        return;
    }
    Ref value;
    if (operation->abandoned && operation->error == 0 && operation->call->value != nullptr &&
        operation->call->discard == nullptr) {
        value = Ref(operation->call->value(operation));
        if (!value) {
            PyErr_WriteUnraisable(callback.get());
        }
    }
    if (!Ref(PyObject_CallOneArg(callback.get(), value ? value.get() : Py_None))) {
        PyErr_WriteUnraisable(callback.get());
    }
}

/// Has the engine leave undone what it can. Closing is always done.
void cut_short(FileOperationObject* operation) noexcept {
    if (!operation->call->ends_descriptor && operation->engine->io != nullptr) {
        operation->engine->io->cancel(operation->request);
    }
}

/// Ends it for whoever awaited it. The engine, if it still works on it, keeps what it needs.
void finish(FileOperationObject* operation) noexcept {
    const bool unwanted = operation->stage == Stage::complete;
    operation->stage = Stage::finished;
    release_waiting(operation);
    if (operation->in_flight) {
        operation->abandoned = true;
        if (!operation->started) {
            cut_short(operation);
        }
        return;
    }
    if (unwanted && operation->error == 0) {
        operation->abandoned = true;
        if (operation->call->discard == nullptr) {
            return; // `when_settled` may ask for it
        }
        operation->call->discard(operation);
    }
    release_buffers(operation);
}

// ---- the engine's side ----------------------------------------------------------------------------

void link_in_flight(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    operation->previous = nullptr;
    operation->next = engine->in_flight;
    if (operation->next != nullptr) {
        operation->next->previous = operation;
    }
    engine->in_flight = operation;
    ++engine->in_flight_count;
    operation->in_flight = true;
    Py_INCREF(operation);
}

/// The caller takes over the engine's reference.
void unlink_in_flight(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (operation->previous != nullptr) {
        operation->previous->next = operation->next;
    } else {
        engine->in_flight = operation->next;
    }
    if (operation->next != nullptr) {
        operation->next->previous = operation->previous;
    }
    operation->previous = nullptr;
    operation->next = nullptr;
    --engine->in_flight_count;
    operation->in_flight = false;
}

/// Has the loop call `process` in its next iteration.
void process_later(FileEngineObject* engine) noexcept {
    const Ref process(PyObject_GetAttrString(as_object(engine), "process"));
    if (!process || !Ref(PyObject_CallOneArg(engine->later, process.get()))) {
        PyErr_WriteUnraisable(as_object(engine));
    }
}

/// Whether anything in flight uses a descriptor, leaving out closings.
bool is_used(const FileEngineObject* engine, int fd) noexcept {
    for (const auto* other = engine->in_flight; other != nullptr; other = other->next) {
        if ((other->fd == fd || other->other_fd == fd) && !other->call->ends_descriptor) {
            return true;
        }
    }
    return false;
}

bool ask_engine(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (operation->call->ends_descriptor && is_used(engine, operation->fd)) {
        operation->held = true;
        ++engine->held_count;
        return true;
    }
    std::error_code refused;
    try {
        operation->call->prepare(operation);
        refused = engine->io->start(operation->request);
    } catch (const std::bad_alloc&) {
        refused = std::make_error_code(std::errc::not_enough_memory);
    }
    if (refused) {
        operation->error = refused.value();
        return false;
    }
    if (engine->penstock == nullptr && engine->io->flush()) {
        process_later(engine); // other loops do not flush before they block
    }
    return true;
}

/// Has the waiting task stepped in the loop's next iteration; false with an exception set.
bool wake_later(FileOperationObject* operation, PyObject* wakeup, PyObject* context) noexcept {
    PyObject* stack[] = {operation->engine->loop, wakeup, as_object(operation), context};
    return static_cast<bool>(
        call_rare_path(operation->engine->state, "call_soon_on_loop", stack, 4));
}

/// Steps the waiting task, or lets trio do so.
void wake(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    const Ref wakeup(std::exchange(operation->wakeup, nullptr));
    const Ref context(std::exchange(operation->context, nullptr));
    if (!wakeup || (engine->penstock != nullptr && engine->penstock->closed)) {
        return;
    }
    if (engine->closing && engine->loop != nullptr) {
        // A task may be running, which no other may be stepped from.
        if (!wake_later(operation, wakeup.get(), context.get())) {
            PyErr_WriteUnraisable(wakeup.get());
        }
        return;
    }
    if (context && PyContext_Enter(context.get()) != 0) {
        PyErr_WriteUnraisable(wakeup.get());
        return;
    }
    Ref result(PyObject_CallOneArg(wakeup.get(), as_object(operation)));
    Ref exception = result ? Ref() : take_exception();
    if (context) {
        PyContext_Exit(context.get());
    }
    if (!exception) {
        return;
    }
    raise_exception(std::move(exception));
    if (engine->penstock != nullptr) {
        report_raised(engine->penstock, "Exception after a file operation", nullptr, nullptr);
    } else if (engine->raised == nullptr) {
        engine->raised = take_exception().release();
    } else {
        PyErr_WriteUnraisable(wakeup.get());
    }
}

void on_complete(io::FileOperation& request, std::int64_t answer);

/// Starts the closings that nothing stands in the way of any more.
void release_held(FileEngineObject* engine) noexcept {
    FileOperationObject* operation = engine->held_count > 0 ? engine->in_flight : nullptr;
    while (operation != nullptr) {
        FileOperationObject* next = operation->next;
        if (operation->held && !is_used(engine, operation->fd)) {
            operation->held = false;
            --engine->held_count;
            if (!ask_engine(operation)) {
                on_complete(operation->request, -operation->error);
                next = engine->in_flight;
            }
        }
        operation = next;
    }
}

void on_complete(io::FileOperation& request, std::int64_t answer) {
    FileOperationObject* operation = FileOperationObject::of(request);
    const FileCall* call = operation->call;
    if (answer >= 0) {
        operation->result = answer;
        operation->done += answer;
    } else {
        operation->error = static_cast<int>(-answer);
    }
    const Ref reference(as_object(operation));
    unlink_in_flight(operation);
    release_held(operation->engine);
    if (operation->abandoned) {
        if (operation->error == 0 && call->discard != nullptr) {
            call->discard(operation);
        }
        settle(operation);
        release_buffers(operation);
        return;
    }
    operation->stage = Stage::complete;
    wake(operation);
    settle(operation);
}

// ---- the task's side ------------------------------------------------------------------------------

/// False with an exception set when there is nothing to resume.
bool may_resume(const FileOperationObject* operation) noexcept {
    if (operation->running) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
        return false;
    }
    if (operation->stage == Stage::finished) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        return false;
    }
    return true;
}

PySendResult return_value(FileOperationObject* operation, PyObject** result) noexcept {
    Ref value;
    if (operation->error != 0) {
        raise_file_error(operation);
    } else {
        value = operation->call->value != nullptr ? Ref(operation->call->value(operation))
                                                  : Ref::borrow(Py_None);
    }
    operation->stage = Stage::waiting; // its result is taken
    finish(operation);
    *result = value.release();
    return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

PySendResult fail(FileOperationObject* operation, PyObject** result) noexcept {
    finish(operation);
    *result = nullptr;
    return PYGEN_ERROR;
}

/// Does it at once or hands it to the engine; false with an exception set. Afterwards it is complete
/// or waiting.
bool begin(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (!check_open(engine)) {
        return false;
    }
    if (operation->call->attempt != nullptr) {
        operation->running = true;
        const Attempt attempt = operation->call->attempt(operation);
        operation->running = false;
        if (attempt == Attempt::done) {
            operation->stage = Stage::complete;
            return true;
        }
        if (attempt == Attempt::failed || !check_open(engine)) {
            return false;
        }
    }
    link_in_flight(operation);
    operation->stage = Stage::waiting;
    if (!ask_engine(operation)) {
        unlink_in_flight(operation);
        operation->stage = Stage::complete;
        Py_DECREF(operation);
    }
    return true;
}

/// On trio: makes the coroutine that waits instead of it.
bool delegate_to(FileOperationObject* operation, PyObject* maker, bool itself) noexcept {
    PyObject* coroutine =
        itself ? PyObject_CallOneArg(maker, as_object(operation)) : PyObject_CallNoArgs(maker);
    operation->delegate = coroutine;
    return coroutine != nullptr;
}

/// Where a task stands that sends to it: goes on from there until it must wait or is done.
PySendResult resume(FileOperationObject* operation, PyObject* value, PyObject** result) noexcept {
    if (!may_resume(operation)) {
        *result = nullptr;
        return PYGEN_ERROR;
    }
    FileEngineObject* engine = operation->engine;
    const bool on_trio = engine->loop == nullptr;
    for (;;) {
        if (operation->delegate != nullptr) {
            operation->running = true;
            const PySendResult sent = PyIter_Send(operation->delegate, value, result);
            operation->running = false;
            if (sent == PYGEN_NEXT) {
                return PYGEN_NEXT;
            }
            Py_CLEAR(operation->delegate);
            if (sent == PYGEN_ERROR) {
                return fail(operation, result);
            }
            Py_DECREF(*result);
            value = Py_None;
        }
        switch (operation->stage) {
        case Stage::created:
            if (on_trio) {
                // Every await of trio's is a checkpoint.
                if (!check_open(engine) || !delegate_to(operation, engine->checkpoint, false)) {
                    return fail(operation, result);
                }
                operation->stage = Stage::paused;
                break;
            }
            if (engine->turn_credit <= 0 && operation->call->attempt != nullptr) {
                engine->turn_credit = FileEngineObject::turn_bytes;
                operation->stage = Stage::paused;
                *result = Py_NewRef(Py_None);
                return PYGEN_NEXT;
            }
            [[fallthrough]];
        case Stage::paused:
            if (!begin(operation)) {
                return fail(operation, result);
            }
            break;
        case Stage::waiting:
            if (on_trio) {
                if (!delegate_to(operation, engine->wait, true)) {
                    return fail(operation, result);
                }
                break;
            }
            operation->blocking = true;
            *result = Py_NewRef(as_object(operation));
            return PYGEN_NEXT;
        case Stage::complete:
            return return_value(operation, result);
        case Stage::finished:
            PyErr_SetString(PyExc_RuntimeError, "the operation has ended");
            *result = nullptr;
            return PYGEN_ERROR;
        }
    }
}

/// Raises StopIteration with a coroutine's result.
void raise_stop(PyObject* value) noexcept {
    // An exception's class would be called with a tuple's items.
    const Ref stop(PyObject_CallOneArg(PyExc_StopIteration, value));
    if (stop) {
        PyErr_SetObject(PyExc_StopIteration, stop.get());
    }
}

PyObject* as_generator_step(PySendResult sent, PyObject* result) noexcept {
    if (sent != PYGEN_RETURN) {
        return result;
    }
    const Ref value(result);
    raise_stop(result);
    return nullptr;
}

PySendResult operation_am_send(PyObject* self, PyObject* value, PyObject** result) {
    return resume(self_of(self), value, result);
}

PyObject* operation_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), Py_None, &result);
    return as_generator_step(sent, result);
}

PyObject* operation_send(PyObject* self, PyObject* value) {
    if (value != Py_None && self_of(self)->stage == Stage::created) {
        PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started coroutine");
        return nullptr;
    }
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), value, &result);
    return as_generator_step(sent, result);
}

/// On trio, an exception first goes to the coroutine that waits: it may answer with another one.
PyObject* throw_into_delegate(FileOperationObject* operation, PyObject* const* arguments,
                              Py_ssize_t count) noexcept {
    const Ref method(PyObject_GetAttrString(operation->delegate, "throw"));
    PyObject* yielded = nullptr;
    if (method) {
        operation->running = true;
        yielded =
            PyObject_Vectorcall(method.get(), arguments, static_cast<std::size_t>(count), nullptr);
        operation->running = false;
    }
    if (yielded != nullptr) {
        return yielded;
    }
    Py_CLEAR(operation->delegate);
    if (PyErr_ExceptionMatches(PyExc_StopIteration) != 0) {
        PyErr_Clear();
        PyObject* result = nullptr;
        const PySendResult sent = resume(operation, Py_None, &result);
        return as_generator_step(sent, result);
    }
    finish(operation);
    return nullptr;
}

PyObject* operation_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    FileOperationObject* operation = self_of(self);
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
        return nullptr;
    }
    if (!may_resume(operation)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    if (operation->delegate != nullptr) {
        return throw_into_delegate(operation, arguments, count);
    }
    finish(operation);
    call_rare_path(operation->engine->state, "raise_thrown", arguments,
                   static_cast<std::size_t>(count));
    return nullptr;
}

PyObject* operation_close(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = self_of(self);
    if (operation->running) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    const Ref delegate(std::exchange(operation->delegate, nullptr));
    if (operation->stage != Stage::finished) {
        finish(operation);
    }
    if (operation->in_flight) {
        cut_short(operation);
    }
    if (delegate) {
        return PyObject_CallMethod(delegate.get(), "close", nullptr);
    }
    Py_RETURN_NONE;
}

PyObject* operation_await(PyObject* self) {
    return Py_NewRef(self);
}

PyObject* operation_start(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = self_of(self);
    if (!may_resume(operation)) {
        return nullptr;
    }
    operation->started = true;
    if (operation->stage == Stage::created && !begin(operation)) {
        finish(operation);
        return nullptr;
    }
    return Py_NewRef(self);
}

PyObject* operation_when_settled(PyObject* self, PyObject* callback) {
    FileOperationObject* operation = self_of(self);
    Py_XSETREF(operation->settled, Py_NewRef(callback));
    if (!operation->in_flight) {
        settle(operation);
        if (operation->stage == Stage::finished) {
            release_buffers(operation);
        }
    }
    Py_RETURN_NONE;
}

// ---- the future that a task sees ------------------------------------------------------------------

PyObject* operation_add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                      PyObject* keywords) {
    FileOperationObject* operation = self_of(self);
    if (count != 1) {
        PyErr_SetString(PyExc_TypeError, "add_done_callback() takes one callback");
        return nullptr;
    }
    const bool has_context = keywords != nullptr && PyTuple_GET_SIZE(keywords) == 1;
    PyObject* context =
        has_context && arguments[1] != Py_None ? Py_NewRef(arguments[1]) : PyContext_CopyCurrent();
    if (context == nullptr) {
        return nullptr;
    }
    Py_XSETREF(operation->context, context);
    Py_XSETREF(operation->wakeup, Py_NewRef(arguments[0]));
    Py_RETURN_NONE;
}

PyObject* operation_remove_done_callback(PyObject* self, PyObject* /*callback*/) {
    FileOperationObject* operation = self_of(self);
    const bool removed = operation->wakeup != nullptr;
    Py_CLEAR(operation->wakeup);
    Py_CLEAR(operation->context);
    return PyLong_FromLong(removed ? 1 : 0);
}

PyObject* operation_result(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = self_of(self);
    if (!operation->cancelled) {
        Py_RETURN_NONE; // the value comes when the task sends
    }
    PyObject* message = operation->cancel_message;
    return call_rare_path(operation->engine->state, "raise_cancelled", &message,
                          message != nullptr ? 1 : 0)
        .release();
}

/// The task is woken in the next iteration; what the engine does meanwhile changes nothing.
PyObject* operation_cancel(PyObject* self, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"msg", nullptr};
    PyObject* message = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:cancel", const_cast<char**>(names),
                                     &message)) {
        return nullptr;
    }
    FileOperationObject* operation = self_of(self);
    if (operation->stage != Stage::waiting || operation->cancelled) {
        Py_RETURN_FALSE;
    }
    const Ref wakeup(std::exchange(operation->wakeup, nullptr));
    const Ref context(std::exchange(operation->context, nullptr));
    operation->cancelled = true;
    Py_XSETREF(operation->cancel_message, Py_XNewRef(message));
    if (wakeup && !wake_later(operation, wakeup.get(), context.get())) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject* operation_done(PyObject* self, PyObject* /*unused*/) {
    const FileOperationObject* operation = self_of(self);
    return PyBool_FromLong(operation->stage != Stage::waiting || operation->cancelled);
}

PyObject* operation_get_loop(PyObject* self, PyObject* /*unused*/) {
    PyObject* loop = self_of(self)->engine->loop;
    return Py_NewRef(loop != nullptr ? loop : Py_None);
}

// A task knows what it may wait for by the attribute `_asyncio_future_blocking` of the object, but
// asyncio.isfuture() looks for it in the class: with it there, asyncio.wait_for() and its like would
// take the operation for a future, and never make the task that runs it.

PyObject* operation_getattro(PyObject* self, PyObject* name) {
    const FileOperationObject* operation = self_of(self);
    if (name == operation->engine->state->name_future_blocking) {
        return PyBool_FromLong(operation->blocking);
    }
    return PyObject_GenericGetAttr(self, name);
}

int operation_setattro(PyObject* self, PyObject* name, PyObject* value) {
    if (PyUnicode_CompareWithASCIIString(name, "_asyncio_future_blocking") == 0) {
        self_of(self)->blocking = value == Py_True;
        return 0;
    }
    return PyObject_GenericSetAttr(self, name, value);
}

// ---- the object -----------------------------------------------------------------------------------

PyObject* operation_repr(PyObject* self) {
    const FileOperationObject* operation = self_of(self);
    if (operation->subject != nullptr) {
        return PyUnicode_FromFormat("<file operation %s of %R at %p>", operation->call->name,
                                    operation->subject, self);
    }
    return PyUnicode_FromFormat("<file operation %s on descriptor %d at %p>", operation->call->name,
                                operation->fd, self);
}

PyObject* get_name(PyObject* self, void* /*unused*/) {
    return PyUnicode_FromString(self_of(self)->call->name);
}

PyObject* get_running(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->running);
}

PyObject* get_suspended(PyObject* self, void* /*unused*/) {
    const Stage stage = self_of(self)->stage;
    return PyBool_FromLong(stage != Stage::created && stage != Stage::finished);
}

PyObject* get_in_flight(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->in_flight);
}

int operation_traverse(PyObject* self, visitproc visit, void* arg) {
    FileOperationObject* operation = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(operation->engine);
    Py_VISIT(operation->subject);
    Py_VISIT(operation->other_subject);
    Py_VISIT(operation->target);
    Py_VISIT(operation->wakeup);
    Py_VISIT(operation->context);
    Py_VISIT(operation->cancel_message);
    Py_VISIT(operation->delegate);
    Py_VISIT(operation->settled);
    Py_VISIT(operation->view.obj);
    return 0;
}

int operation_clear(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    finish(operation);
    if (!operation->in_flight) {
        release_buffers(operation);
    }
    Py_CLEAR(operation->settled);
    return 0;
}

void operation_finalize(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    if (operation->stage != Stage::created) {
        return;
    }
    operation->stage = Stage::finished;
    Ref exception = take_exception();
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited",
                         operation->call->name) != 0) {
        PyErr_WriteUnraisable(self);
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

void operation_dealloc(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    const bool finalized = operation->stage == Stage::created;
    if (finalized && PyObject_CallFinalizerFromDealloc(self) < 0) {
        return; // somebody kept it
    }
    PyObject_GC_UnTrack(self);
    finish(operation);
    release_buffers(operation);
    Py_CLEAR(operation->settled);
    FileEngineObject* engine = operation->engine;
    PyTypeObject* type = Py_TYPE(self);
    operation->request.~FileRequest();
    if (!finalized && engine->io != nullptr && engine->spare_count < FileEngineObject::max_spare) {
        operation->next = engine->spare;
        engine->spare = operation;
        ++engine->spare_count;
    } else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(engine);
    Py_DECREF(type);
}

PyMethodDef operation_methods[] = {
    {"send", &operation_send, METH_O, "Begin, or go on; as a coroutine's."},
    {"throw", as_function(&operation_throw), METH_FASTCALL, "End it with an exception."},
    {"close", &operation_close, METH_NOARGS, "End it."},
    {"start", &operation_start, METH_NOARGS,
     "Begin now, and go on when the await is cancelled. Returns the operation, to be awaited."},
    {"when_settled", &operation_when_settled, METH_O,
     "Call a callback when the engine has let go of the operation; at once if it has."},
    {"add_done_callback", as_function(&operation_add_done_callback), METH_FASTCALL | METH_KEYWORDS,
     nullptr},
    {"remove_done_callback", &operation_remove_done_callback, METH_O, nullptr},
    {"result", &operation_result, METH_NOARGS, nullptr},
    {"cancel", as_function(&operation_cancel), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"done", &operation_done, METH_NOARGS, nullptr},
    {"get_loop", &operation_get_loop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef operation_attributes[] = {
    {"__name__", &get_name, nullptr, nullptr, nullptr},
    {"__qualname__", &get_name, nullptr, nullptr, nullptr},
    {"cr_running", &get_running, nullptr, nullptr, nullptr},
    {"cr_suspended", &get_suspended, nullptr, nullptr, nullptr},
    {"in_flight", &get_in_flight, nullptr, "Whether the engine works on it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot operation_slots[] = {
    {Py_tp_doc, const_cast<char*>("A file operation, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&operation_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&operation_finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(&operation_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&operation_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&operation_repr)},
    {Py_am_await, reinterpret_cast<void*>(&operation_await)},
    {Py_am_send, reinterpret_cast<void*>(&operation_am_send)},
    {Py_tp_iter, reinterpret_cast<void*>(&operation_await)},
    {Py_tp_iternext, reinterpret_cast<void*>(&operation_next)},
    {Py_tp_methods, operation_methods},
    {Py_tp_getset, operation_attributes},
    {Py_tp_getattro, reinterpret_cast<void*>(&operation_getattro)},
    {Py_tp_setattro, reinterpret_cast<void*>(&operation_setattro)},
    {0, nullptr},
};

PyType_Spec operation_spec = {
    .name = "penstock._core.FileOperation",
    .basicsize = sizeof(FileOperationObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = operation_slots,
};

FileOperationObject* allocate(FileEngineObject* engine) noexcept {
    PyTypeObject* type = engine->state->file_operation_type;
    FileOperationObject* operation = engine->spare;
    if (operation == nullptr) {
        return PyObject_GC_New(FileOperationObject, type);
    }
    engine->spare = operation->next;
    --engine->spare_count;
    PyObject_Init(as_object(operation), type);
    return operation;
}

} // namespace

FileOperationObject* make_file_operation(FileEngineObject* engine, const FileCall& call) noexcept {
    FileOperationObject* operation = allocate(engine);
    if (operation == nullptr) {
        return nullptr;
    }
    new (&operation->request) FileRequest(&on_complete, operation);
    operation->call = &call;
    operation->engine = engine;
    Py_INCREF(engine);
    operation->previous = nullptr;
    operation->next = nullptr;
    operation->subject = nullptr;
    operation->other_subject = nullptr;
    operation->path = nullptr;
    operation->other_path = nullptr;
    operation->target = nullptr;
    operation->wakeup = nullptr;
    operation->context = nullptr;
    operation->cancel_message = nullptr;
    operation->delegate = nullptr;
    operation->settled = nullptr;
    operation->view.obj = nullptr;
    operation->extra = nullptr;
    operation->memory = nullptr;
    operation->size = 0;
    operation->done = 0;
    operation->offset = 0;
    operation->result = 0;
    operation->alignment = 1;
    operation->fd = -1;
    operation->flags = 0;
    operation->mode = 0;
    operation->other_fd = -1;
    operation->error = 0;
    operation->stage = Stage::created;
    operation->running = false;
    operation->in_flight = false;
    operation->abandoned = false;
    operation->started = false;
    operation->cancelled = false;
    operation->blocking = false;
    operation->may_block_briefly = false;
    operation->held = false;
    PyObject_GC_Track(as_object(operation));
    return operation;
}

void raise_file_error(const FileOperationObject* operation) noexcept {
    errno = operation->error;
    if (operation->error == ENOMEM && operation->subject == nullptr) {
        PyErr_NoMemory();
    } else {
        PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, operation->subject,
                                              operation->other_subject);
    }
}

void release_spare_operations(FileEngineObject* engine) noexcept {
    while (FileOperationObject* operation = engine->spare) {
        engine->spare = operation->next;
        PyObject_GC_Del(operation);
    }
    engine->spare_count = 0;
}

bool is_in_use(const FileEngineObject* engine, int fd) noexcept {
    return is_used(engine, fd);
}

bool close_unwanted(FileEngineObject* engine, int fd) noexcept {
    if (!is_used(engine, fd)) {
        ::close(fd);
        return true;
    }
    FileOperationObject* operation = make_file_operation(engine, close_call);
    if (operation == nullptr) {
        return false;
    }
    operation->fd = fd;
    operation->stage = Stage::finished;
    operation->abandoned = true;
    link_in_flight(operation);
    ask_engine(operation); // it is held
    Py_DECREF(operation);
    return true;
}

bool add_file_operation_type(PyObject* module, ModuleState* state) {
    state->file_operation_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &operation_spec, nullptr));
    return state->file_operation_type != nullptr &&
           PyModule_AddType(module, state->file_operation_type) == 0;
}

} // namespace penstock::python
