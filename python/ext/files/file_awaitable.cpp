// The task's side of a file operation: awaiting, cancelling and closing it.

#include "files/file_calls.hpp"
#include "files/file_operation.hpp"
#include "files/file_submission.hpp"
#include "files/file_time_slice.hpp"

#include <cerrno>

namespace penstock::python {

namespace {

using Progress = FileOperationObject::Progress;

PySendResult take_value(FileOperationObject* operation, PyObject** result) noexcept {
    operation->value_taken = true;
    if (operation->error != 0) {
        raise_file_error(operation);
        return PYGEN_ERROR;
    }
    *result =
        operation->call->value != nullptr ? operation->call->value(operation) : Py_NewRef(Py_None);
    return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

/// Performs the operation at once or submits it: it is then complete or waiting. False with an
/// exception set.
bool begin(FileOperationObject* operation) noexcept {
    FileEngineObject* engine = operation->engine;
    if (!check_open(engine)) {
        return false;
    }
    if (operation->end_requested) {
        operation->error = ECANCELED;
        operation->progress = Progress::complete;
        return true;
    }
    if (operation->call->attempt != nullptr) {
        const Attempt attempt = operation->call->attempt(operation);
        if (attempt == Attempt::done) {
            operation->progress = Progress::complete;
            return true;
        }
        if (attempt == Attempt::failed || !check_open(engine)) {
            return false;
        }
    }
    submit(operation);
    return true;
}

/// `begin`, and the closes that have waited for it.
bool begin_after_yield(FileOperationObject* operation) noexcept {
    const bool held = stop_holding(operation);
    const bool begun = begin(operation);
    if (held) {
        start_deferred_closes_in_task(operation->engine);
    }
    return begun;
}

/// On trio: makes the coroutine that waits instead of the operation.
bool delegate_to(FileOperationObject* operation, PyObject* maker, bool itself) noexcept {
    operation->delegate =
        itself ? PyObject_CallOneArg(maker, as_object(operation)) : PyObject_CallNoArgs(maker);
    return operation->delegate != nullptr;
}

PyObject* start(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = FileOperationObject::of(self);
    if (!may_resume(operation->stage)) {
        return nullptr;
    }
    operation->started = true;
    if (operation->progress == Progress::not_begun) {
        operation->stage = AwaitStage::running;
        if (!begin(operation)) {
            FileOperationObject::finish(operation);
            return nullptr;
        }
        operation->stage = AwaitStage::suspended;
    }
    return Py_NewRef(self);
}

PyObject* request_end(PyObject* self, PyObject* /*unused*/) {
    FileOperationObject* operation = FileOperationObject::of(self);
    if (operation->in_flight && operation->engine->io != nullptr) {
        if (may_never_end(operation)) {
            request_cancel(operation);
        } else {
            operation->engine->io->withdraw(operation->request);
        }
    } else if (operation->progress == Progress::not_begun ||
               operation->progress == Progress::yielded) {
        operation->end_requested = true; // it has yielded to other tasks first
    }
    Py_RETURN_NONE;
}

PyObject* when_released(PyObject* self, PyObject* callback) {
    FileOperationObject* operation = FileOperationObject::of(self);
    Py_XSETREF(operation->release_callback, Py_NewRef(callback));
    if (!operation->in_flight) {
        call_release_callback(operation);
        if (operation->stage == AwaitStage::finished) {
            release_buffers(operation);
        }
    }
    Py_RETURN_NONE;
}

} // namespace

PySendResult FileOperationObject::advance(bool /*first*/, PyObject* value,
                                          PyObject** result) noexcept {
    const bool on_trio = engine->loop == nullptr;
    for (;;) {
        if (delegate != nullptr) {
            const PySendResult sent = PyIter_Send(delegate, value, result);
            if (sent == PYGEN_NEXT) {
                return PYGEN_NEXT;
            }
            Py_CLEAR(delegate);
            if (sent == PYGEN_ERROR) {
                return PYGEN_ERROR;
            }
            Py_CLEAR(*result);
            value = Py_None;
        }
        switch (progress) {
        case Progress::not_begun:
            if (on_trio) {
                // On trio every await is a checkpoint.
                if (!check_open(engine) || !delegate_to(this, engine->checkpoint, false)) {
                    return PYGEN_ERROR;
                }
                progress = Progress::yielded;
                hold_descriptor(this);
                break;
            }
            if (call == &yield_call || (call->attempt != nullptr && should_yield(engine))) {
                yield_now(engine);
                progress = Progress::yielded;
                hold_descriptor(this);
                *result = Py_NewRef(Py_None);
                return PYGEN_NEXT;
            }
            if (!begin(this)) {
                return PYGEN_ERROR;
            }
            break;
        case Progress::yielded:
            if (!on_trio) {
                begin_time_slice(engine);
                progress = Progress::not_begun; // so that a failure is not counted twice
            }
            if (!begin_after_yield(this)) {
                return PYGEN_ERROR;
            }
            break;
        case Progress::waiting:
            if (on_trio) {
                if (!delegate_to(this, engine->wait, true)) {
                    return PYGEN_ERROR;
                }
                break;
            }
            task.blocking = true;
            *result = Py_NewRef(as_object(this));
            return PYGEN_NEXT;
        case Progress::complete:
            return take_value(this, result);
        case Progress::ended:
            PyErr_SetString(PyExc_RuntimeError, "the operation has ended");
            return PYGEN_ERROR;
        }
    }
}

/// On trio an exception is thrown into the coroutine that waits, which may raise another one.
PyObject* FileOperationObject::throw_into(PyObject* self, PyObject* const* arguments,
                                          Py_ssize_t count) noexcept {
    FileOperationObject* operation = of(self);
    if (operation->delegate == nullptr) {
        return NativeAwaitable::throw_into(self, arguments, count);
    }
    if (!may_resume(operation->stage)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    operation->stage = AwaitStage::running;
    PyObject* yielded =
        throw_into_delegate(state_of(Py_TYPE(self)), operation->delegate, arguments, count);
    operation->stage = AwaitStage::suspended;
    if (yielded != nullptr) {
        return yielded;
    }
    Py_CLEAR(operation->delegate);
    if (PyErr_ExceptionMatches(PyExc_StopIteration) != 0) {
        PyErr_Clear();
        return send(self, Py_None);
    }
    finish(operation);
    return nullptr;
}

PyObject* FileOperationObject::close(PyObject* self, PyObject* /*unused*/) noexcept {
    FileOperationObject* operation = of(self);
    if (!may_close(operation->stage)) {
        return nullptr;
    }
    const Ref alive = Ref::borrow(self);
    const Ref waiting(std::exchange(operation->delegate, nullptr));
    end_early(operation);
    if (operation->in_flight) {
        request_cancel(operation);
    }
    if (waiting) {
        return PyObject_CallMethod(waiting.get(), "close", nullptr);
    }
    Py_RETURN_NONE;
}

/// The task is stepped in the next iteration, even if the request completes before that.
PyObject* FileOperationObject::cancel(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                      PyObject* keywords) noexcept {
    if (of(self)->engine->loop == nullptr) {
        Py_RETURN_FALSE; // trio cancels the coroutine that waits
    }
    return NativeAwaitable::cancel(self, arguments, count, keywords);
}

bool FileOperationObject::wake_soon() noexcept {
    return engine->loop != nullptr ? step_later(engine->state, task, as_object(this), engine->loop)
                                   : step(engine->state, task, as_object(this));
}

std::array<PyMethodDef, 3> FileOperationObject::own_methods() noexcept {
    return {
        PyMethodDef{"start", &start, METH_NOARGS,
                    "Begin now, and continue if the await is cancelled. Returns the operation, to "
                    "be awaited."},
        PyMethodDef{
            "request_end", &request_end, METH_NOARGS,
            "Cancel the work if it has not begun, is queued or may never end; the await then "
            "raises OSError with ECANCELED."},
        PyMethodDef{"when_released", &when_released, METH_O,
                    "Call a callback once the engine has released the operation; at once if it "
                    "has."},
    };
}

} // namespace penstock::python
