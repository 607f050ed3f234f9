#pragma once

#include "shared/lease.hpp"

#include <Python.h>

#include <utility>

namespace penstock::python {

/// An owned reference to a Python object, or null. Must be destroyed with the GIL held.
class Ref {
public:
    Ref() noexcept = default;

    /// Takes over a new reference, as the C API returns it.
    explicit Ref(PyObject* owned) noexcept : object_(owned) {}

    static Ref borrow(PyObject* object) noexcept { return Ref(Py_XNewRef(object)); }

    Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    Ref& operator=(Ref&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    Ref(const Ref&) = delete;
    Ref& operator=(const Ref&) = delete;
    ~Ref() { Py_XDECREF(object_); }

    [[nodiscard]] PyObject* get() const noexcept { return object_; }
    [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }

private:
    PyObject* object_ = nullptr;
};

/// Takes the raised exception from the thread state. Null when there is none.
inline Ref take_exception() noexcept {
#if PY_VERSION_HEX >= 0x030C0000
    return Ref(PyErr_GetRaisedException());
#else
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    if (type == nullptr) {
        return Ref();
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != nullptr) {
        PyException_SetTraceback(value, traceback);
        Py_DECREF(traceback);
    }
    Py_DECREF(type);
    return Ref(value);
#endif
}

/// Raises again an exception that `take_exception` has returned.
inline void raise_exception(Ref exception) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception.release());
#else
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
#endif
}

/// Makes an exception of an object that a program has passed as one: an instance is itself, a class
/// is called without arguments. Null with TypeError set for anything else, as `raise` would.
inline Ref exception_of(PyObject* given) noexcept {
    Ref exception(PyExceptionClass_Check(given) ? PyObject_CallNoArgs(given) : Py_NewRef(given));
    if (exception && !PyExceptionInstance_Check(exception.get())) {
        PyErr_Format(PyExc_TypeError, "exceptions must derive from BaseException, not %s",
                     Py_TYPE(exception.get())->tp_name);
        return Ref();
    }
    return exception;
}

/// Raises an object that a program has passed as an exception, as `raise` in a coroutine does: the
/// exception that is being handled becomes its `__context__`; its cause and traceback stay.
/// StopIteration, which would look like a coroutine's return, becomes the cause of a RuntimeError.
///
/// The only way to raise what a program has passed: PyErr_SetRaisedException, and with it
/// `raise_exception`, trusts its argument. An object that is not an exception ends the process.
inline void raise_given(PyObject* given) noexcept {
    const Ref exception = exception_of(given);
    if (!exception) {
        return;
    }
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration) == 0) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
        return;
    }
    PyErr_SetString(PyExc_RuntimeError, "coroutine raised StopIteration");
    Ref error = take_exception();
    PyException_SetCause(error.get(), Py_NewRef(exception.get()));
    raise_exception(std::move(error));
}

/// Whether the raised exception ends the program; a loop reports others and continues.
inline bool exception_ends_program() noexcept {
    return PyErr_ExceptionMatches(PyExc_SystemExit) != 0 ||
           PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0;
}

template <typename T> PyObject* as_object(T* typed) noexcept {
    return reinterpret_cast<PyObject*>(typed);
}

/// Casts a function of any signature that the flags of a PyMethodDef allow, for its table.
template <typename Function> PyCFunction as_function(Function function) noexcept {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(function));
}

} // namespace penstock::python
