#pragma once

#include "module.hpp"

#include <cstddef>

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

struct LoopObject;

/// A native step that a handle may carry instead of a Python callable. It gets the handle's target
/// and deals with its own errors.
using NativeStep = void (*)(LoopObject* loop, PyObject* target);

/// asyncio.Handle and asyncio.TimerHandle: a callback with its arguments and context, embedded in
/// the loop's ready queue or timer heap. Whichever of them it is in owns a reference.
///
/// Handles are not known to the garbage collector: a loop makes millions, and each collection would
/// walk those that wait. No cycle can outlive its use all the same, because a handle lets go of its
/// callback, arguments and context when it has run, is cancelled, or its loop is closed; and a loop
/// shows the collector what its waiting handles hold.
struct HandleObject {
    enum class Arguments : unsigned char { none, one, tuple };

    PyObject ob_base;
    io::Timer timer;
    LoopObject* loop; ///< owned
    PyObject* callback;
    PyObject* arguments; ///< the one argument itself, or a tuple
    PyObject* context;
    PyObject* source_traceback; ///< in debug mode
    PyObject* description;      ///< repr kept from before it let go of its callback
    PyObject* weak_references;
    NativeStep native;
    double when;
    Arguments form;
    bool cancelled;

    static HandleObject* of(io::Work& work) noexcept {
        return reinterpret_cast<HandleObject*>(reinterpret_cast<char*>(&work) -
                                               offsetof(HandleObject, timer.work));
    }
};

/// A new handle of `type` for a Python callable; null with an exception set on failure.
/// `context` may be null or None: then the current context is copied.
HandleObject* make_handle(LoopObject* loop, PyTypeObject* type, PyObject* callback,
                          PyObject* const* arguments, Py_ssize_t count, PyObject* context) noexcept;

/// A new handle for a native step on `target`; null with an exception set on failure.
HandleObject* make_native_handle(LoopObject* loop, NativeStep step, PyObject* target) noexcept;

/// Calls the handle's callback in its context. A raised exception goes to the loop's exception
/// handler; one that ends the program interrupts the loop. The handle must have a callback, and may
/// have let go of it and of its loop when the call returns.
void invoke(HandleObject* handle) noexcept;

/// Cancels as `Handle.cancel()` does.
void cancel(HandleObject* handle) noexcept;

/// Gives up the loop's reference, and all that the handle holds: it will not run again.
void release_from_loop(HandleObject* handle) noexcept;

/// Visits what a waiting handle holds, for the traversal of its loop.
int traverse_owned(HandleObject* handle, visitproc visit, void* arg) noexcept;

/// Empties a loop's store of reusable handles.
void release_spare_handles(LoopObject* loop) noexcept;

/// Getter of a handle's `__class__`, which isinstance() asks when the type itself does not say it: a
/// handle is an asyncio.Handle.
///
/// Rejected: deriving from asyncio's class. Its instances belong to the garbage collector and, since
/// Python 3.12, have their weak references in front of them: 56 bytes more for each handle.
template <PyObject* ModuleState::* type> PyObject* asyncio_class(PyObject* self, void* /*unused*/) {
    const ModuleState* state = state_of(Py_TYPE(self));
    return state != nullptr ? Py_NewRef(state->*type) : nullptr;
}

} // namespace penstock::python
