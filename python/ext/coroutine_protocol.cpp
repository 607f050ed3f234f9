#include "coroutine_protocol.hpp"

namespace penstock::python {

void raise_stop(PyObject* value) noexcept {
    if (value == Py_None) {
        return; // the interpreter takes a plain end for it
    }
    // Given a tuple, PyErr_SetObject would take it for StopIteration's arguments.
    if (PyTuple_Check(value)) {
        const Ref stop(PyObject_CallOneArg(PyExc_StopIteration, value));
        if (stop) {
            PyErr_SetObject(PyExc_StopIteration, stop.get());
        }
        return;
    }
    PyErr_SetObject(PyExc_StopIteration, value);
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

} // namespace penstock::python
