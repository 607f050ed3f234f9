// Methods of the loop for callbacks, timers, futures and tasks.

#include "core/scheduling.hpp"

#include "core/loop.hpp"
#include "core/loop_clock.hpp"
#include "core/named_arguments.hpp"

#include <new>

namespace penstock::python {

namespace {

LoopObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<LoopObject*>(object);
}

bool debug_checks(LoopObject* loop, PyObject* callback, const char* method,
                  bool any_thread) noexcept {
    if (!loop->debug) {
        return true;
    }
    PyObject* self = as_object(loop);
    if (!any_thread && !Ref(PyObject_CallMethod(self, "_check_thread", nullptr))) {
        return false;
    }
    return static_cast<bool>(
        Ref(PyObject_CallMethod(self, "_check_callback", "Os", callback, method)));
}

/// Finds the only keyword argument of the scheduling methods. False with TypeError set for any
/// other.
bool parse_context(const char* method, PyObject* const* arguments, Py_ssize_t count,
                   PyObject* keywords, PyObject*& context) noexcept {
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < keyword_count; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        if (PyUnicode_CompareWithASCIIString(name, "context") != 0) {
            PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", method,
                         name);
            return false;
        }
        context = arguments[count + i];
    }
    return true;
}

[[gnu::hot]] PyObject* schedule_at(LoopObject* loop, double when, PyObject* callback,
                                   PyObject* const* arguments, Py_ssize_t count,
                                   PyObject* context) noexcept {
    HandleObject* handle =
        make_handle(loop, loop->state->timer_handle_type, callback, arguments, count, context);
    if (handle == nullptr) {
        return nullptr;
    }
    handle->when = when;
    if (loop->io == nullptr) {
        return as_object(handle); // a finalizer has just closed the loop
    }
    try {
        loop->io->timers().add(handle->timer, deadline_of(when));
    } catch (const std::bad_alloc&) {
        Py_DECREF(handle);
        return PyErr_NoMemory();
    }
    return Py_NewRef(as_object(handle));
}

/// Looks a class up in asyncio's module: the original, unless a program has replaced it there.
/// Borrowed.
PyObject* class_in_place(PyObject* names, PyObject* name, PyObject* original) noexcept {
    PyObject* found = PyDict_GetItemWithError(names, name);
    if (found == nullptr) {
        PyErr_Clear();
        return original;
    }
    return found;
}

/// Calls BaseEventLoop.create_task, which handles the arguments and task factories of each Python
/// version.
PyObject* create_task_by_base(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                              PyObject* keywords) {
    const Ref asyncio(PyImport_ImportModule("asyncio"));
    if (!asyncio) {
        return nullptr;
    }
    const Ref base(PyObject_GetAttrString(asyncio.get(), "BaseEventLoop"));
    if (!base) {
        return nullptr;
    }
    const Ref method(PyObject_GetAttrString(base.get(), "create_task"));
    if (!method) {
        return nullptr;
    }
    const Ref bound(PyMethod_New(method.get(), self));
    if (!bound) {
        return nullptr;
    }
    return PyObject_Vectorcall(bound.get(), arguments, static_cast<std::size_t>(count), keywords);
}

} // namespace

PyObject* call_soon(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords) {
    LoopObject* loop = self_of(self);
    PyObject* context = nullptr;
    if (count < 1) {
        return normalize_keywords({"call_soon", "callback"}, &call_soon, self, arguments, count,
                                  keywords);
    }
    if (!check_open(loop) || !parse_context("call_soon", arguments, count, keywords, context) ||
        !debug_checks(loop, arguments[0], "call_soon", false)) {
        return nullptr;
    }
    if (loop->first_step_context != nullptr && context == loop->first_step_context &&
        loop->first_step == nullptr && count == 1) [[unlikely]] {
        loop->first_step = Py_NewRef(arguments[0]);
        Py_RETURN_NONE; // Task does not use the handle
    }
    HandleObject* handle = make_handle(loop, loop->state->handle_type, arguments[0], arguments + 1,
                                       count - 1, context);
    if (handle != nullptr) {
        schedule(loop, reinterpret_cast<HandleObject*>(Py_NewRef(as_object(handle))));
    }
    return as_object(handle);
}

PyObject* call_soon_threadsafe(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                               PyObject* keywords) {
    LoopObject* loop = self_of(self);
    PyObject* context = nullptr;
    if (count < 1) {
        return normalize_keywords({"call_soon_threadsafe", "callback"}, &call_soon_threadsafe, self,
                                  arguments, count, keywords);
    }
    if (!check_open(loop) ||
        !parse_context("call_soon_threadsafe", arguments, count, keywords, context) ||
        !debug_checks(loop, arguments[0], "call_soon_threadsafe", true)) {
        return nullptr;
    }
    const ModuleState* state = loop->state;
    PyTypeObject* type = state->thread_safe_handle_type != nullptr ? state->thread_safe_handle_type
                                                                   : state->handle_type;
    HandleObject* handle = make_handle(loop, type, arguments[0], arguments + 1, count - 1, context);
    if (handle == nullptr) {
        return nullptr;
    }
    Py_INCREF(handle);
    // The GIL guards the ready queue, so posts of all threads and call_soon have one common order.
    // A free-threaded build enables the GIL for this module: see its slots.
    schedule(loop, handle);
    if (PyThread_get_thread_ident() != loop->owner_thread && loop->io != nullptr) {
        loop->io->wakeup().notify();
    }
    return as_object(handle);
}

PyObject* call_at(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords) {
    LoopObject* loop = self_of(self);
    PyObject* context = nullptr;
    if (count < 2) {
        return normalize_keywords({"call_at", "when", "callback"}, &call_at, self, arguments, count,
                                  keywords);
    }
    if (arguments[0] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "when cannot be None");
        return nullptr;
    }
    const double when = PyFloat_AsDouble(arguments[0]);
    if ((when == -1.0 && PyErr_Occurred() != nullptr) || !check_open(loop) ||
        !parse_context("call_at", arguments, count, keywords, context) ||
        !debug_checks(loop, arguments[1], "call_at", false)) {
        return nullptr;
    }
    return schedule_at(loop, when, arguments[1], arguments + 2, count - 2, context);
}

PyObject* call_later(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) {
    LoopObject* loop = self_of(self);
    PyObject* context = nullptr;
    if (count < 2) {
        return normalize_keywords({"call_later", "delay", "callback"}, &call_later, self, arguments,
                                  count, keywords);
    }
    if (arguments[0] == Py_None) {
        PyErr_SetString(PyExc_TypeError, "delay must not be None");
        return nullptr;
    }
    const double delay = PyFloat_AsDouble(arguments[0]);
    if ((delay == -1.0 && PyErr_Occurred() != nullptr) || !check_open(loop) ||
        !parse_context("call_later", arguments, count, keywords, context) ||
        !debug_checks(loop, arguments[1], "call_at", false)) {
        return nullptr;
    }
    double now = 0;
    if (!loop->clock_overridden) {
        now = native_time();
    } else if (!read_time(loop, now) || !check_open(loop)) {
        return nullptr;
    }
    return schedule_at(loop, now + delay, arguments[1], arguments + 2, count - 2, context);
}

PyObject* loop_time(PyObject* /*self*/, PyObject* /*unused*/) {
    return PyFloat_FromDouble(native_time());
}

PyObject* create_future(PyObject* self, PyObject* /*unused*/) {
    const ModuleState* state = self_of(self)->state;
    PyObject* stack[2] = {nullptr, self};
    const Ref future_class =
        Ref::borrow(class_in_place(state->futures_names, state->name_future, state->future_type));
    return PyObject_Vectorcall(future_class.get(), stack + 1, 0 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               state->keywords_loop);
}

PyObject* create_task(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords) {
    LoopObject* loop = self_of(self);
    const ModuleState* state = loop->state;
    if (!check_open(loop)) {
        return nullptr;
    }
    PyObject* stack[5] = {nullptr, nullptr, self, Py_None, Py_None};
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    bool plain =
        count == 1 && (loop->task_factory == nullptr || loop->task_factory == Py_None) &&
        class_in_place(state->tasks_names, state->name_task, state->task_type) == state->task_type;
    for (Py_ssize_t i = 0; plain && i < keyword_count; ++i) {
        PyObject* name = PyTuple_GET_ITEM(keywords, i);
        if (PyUnicode_CompareWithASCIIString(name, "name") == 0) {
            stack[3] = arguments[count + i];
        } else if (PyUnicode_CompareWithASCIIString(name, "context") == 0) {
            stack[4] = arguments[count + i];
        } else {
            plain = false;
        }
    }
    if (!plain) {
        return create_task_by_base(self, arguments, count, keywords);
    }
    stack[1] = arguments[0];
    return PyObject_Vectorcall(state->task_type, stack + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET,
                               state->keywords_loop_name_context);
}

} // namespace penstock::python
