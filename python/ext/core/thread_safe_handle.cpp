#include "core/thread_safe_handle.hpp"

#include "core/loop.hpp"

namespace penstock::python {

namespace {

HandleObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<HandleObject*>(object);
}

bool runs_in_another_thread(const HandleObject* handle) noexcept {
    const LoopObject* loop = handle->loop;
    return loop != nullptr && loop->thread_safe_call == handle &&
           loop->owner_thread != PyThread_get_thread_ident();
}

/// Waits, without the GIL, while the callback runs in another thread. False with an exception set
/// when the wait is interrupted.
bool wait_until_called(PyObject* self) noexcept {
    return !runs_in_another_thread(self_of(self)) ||
           upcall(state_of(Py_TYPE(self)), "wait_until_called", &self, 1);
}

/// Arranges for `event.set()` when the callback has returned. False when it has already returned.
PyObject* notify_end_of_call(PyObject* self, PyObject* event) {
    if (!runs_in_another_thread(self_of(self))) {
        Py_RETURN_FALSE;
    }
    LoopObject* loop = self_of(self)->loop;
    if (loop->end_of_call_events == nullptr) {
        loop->end_of_call_events = PyList_New(0);
    }
    if (loop->end_of_call_events == nullptr ||
        PyList_Append(loop->end_of_call_events, event) != 0) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject* cancel_handle(PyObject* self, PyObject* /*unused*/) {
    if (!wait_until_called(self)) {
        return nullptr;
    }
    cancel(self_of(self));
    Py_RETURN_NONE;
}

PyObject* is_cancelled(PyObject* self, PyObject* /*unused*/) {
    return wait_until_called(self) ? PyBool_FromLong(self_of(self)->cancelled) : nullptr;
}

void handle_dealloc(PyObject* self) {
    // Set explicitly: a type made from a specification would get the finalizer of Python classes.
    Py_TYPE(self)->tp_base->tp_dealloc(self);
}

PyMethodDef methods[] = {
    {"cancel", &cancel_handle, METH_NOARGS,
     "Prevent the callback's call; from another thread, wait while it runs."},
    {"cancelled", &is_cancelled, METH_NOARGS,
     "Whether cancel() was called; from another thread, waits until the callback returns."},
    {"_notify_end_of_call", &notify_end_of_call, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"__class__", &asyncio_class<&ModuleState::asyncio_thread_safe_handle_type>, nullptr, nullptr,
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A callback that call_soon_threadsafe() scheduled.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&handle_dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, nullptr},
};

PyType_Spec spec = {
    .name = "penstock._core._ThreadSafeHandle",
    .basicsize = sizeof(HandleObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = slots,
};

} // namespace

ThreadSafeCall::ThreadSafeCall(HandleObject* handle) noexcept
    : loop_(handle->loop), outer_(std::exchange(loop_->thread_safe_call, handle)) {}

ThreadSafeCall::~ThreadSafeCall() {
    loop_->thread_safe_call = outer_;
    if (loop_->end_of_call_events == nullptr) {
        return;
    }
    const Ref events(std::exchange(loop_->end_of_call_events, nullptr));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(events.get()); ++i) {
        const Ref done(PyObject_CallMethod(PyList_GET_ITEM(events.get(), i), "set", nullptr));
        if (!done) {
            PyErr_WriteUnraisable(as_object(loop_));
        }
    }
}

bool add_thread_safe_handle_type(PyObject* module, ModuleState* state) {
    if (state->asyncio_thread_safe_handle_type == nullptr) {
        return true;
    }
    state->thread_safe_handle_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &spec, as_object(state->handle_type)));
    return state->thread_safe_handle_type != nullptr;
}

} // namespace penstock::python
