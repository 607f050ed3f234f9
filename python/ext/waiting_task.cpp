#include "waiting_task.hpp"

#include "loop.hpp"

namespace penstock::python {

namespace {

PyObject* loop_itself(PyObject* self, PyObject* /*unused*/) {
    return Py_NewRef(self);
}

} // namespace

PyObject* set_wakeup(WaitingTask& task, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) noexcept {
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
    Py_XSETREF(task.context, context);
    Py_XSETREF(task.wakeup, Py_NewRef(arguments[0]));
    Py_RETURN_NONE;
}

bool note_cancel(WaitingTask& task, PyObject* arguments, PyObject* keywords) noexcept {
    static const char* names[] = {"msg", nullptr};
    PyObject* message = nullptr;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "|O:cancel", const_cast<char**>(names),
                                    &message) == 0) {
        return false;
    }
    task.cancelled = true;
    Py_XSETREF(task.cancel_message, Py_XNewRef(message));
    return true;
}

PyObject* raise_if_cancelled(ModuleState* state, WaitingTask& task) noexcept {
    if (!task.cancelled) {
        Py_RETURN_NONE;
    }
    return call_rare_path(state, "raise_cancelled", &task.cancel_message,
                          task.cancel_message != nullptr ? 1 : 0)
        .release();
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
        state->finished_future = call_rare_path(state, "finished_future", nullptr, 0).release();
        PyErr_Clear(); // without memory the awaitable does as well
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

bool step_later(ModuleState* state, WaitingTask& task, PyObject* awaitable,
                PyObject* loop) noexcept {
    Ref wakeup(std::exchange(task.wakeup, nullptr));
    Ref context(std::exchange(task.context, nullptr));
    if (!wakeup) {
        return true;
    }
    PyObject* stack[] = {loop, wakeup.get(), awaitable, context.get()};
    if (call_rare_path(state, "call_soon_on_loop", stack, 4)) {
        return true;
    }
    if (task.wakeup == nullptr) {
        task.wakeup = wakeup.release();
        task.context = context.release();
    }
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
        return PyBool_FromLong(task.blocking);
    }
    if (name == state->name_get_loop) {
        return get_loop(awaitable, nullptr);
    }
    return PyObject_GenericGetAttr(awaitable, name);
}

int set_attribute(WaitingTask& task, PyObject* awaitable, PyObject* name,
                  PyObject* value) noexcept {
    if (PyUnicode_CompareWithASCIIString(name, "_asyncio_future_blocking") == 0) {
        task.blocking = value == Py_True;
        return 0;
    }
    return PyObject_GenericSetAttr(awaitable, name, value);
}

int visit_task(const WaitingTask& task, visitproc visit, void* arg) noexcept {
    Py_VISIT(task.wakeup);
    Py_VISIT(task.context);
    Py_VISIT(task.cancel_message);
    return 0;
}

void release(WaitingTask& task) noexcept {
    Py_CLEAR(task.wakeup);
    Py_CLEAR(task.context);
    Py_CLEAR(task.cancel_message);
}

} // namespace penstock::python
