#include "awaitable/coroutine_protocol.hpp"

#include "awaitable/returned_value.hpp"
#include "core/module.hpp"

namespace penstock::python {

void raise_not_resumable(AwaitStage stage) noexcept {
    if (stage == AwaitStage::running) {
        PyErr_SetString(PyExc_ValueError, "coroutine already executing");
    } else {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
    }
}

bool may_send(PyObject* value, bool begun) noexcept {
    if (value == Py_None || begun) {
        return true;
    }
    PyErr_SetString(PyExc_TypeError, "can't send non-None value to a just-started coroutine");
    return false;
}

PyObject* iterator_step(PyObject* self, PySendResult sent, PyObject* result) noexcept {
    if (sent != PYGEN_RETURN) {
        return result;
    }
    const Ref value(result);
    if (result != Py_None) {
        // These types have no subclasses, so the search in `state_of` is not needed.
        raise_stop_iteration(static_cast<ModuleState*>(PyType_GetModuleState(Py_TYPE(self))),
                             result);
    }
    return nullptr;
}

PyObject* send_step(PySendResult sent, PyObject* result) noexcept {
    if (sent != PYGEN_RETURN) {
        return result;
    }
    const Ref value(result);
    raise_plain_stop_iteration(result);
    return nullptr;
}

void raise_thrown(PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count < 1 || count > 3) {
        PyErr_SetString(PyExc_TypeError, "throw() takes an exception");
        return;
    }
    PyObject* type = arguments[0];
    if (PyExceptionInstance_Check(type)) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(type)), type);
    } else if (PyExceptionClass_Check(type)) {
        PyErr_SetObject(type, count > 1 ? arguments[1] : nullptr);
    } else {
        PyErr_Format(PyExc_TypeError,
                     "exceptions must be classes or instances deriving from BaseException, not %s",
                     Py_TYPE(type)->tp_name);
        return;
    }
    if (count > 2 && PyTraceBack_Check(arguments[2])) {
        Ref exception = take_exception();
        PyException_SetTraceback(exception.get(), arguments[2]);
        raise_exception(std::move(exception));
    }
}

PyObject* throw_into_delegate(const ModuleState* state, PyObject* delegate,
                              PyObject* const* arguments, Py_ssize_t count) noexcept {
    const Ref alive = Ref::borrow(delegate);
    const Ref method(PyObject_GetAttr(delegate, state->name_throw));
    return method ? PyObject_Vectorcall(method.get(), arguments, static_cast<std::size_t>(count),
                                        nullptr)
                  : nullptr;
}

PyObject* close_delegate(PyObject*& delegate, AwaitStage& stage) noexcept {
    const Ref ended(std::exchange(delegate, nullptr));
    if (!ended) {
        return Py_NewRef(Py_None);
    }
    stage = AwaitStage::running;
    return PyObject_CallMethod(ended.get(), "close", nullptr);
}

void warn_never_awaited(PyObject* self, const char* name) noexcept {
    Ref exception = take_exception();
    if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited", name) != 0) {
        PyErr_WriteUnraisable(self);
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

PyObject* await_itself(PyObject* self) noexcept {
    return Py_NewRef(self);
}

} // namespace penstock::python
