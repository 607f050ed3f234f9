#include "awaitable/waiting_task.hpp"

#include "core/loop.hpp"

namespace penstock::python {

namespace {

PyObject* loop_itself(PyObject* self, PyObject* /*unused*/) {
    return Py_NewRef(self);
}

/// Whether an attribute's name, which is another object than `interned`, is equal to it: the name
/// may have been built at run time.
bool equals(PyObject* name, PyObject* interned) noexcept {
    return PyUnicode_CHECK_INTERNED(name) == 0 && PyUnicode_Compare(name, interned) == 0;
}

/// Puts the task's callback back after it could not be called or scheduled.
void restore(WaitingTask& task, Ref wakeup, Ref context) noexcept {
    if (task.wakeup == nullptr) {
        task.wakeup = wakeup.release();
        task.context = context.release();
    }
}

/// Moves the task's callback into a handle. Null with an exception set; the task then keeps it.
HandleObject* handle_of_step(LoopObject* loop, WaitingTask& task, PyObject* argument) noexcept {
    Ref wakeup(std::exchange(task.wakeup, nullptr));
    Ref context(std::exchange(task.context, nullptr));
    HandleObject* handle =
        make_handle(loop, loop->state->handle_type, wakeup.get(), &argument, 1, context.get());
    if (handle == nullptr) {
        restore(task, std::move(wakeup), std::move(context));
    }
    return handle;
}

} // namespace

bool set_wakeup(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                PyObject* keywords) noexcept {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count != 1 || named > 1) { // not compared: the only keyword of a task is not interned
        PyErr_SetString(PyExc_TypeError, "add_done_callback() takes a callback and a context");
        return false;
    }
    if (task.wakeup != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "another task already waits for this operation");
        return false;
    }
    const bool given = named == 1 && arguments[1] != Py_None;
    if (given && !PyContext_CheckExact(arguments[1])) {
        PyErr_Format(PyExc_TypeError, "context must be a contextvars.Context, not %R",
                     arguments[1]);
        return false;
    }
    PyObject* context = given ? Py_NewRef(arguments[1]) : PyContext_CopyCurrent();
    if (context == nullptr) {
        return false;
    }
    Py_XSETREF(task.context, context);
    Py_XSETREF(task.wakeup, Py_NewRef(arguments[0]));
    return true;
}

int remove_wakeup(WaitingTask& task, PyObject* callback) noexcept {
    const Ref own = Ref::borrow(task.wakeup);
    if (!own) {
        return 0;
    }
    const int same = PyObject_RichCompareBool(own.get(), callback, Py_EQ);
    if (same <= 0 || task.wakeup != own.get()) { // comparing may have ended the wait
        return same < 0 ? -1 : 0;
    }
    Py_CLEAR(task.wakeup);
    Py_CLEAR(task.context);
    return 1;
}

bool note_cancel(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                 PyObject* keywords) noexcept {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named > 1 || (named == 1 && PyUnicode_CompareWithASCIIString(
                                                PyTuple_GET_ITEM(keywords, 0), "msg") != 0)) {
        PyErr_SetString(PyExc_TypeError, "cancel() takes at most one argument, msg");
        return false;
    }
    task.cancelled = true;
    Py_XSETREF(task.cancel_message, count + named == 1 ? Py_NewRef(arguments[0]) : nullptr);
    return true;
}

bool raise_if_cancelled(const ModuleState* state, const WaitingTask& task) noexcept {
    if (!task.cancelled) {
        return true;
    }
    if (task.cancel_message == nullptr || task.cancel_message == Py_None) {
        PyErr_SetNone(state->cancelled_error_type);
        return false;
    }
    const Ref error(PyObject_CallOneArg(state->cancelled_error_type, task.cancel_message));
    if (error) {
        PyErr_SetObject(state->cancelled_error_type, error.get());
    }
    return false;
}

PyObject* argument_of_wakeup(ModuleState* state, PyObject* wakeup, PyObject* awaitable) noexcept {
    if (!PyCFunction_Check(wakeup)) {
        return awaitable;
    }
    PyObject* bound_to = PyCFunction_GET_SELF(wakeup);
    if (bound_to == nullptr ||
        PyObject_TypeCheck(bound_to, reinterpret_cast<PyTypeObject*>(state->task_type)) == 0) {
        return awaitable;
    }
    if (state->finished_future == nullptr) {
        state->finished_future = upcall(state, "finished_future", nullptr, 0).release();
        PyErr_Clear(); // no memory: the awaitable itself also works
    }
    return state->finished_future != nullptr ? state->finished_future : awaitable;
}

bool step(ModuleState* state, WaitingTask& task, PyObject* awaitable) noexcept {
    const Ref wakeup(std::exchange(task.wakeup, nullptr));
    const Ref context(std::exchange(task.context, nullptr));
    if (!wakeup) {
        return true;
    }
    PyObject* argument =
        task.cancelled ? awaitable : argument_of_wakeup(state, wakeup.get(), awaitable);
    if (PyContext_Enter(context.get()) != 0) {
        return false;
    }
    const Ref result(PyObject_CallOneArg(wakeup.get(), argument));
    Ref exception = result ? Ref() : take_exception();
    PyContext_Exit(context.get());
    if (exception) {
        raise_exception(std::move(exception));
        return false;
    }
    return true;
}

void step_as_callback(LoopObject* loop, WaitingTask& task, PyObject* awaitable) noexcept {
    if (loop->debug && task.wakeup != nullptr) {
        PyObject* argument =
            task.cancelled ? awaitable : argument_of_wakeup(loop->state, task.wakeup, awaitable);
        if (HandleObject* handle = handle_of_step(loop, task, argument)) {
            invoke(handle);
            release_from_loop(handle);
            return;
        }
        PyErr_Clear(); // no memory: the step has no name
    }
    if (!step(loop->state, task, awaitable)) {
        report_raised(loop, "Exception in a resumed task", nullptr, nullptr);
    }
}

bool schedule_step(LoopObject* loop, WaitingTask& task, PyObject* awaitable) noexcept {
    if (task.wakeup == nullptr) {
        return true;
    }
    HandleObject* handle = handle_of_step(loop, task, awaitable);
    if (handle != nullptr) {
        schedule(loop, handle);
    }
    return handle != nullptr;
}

bool step_later(ModuleState* state, WaitingTask& task, PyObject* awaitable,
                PyObject* loop) noexcept {
    Ref wakeup(std::exchange(task.wakeup, nullptr));
    Ref context(std::exchange(task.context, nullptr));
    if (!wakeup) {
        return true;
    }
    PyObject* stack[] = {loop, wakeup.get(), awaitable, context.get()};
    if (upcall(state, "call_soon_on_loop", stack, 4)) {
        return true;
    }
    restore(task, std::move(wakeup), std::move(context));
    return false;
}

PyObject* loop_getter(ModuleState* state, PyObject* loop) noexcept {
    static PyMethodDef definition = {"get_loop", &loop_itself, METH_NOARGS, "The loop."};
    auto* own = PyObject_TypeCheck(loop, state->loop_type) != 0
                    ? reinterpret_cast<LoopObject*>(loop)
                    : nullptr;
    if (own == nullptr || own->closed) {
        return PyCFunction_New(&definition, loop);
    }
    if (own->getter == nullptr) {
        own->getter = PyCFunction_New(&definition, loop);
    }
    return Py_XNewRef(own->getter);
}

PyObject* get_attribute(const ModuleState* state, const WaitingTask& task, PyObject* awaitable,
                        PyObject* name, getter get_loop) noexcept {
    if (name == state->name_future_blocking) {
        return PyBool_FromLong(task.blocking ? 1 : 0);
    }
    if (name == state->name_get_loop) {
        return get_loop(awaitable, nullptr);
    }
    // A `get_loop` that is not interned is found in the type.
    return equals(name, state->name_future_blocking) ? PyBool_FromLong(task.blocking ? 1 : 0)
                                                     : PyObject_GenericGetAttr(awaitable, name);
}

int set_attribute(const ModuleState* state, WaitingTask& task, PyObject* awaitable, PyObject* name,
                  PyObject* value) noexcept {
    return name == state->name_future_blocking || equals(name, state->name_future_blocking)
               ? set_blocking_mark(task, value)
               : PyObject_GenericSetAttr(awaitable, name, value);
}

int set_blocking_mark(WaitingTask& task, PyObject* value) noexcept {
    const int truth = value != nullptr ? PyObject_IsTrue(value) : 0;
    if (truth < 0) {
        return -1;
    }
    task.blocking = truth != 0;
    return 0;
}

} // namespace penstock::python
