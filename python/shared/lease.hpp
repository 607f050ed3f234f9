#pragma once

#include <Python.h>

#include <utility>

#ifndef NDEBUG
#include <cstdio>
#include <cstdlib>
#endif

/// Nearly every call of the C API may run Python code: a conversion runs `__index__`, dropping an
/// object runs its `__del__`, an allocation may collect garbage. That code may close, submit or
/// resize the state that the caller has just read. So code that uses such state holds a Lease of
/// it, and holds none while it calls the interpreter. Builds without NDEBUG (all sanitizer builds)
/// abort with a message where code breaks this rule.

namespace penstock::python {

#ifndef NDEBUG

/// The innermost lease of this thread, or null.
inline thread_local const char* leased = nullptr;

inline void check_no_lease(const char* call) noexcept {
    if (leased != nullptr) {
        std::fprintf(stderr, "penstock: %s may run Python code, and %s is leased\n", call, leased);
        std::abort();
    }
}

#endif

/// A claim on state that Python code may change. Base class of the types that give access to that
/// state.
class Lease {
public:
    /// `what` names the state in the abort message; a literal.
    explicit Lease([[maybe_unused]] const char* what) noexcept {
#ifndef NDEBUG
        outer_ = std::exchange(leased, what);
        holds_ = true;
#endif
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Lease& operator=(Lease&&) = delete;

#ifndef NDEBUG
    Lease(Lease&& other) noexcept
        : outer_(other.outer_), holds_(std::exchange(other.holds_, false)) {}
    ~Lease() {
        if (holds_) {
            leased = outer_;
        }
    }

private:
    const char* outer_ = nullptr;
    bool holds_ = false;
#else
    Lease(Lease&&) noexcept = default;
    ~Lease() = default;
#endif
};

} // namespace penstock::python

// Macros: nothing else catches every call without help from the caller, and the forgotten call is
// the one that matters. A macro does not expand within itself, so each ends in the function of its
// name.
#ifndef NDEBUG
#define PENSTOCK_ENTERS_PYTHON(call) ::penstock::python::check_no_lease(#call)
#ifndef Py_REF_DEBUG
#undef Py_DECREF
#undef Py_XDECREF
#define Py_DECREF(object)                                                                          \
    (PENSTOCK_ENTERS_PYTHON(Py_DECREF), (Py_DECREF)(reinterpret_cast<PyObject*>(object)))
#define Py_XDECREF(object)                                                                         \
    (PENSTOCK_ENTERS_PYTHON(Py_XDECREF), (Py_XDECREF)(reinterpret_cast<PyObject*>(object)))
#endif
#undef PyObject_GC_New
// NOLINTBEGIN(bugprone-macro-parentheses): a type cannot stand in parentheses
#define PyObject_GC_New(type, type_object)                                                         \
    (PENSTOCK_ENTERS_PYTHON(PyObject_GC_New),                                                      \
     reinterpret_cast<type*>(_PyObject_GC_New(type_object)))
// NOLINTEND(bugprone-macro-parentheses)
#define PyArg_ParseTupleAndKeywords(...)                                                           \
    (PENSTOCK_ENTERS_PYTHON(PyArg_ParseTupleAndKeywords), PyArg_ParseTupleAndKeywords(__VA_ARGS__))
#define PyBuffer_Release(...)                                                                      \
    (PENSTOCK_ENTERS_PYTHON(PyBuffer_Release), PyBuffer_Release(__VA_ARGS__))
#define PyDict_New(...) (PENSTOCK_ENTERS_PYTHON(PyDict_New), PyDict_New(__VA_ARGS__))
#define PyDict_SetItemString(...)                                                                  \
    (PENSTOCK_ENTERS_PYTHON(PyDict_SetItemString), PyDict_SetItemString(__VA_ARGS__))
#define PyErr_CheckSignals(...)                                                                    \
    (PENSTOCK_ENTERS_PYTHON(PyErr_CheckSignals), PyErr_CheckSignals(__VA_ARGS__))
#define PyErr_Clear(...) (PENSTOCK_ENTERS_PYTHON(PyErr_Clear), PyErr_Clear(__VA_ARGS__))
#define PyErr_Format(...) (PENSTOCK_ENTERS_PYTHON(PyErr_Format), PyErr_Format(__VA_ARGS__))
#define PyErr_GivenExceptionMatches(...)                                                           \
    (PENSTOCK_ENTERS_PYTHON(PyErr_GivenExceptionMatches), PyErr_GivenExceptionMatches(__VA_ARGS__))
#define PyErr_NoMemory(...) (PENSTOCK_ENTERS_PYTHON(PyErr_NoMemory), PyErr_NoMemory(__VA_ARGS__))
#define PyErr_NormalizeException(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyErr_NormalizeException), PyErr_NormalizeException(__VA_ARGS__))
#define PyErr_ResourceWarning(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyErr_ResourceWarning), PyErr_ResourceWarning(__VA_ARGS__))
#define PyErr_SetObject(...) (PENSTOCK_ENTERS_PYTHON(PyErr_SetObject), PyErr_SetObject(__VA_ARGS__))
#define PyErr_SetRaisedException(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyErr_SetRaisedException), PyErr_SetRaisedException(__VA_ARGS__))
#define PyErr_SetString(...) (PENSTOCK_ENTERS_PYTHON(PyErr_SetString), PyErr_SetString(__VA_ARGS__))
#define PyErr_WriteUnraisable(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyErr_WriteUnraisable), PyErr_WriteUnraisable(__VA_ARGS__))
#define PyEval_RestoreThread(...)                                                                  \
    (PENSTOCK_ENTERS_PYTHON(PyEval_RestoreThread), PyEval_RestoreThread(__VA_ARGS__))
#define PyEval_SaveThread(...)                                                                     \
    (PENSTOCK_ENTERS_PYTHON(PyEval_SaveThread), PyEval_SaveThread(__VA_ARGS__))
#define PyException_SetCause(...)                                                                  \
    (PENSTOCK_ENTERS_PYTHON(PyException_SetCause), PyException_SetCause(__VA_ARGS__))
#define PyException_SetTraceback(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyException_SetTraceback), PyException_SetTraceback(__VA_ARGS__))
#define PyFloat_AsDouble(...)                                                                      \
    (PENSTOCK_ENTERS_PYTHON(PyFloat_AsDouble), PyFloat_AsDouble(__VA_ARGS__))
#define PyImport_ImportModule(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyImport_ImportModule), PyImport_ImportModule(__VA_ARGS__))
#define PyList_GetSlice(...) (PENSTOCK_ENTERS_PYTHON(PyList_GetSlice), PyList_GetSlice(__VA_ARGS__))
#define PyList_New(...) (PENSTOCK_ENTERS_PYTHON(PyList_New), PyList_New(__VA_ARGS__))
#define PyLong_AsLong(...) (PENSTOCK_ENTERS_PYTHON(PyLong_AsLong), PyLong_AsLong(__VA_ARGS__))
#define PyLong_AsLongAndOverflow(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyLong_AsLongAndOverflow), PyLong_AsLongAndOverflow(__VA_ARGS__))
#define PyLong_AsLongLong(...)                                                                     \
    (PENSTOCK_ENTERS_PYTHON(PyLong_AsLongLong), PyLong_AsLongLong(__VA_ARGS__))
#define PyLong_AsSsize_t(...)                                                                      \
    (PENSTOCK_ENTERS_PYTHON(PyLong_AsSsize_t), PyLong_AsSsize_t(__VA_ARGS__))
#define PyLong_AsUnsignedLong(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyLong_AsUnsignedLong), PyLong_AsUnsignedLong(__VA_ARGS__))
#define PyModule_AddType(...)                                                                      \
    (PENSTOCK_ENTERS_PYTHON(PyModule_AddType), PyModule_AddType(__VA_ARGS__))
#define PyObject_AsFileDescriptor(...)                                                             \
    (PENSTOCK_ENTERS_PYTHON(PyObject_AsFileDescriptor), PyObject_AsFileDescriptor(__VA_ARGS__))
#define PyObject_CallNoArgs(...)                                                                   \
    (PENSTOCK_ENTERS_PYTHON(PyObject_CallNoArgs), PyObject_CallNoArgs(__VA_ARGS__))
#define PyObject_CallFinalizerFromDealloc(...)                                                     \
    (PENSTOCK_ENTERS_PYTHON(PyObject_CallFinalizerFromDealloc),                                    \
     PyObject_CallFinalizerFromDealloc(__VA_ARGS__))
#define PyObject_CallFunction(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyObject_CallFunction), PyObject_CallFunction(__VA_ARGS__))
#define PyObject_GetAttrString(...)                                                                \
    (PENSTOCK_ENTERS_PYTHON(PyObject_GetAttrString), PyObject_GetAttrString(__VA_ARGS__))
#define PyObject_GetBuffer(...)                                                                    \
    (PENSTOCK_ENTERS_PYTHON(PyObject_GetBuffer), PyObject_GetBuffer(__VA_ARGS__))
#define PyObject_Hash(...) (PENSTOCK_ENTERS_PYTHON(PyObject_Hash), PyObject_Hash(__VA_ARGS__))
#define PyObject_IsTrue(...) (PENSTOCK_ENTERS_PYTHON(PyObject_IsTrue), PyObject_IsTrue(__VA_ARGS__))
#define PyObject_RichCompareBool(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyObject_RichCompareBool), PyObject_RichCompareBool(__VA_ARGS__))
#define PyObject_Vectorcall(...)                                                                   \
    (PENSTOCK_ENTERS_PYTHON(PyObject_Vectorcall), PyObject_Vectorcall(__VA_ARGS__))
#define PySequence_Fast(...) (PENSTOCK_ENTERS_PYTHON(PySequence_Fast), PySequence_Fast(__VA_ARGS__))
#define PySequence_Tuple(...)                                                                      \
    (PENSTOCK_ENTERS_PYTHON(PySequence_Tuple), PySequence_Tuple(__VA_ARGS__))
#define PyStructSequence_New(...)                                                                  \
    (PENSTOCK_ENTERS_PYTHON(PyStructSequence_New), PyStructSequence_New(__VA_ARGS__))
#define PyStructSequence_NewType(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyStructSequence_NewType), PyStructSequence_NewType(__VA_ARGS__))
#define PyTuple_New(...) (PENSTOCK_ENTERS_PYTHON(PyTuple_New), PyTuple_New(__VA_ARGS__))
#define PyType_FromModuleAndSpec(...)                                                              \
    (PENSTOCK_ENTERS_PYTHON(PyType_FromModuleAndSpec), PyType_FromModuleAndSpec(__VA_ARGS__))
#define PyUnicode_FSConverter(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyUnicode_FSConverter), PyUnicode_FSConverter(__VA_ARGS__))
#define PyUnicode_FromFormat(...)                                                                  \
    (PENSTOCK_ENTERS_PYTHON(PyUnicode_FromFormat), PyUnicode_FromFormat(__VA_ARGS__))
#define PyUnicode_FromFormatV(...)                                                                 \
    (PENSTOCK_ENTERS_PYTHON(PyUnicode_FromFormatV), PyUnicode_FromFormatV(__VA_ARGS__))
#define Py_BuildValue(...) (PENSTOCK_ENTERS_PYTHON(Py_BuildValue), Py_BuildValue(__VA_ARGS__))
#endif
