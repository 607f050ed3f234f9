#pragma once

#include "core/module.hpp"

#include <cstddef>

#include <penstock/io/owner_of.hpp>
#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

struct LoopObject;

/// A native step that a handle may carry instead of a Python callable. It receives the handle's
/// target and handles its own errors.
using NativeStep = void (*)(LoopObject* loop, PyObject* target);

/// asyncio.Handle and asyncio.TimerHandle: a callback with its arguments and context. Embedded in
/// the loop's ready queue or timer heap, which then owns a reference.
///
/// Handles are not tracked by the garbage collector: a loop makes millions, and each collection
/// would walk the waiting ones. Cycles through a handle are still broken: it drops its callback,
/// arguments and context when it has run, is cancelled, or its loop is closed, and a loop reports
/// the contents of its waiting handles to the collector.
struct HandleObject {
    enum class Arguments : unsigned char { none, one, tuple };

    PyObject ob_base;
    io::Timer timer;
    LoopObject* loop; ///< owned
    PyObject* callback;
    PyObject* arguments;        ///< the only argument itself, or a tuple
    PyObject* context;          ///< see `track_context`
    PyObject* source_traceback; ///< in debug mode
    PyObject* description;      ///< the repr, saved when the callback was dropped
    PyObject* weak_references;
    NativeStep native;
    double when;
    Arguments form;
    bool cancelled;
    bool context_untracked; ///< by the garbage collector: only this handle has seen its context

    static HandleObject* of(io::Work& work) noexcept {
        return &io::owner_of<&HandleObject::timer>(io::owner_of<&io::Timer::work>(work));
    }
};

/// Makes a handle of `type` for a Python callable. `context` may be null or None: the current
/// context is copied. Null with an exception set.
[[gnu::hot]] HandleObject* make_handle(LoopObject* loop, PyTypeObject* type, PyObject* callback,
                                       PyObject* const* arguments, Py_ssize_t count,
                                       PyObject* context) noexcept;

/// Makes a handle for a native step on `target`. Null with an exception set.
HandleObject* make_native_handle(LoopObject* loop, NativeStep step, PyObject* target) noexcept;

/// Calls the handle's callback in its context. A raised exception goes to the loop's exception
/// handler; one that ends the program interrupts the loop. The handle must have a callback. On
/// return it may have dropped its callback and its loop.
[[gnu::hot]] void invoke(HandleObject* handle) noexcept;

/// Cancels as `Handle.cancel()` does.
[[gnu::hot]] void cancel(HandleObject* handle) noexcept;

/// Drops the loop's reference and all contents of the handle: it will not run again.
[[gnu::hot]] void release_from_loop(HandleObject* handle) noexcept;

/// Visits the contents of a waiting handle, for the traversal of its loop.
int traverse_owned(HandleObject* handle, visitproc visit, void* arg) noexcept;

/// Frees a loop's freelist of handles.
void free_handle_freelist(LoopObject* loop) noexcept;

/// Getter of a handle's `__class__`. isinstance() reads it when the type does not match, so a
/// handle counts as an asyncio.Handle.
///
/// Rejected: deriving from asyncio's class. Its instances are tracked by the garbage collector and,
/// since Python 3.12, have a header for weak references: 56 more bytes for each handle.
template <PyObject* ModuleState::* type> PyObject* asyncio_class(PyObject* self, void* /*unused*/) {
    const ModuleState* state = state_of(Py_TYPE(self));
    return state != nullptr ? Py_NewRef(state->*type) : nullptr;
}

} // namespace penstock::python
