// What tasks do with file operations: a coroutine's methods, and those of the future that a task sees.

#include "file_coroutine.hpp"

#include "coroutine_protocol.hpp"
#include "file_calls.hpp"
#include "file_flight.hpp"
#include "file_turn.hpp"

namespace penstock::python {

namespace {

using Stage = FileOperationObject::Stage;

FileOperationObject* self_of(PyObject* object) noexcept {
    return FileOperationObject::of(object);
}

bool may_resume_operation(const FileOperationObject* operation) noexcept {
    return may_resume(operation->running, operation->stage == Stage::finished);
}

PySendResult return_value(FileOperationObject* operation, PyObject** result) noexcept {
    Ref value;
    operation->value_taken = true;
    operation->running =
        true; // making an object may collect garbage, whose finalizers may close it
    if (operation->error != 0) {
        raise_file_error(operation);
    } else {
        value = operation->call->value != nullptr ? Ref(operation->call->value(operation))
                                                  : Ref::borrow(Py_None);
    }
    operation->running = false;
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
    hand_to_engine(operation);
    return true;
}

/// On trio: makes the coroutine that waits instead of it.
bool delegate_to(FileOperationObject* operation, PyObject* maker, bool itself) noexcept {
    operation->running = true;
    PyObject* coroutine =
        itself ? PyObject_CallOneArg(maker, as_object(operation)) : PyObject_CallNoArgs(maker);
    operation->running = false;
    operation->delegate = coroutine;
    return coroutine != nullptr;
}

/// Where a task stands that sends to it: goes on from there until it must wait or is done.
PySendResult resume(FileOperationObject* operation, PyObject* value, PyObject** result) noexcept {
    if (!may_resume_operation(operation)) {
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
            if (operation->call == &give_way_call ||
                (operation->call->attempt != nullptr && turn_is_over(engine))) {
                give_way(engine);
                operation->stage = Stage::paused;
                *result = Py_NewRef(Py_None);
                return PYGEN_NEXT;
            }
            if (!begin(operation)) {
                return fail(operation, result);
            }
            break;
        case Stage::paused:
            if (!on_trio) {
                begin_turn(engine);
                operation->stage = Stage::created; // not counted twice, however it goes on
            }
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
            operation->task.blocking = true;
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

// ---- the coroutine ---------------------------------------------------------------------------------

PyObject* operation_send(PyObject* self, PyObject* value) {
    if (!may_send(value, self_of(self)->stage != Stage::created)) {
        return nullptr;
    }
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), value, &result);
    return send_step(sent, result);
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
        return send_step(sent, result);
    }
    finish(operation);
    return nullptr;
}

PyObject* operation_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    FileOperationObject* operation = self_of(self);
    if (!may_resume_operation(operation)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    if (operation->delegate != nullptr) {
        return throw_into_delegate(operation, arguments, count);
    }
    finish(operation);
    raise_thrown(arguments, count);
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

PyObject* operation_start(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = self_of(self);
    if (!may_resume_operation(operation)) {
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
    return set_wakeup(self_of(self)->task, arguments, count, keywords);
}

PyObject* operation_remove_done_callback(PyObject* self, PyObject* /*callback*/) {
    WaitingTask& task = self_of(self)->task;
    const bool removed = task.wakeup != nullptr;
    Py_CLEAR(task.wakeup);
    Py_CLEAR(task.context);
    return PyLong_FromLong(removed ? 1 : 0);
}

PyObject* operation_result(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = self_of(self);
    return raise_if_cancelled(operation->engine->state, operation->task);
}

/// The task is woken in the next iteration; what the engine does meanwhile changes nothing.
PyObject* operation_cancel(PyObject* self, PyObject* arguments, PyObject* keywords) {
    FileOperationObject* operation = self_of(self);
    FileEngineObject* engine = operation->engine;
    if (operation->stage != Stage::waiting || operation->task.cancelled ||
        engine->loop == nullptr) { // trio cancels the coroutine that waits
        Py_RETURN_FALSE;
    }
    if (!note_cancel(operation->task, arguments, keywords) ||
        !step_later(engine->state, operation->task, self, engine->loop)) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject* operation_done(PyObject* self, PyObject* /*unused*/) {
    const FileOperationObject* operation = self_of(self);
    return PyBool_FromLong(operation->stage != Stage::waiting || operation->task.cancelled);
}

} // namespace

PySendResult send_to_file_operation(PyObject* self, PyObject* value, PyObject** result) noexcept {
    return resume(self_of(self), value, result);
}

PyObject* next_of_file_operation(PyObject* self) noexcept {
    PyObject* result = nullptr;
    const PySendResult sent = resume(self_of(self), Py_None, &result);
    return iterator_step(self, sent, result);
}

PyObject* loop_getter_of_file_operation(PyObject* self, void* /*closure*/) noexcept {
    const FileEngineObject* engine = self_of(self)->engine;
    return loop_getter(engine->state, engine->loop != nullptr ? engine->loop : Py_None);
}

PyObject* file_operation_attribute(PyObject* self, PyObject* name) noexcept {
    const FileOperationObject* operation = self_of(self);
    return get_attribute(operation->engine->state, operation->task, self, name,
                         &loop_getter_of_file_operation);
}

int set_file_operation_attribute(PyObject* self, PyObject* name, PyObject* value) noexcept {
    return set_attribute(self_of(self)->task, self, name, value);
}

PyMethodDef file_operation_methods[] = {
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
    {nullptr, nullptr, 0, nullptr},
};

} // namespace penstock::python
