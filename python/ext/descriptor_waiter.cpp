#include "descriptor_waiter.hpp"

#include "fd_callbacks.hpp"
#include "loop.hpp"
#include "waiting_task.hpp"

namespace penstock::python {

namespace {

using State = DescriptorWaiterObject::State;

DescriptorWaiterObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<DescriptorWaiterObject*>(object);
}

void drop_handle(DescriptorWaiterObject* waiter) noexcept {
    if (HandleObject* handle = std::exchange(waiter->handle, nullptr)) {
        cancel(handle);
        release_from_loop(handle);
    }
}

PyObject* add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* keywords) {
    DescriptorWaiterObject* waiter = self_of(self);
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count != 1 || keyword_count > 1 ||
        (keyword_count == 1 &&
         PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), "context") != 0)) {
        PyErr_SetString(PyExc_TypeError, "add_done_callback() takes a callback and a context");
        return nullptr;
    }
    if (waiter->handle != nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "another task waits for this socket operation already");
        return nullptr;
    }
    LoopObject* loop = waiter->loop;
    if (!check_open(loop)) {
        return nullptr;
    }
    HandleObject* handle = make_handle(loop, loop->state->handle_type, arguments[0], &self, 1,
                                       keyword_count == 1 ? arguments[1] : nullptr);
    if (handle == nullptr) {
        return nullptr;
    }
    if (waiter->state == State::waiting && waiter->handle == nullptr) {
        waiter->handle = handle;
    } else {
        schedule(loop, handle);
    }
    Py_RETURN_NONE;
}

PyObject* remove_done_callback(PyObject* self, PyObject* callback) {
    DescriptorWaiterObject* waiter = self_of(self);
    HandleObject* handle = waiter->handle;
    if (handle == nullptr) {
        return PyLong_FromLong(0);
    }
    const Ref alive = Ref::borrow(as_object(handle));
    const Ref mine = Ref::borrow(handle->callback);
    int same = PyObject_RichCompareBool(mine.get(), callback, Py_EQ);
    if (same > 0 && waiter->handle == handle) { // comparing may have ended the wait
        drop_handle(waiter);
    } else if (same > 0) {
        same = 0;
    }
    return same < 0 ? nullptr : PyLong_FromLong(same);
}

PyObject* cancel_waiting(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords) {
    DescriptorWaiterObject* waiter = self_of(self);
    const Py_ssize_t total = count + (keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0);
    if (total > 1) {
        PyErr_SetString(PyExc_TypeError, "cancel() takes a message");
        return nullptr;
    }
    if (waiter->state != State::waiting) {
        Py_RETURN_FALSE;
    }
    if (!check_open(waiter->loop)) {
        return nullptr;
    }
    waiter->state = State::cancelled;
    if (total == 1) {
        waiter->cancel_message = Py_NewRef(arguments[0]);
    }
    const Ref alive = Ref::borrow(self);
    end_wait(waiter);
    if (HandleObject* handle = std::exchange(waiter->handle, nullptr)) {
        schedule(waiter->loop, handle);
    }
    Py_RETURN_TRUE;
}

PyObject* get_result(PyObject* self, PyObject* /*unused*/) {
    const DescriptorWaiterObject* waiter = self_of(self);
    const ModuleState* state = waiter->loop->state;
    switch (waiter->state) {
    case State::ready:
        Py_RETURN_NONE;
    case State::cancelled:
        if (waiter->cancel_message != nullptr && waiter->cancel_message != Py_None) {
            const Ref error(
                PyObject_CallOneArg(state->cancelled_error_type, waiter->cancel_message));
            if (error) {
                PyErr_SetObject(state->cancelled_error_type, error.get());
            }
        } else {
            PyErr_SetNone(state->cancelled_error_type);
        }
        return nullptr;
    case State::waiting:
        break;
    }
    PyErr_SetString(state->invalid_state_error_type, "Result is not set.");
    return nullptr;
}

PyObject* is_done(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(self_of(self)->state != State::waiting);
}

PyObject* is_cancelled(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(self_of(self)->state == State::cancelled);
}

PyObject* get_loop_getter(PyObject* self, void* /*unused*/) {
    LoopObject* loop = self_of(self)->loop;
    return loop_getter(loop->state, as_object(loop));
}

PyObject* get_blocking(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->blocking);
}

int set_blocking(PyObject* self, PyObject* value, void* /*unused*/) {
    const int truth = value != nullptr ? PyObject_IsTrue(value) : 0;
    if (truth < 0) {
        return -1;
    }
    self_of(self)->blocking = truth != 0;
    return 0;
}

PyObject* waiter_repr(PyObject* self) {
    const DescriptorWaiterObject* waiter = self_of(self);
    if (waiter->place == nullptr) {
        return PyUnicode_FromFormat("<DescriptorWaiter %s>",
                                    waiter->state == State::cancelled ? "cancelled" : "done");
    }
    return PyUnicode_FromFormat("<DescriptorWaiter fd=%d waits to %s>", waiter->place->fd,
                                waiter->direction == &reading ? "read" : "write");
}

int waiter_traverse(PyObject* self, visitproc visit, void* arg) {
    DescriptorWaiterObject* waiter = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(waiter->loop);
    Py_VISIT(waiter->cancel_message);
    return waiter->handle != nullptr ? traverse_owned(waiter->handle, visit, arg) : 0;
}

int waiter_clear(PyObject* self) {
    drop_handle(self_of(self));
    return 0;
}

void waiter_dealloc(PyObject* self) {
    DescriptorWaiterObject* waiter = self_of(self);
    PyObject_GC_UnTrack(self);
    drop_handle(waiter);
    Py_CLEAR(waiter->cancel_message);
    LoopObject* loop = waiter->loop;
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(loop);
    Py_DECREF(type);
}

PyMethodDef waiter_methods[] = {
    {"add_done_callback", as_function(&add_done_callback), METH_FASTCALL | METH_KEYWORDS,
     "Call a callback with this object when the wait is over."},
    {"remove_done_callback", &remove_done_callback, METH_O, "Undo add_done_callback()."},
    {"cancel", as_function(&cancel_waiting), METH_FASTCALL | METH_KEYWORDS,
     "End the wait with CancelledError; returns whether there was a wait to end."},
    {"cancelled", &is_cancelled, METH_NOARGS, "Whether cancel() ended the wait."},
    {"done", &is_done, METH_NOARGS, "Whether the wait is over."},
    {"result", &get_result, METH_NOARGS, "None; raises CancelledError after cancel()."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef waiter_attributes[] = {
    {"_asyncio_future_blocking", &get_blocking, &set_blocking, nullptr, nullptr},
    {"get_loop", &get_loop_getter, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot waiter_slots[] = {
    {Py_tp_doc, const_cast<char*>("What a task waits for while a socket is not ready.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&waiter_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&waiter_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&waiter_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&waiter_repr)},
    {Py_tp_methods, waiter_methods},
    {Py_tp_getset, waiter_attributes},
    {0, nullptr},
};

PyType_Spec waiter_spec = {
    .name = "penstock._core.DescriptorWaiter",
    .basicsize = sizeof(DescriptorWaiterObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = waiter_slots,
};

} // namespace

DescriptorWaiterObject* make_descriptor_waiter(LoopObject* loop) noexcept {
    auto* waiter = PyObject_GC_New(DescriptorWaiterObject, loop->state->descriptor_waiter_type);
    if (waiter == nullptr) {
        return nullptr;
    }
    waiter->loop = loop;
    Py_INCREF(loop);
    waiter->place = nullptr;
    waiter->direction = nullptr;
    waiter->next = nullptr;
    waiter->handle = nullptr;
    waiter->cancel_message = nullptr;
    waiter->state = State::waiting;
    waiter->blocking = true;
    PyObject_GC_Track(as_object(waiter));
    return waiter;
}

void wake(DescriptorWaiterObject* waiter) noexcept {
    waiter->state = State::ready;
    if (HandleObject* handle = std::exchange(waiter->handle, nullptr)) {
        PyObject* argument =
            argument_of_wakeup(waiter->loop->state, handle->callback, as_object(waiter));
        Py_SETREF(handle->arguments, Py_NewRef(argument));
        invoke(handle);
        release_from_loop(handle);
    }
}

void wake_soon(DescriptorWaiterObject* waiter) noexcept {
    waiter->state = State::ready;
    if (HandleObject* handle = std::exchange(waiter->handle, nullptr)) {
        schedule(waiter->loop, handle);
    }
}

void abandon(DescriptorWaiterObject* waiter) noexcept {
    const Ref alive = Ref::borrow(as_object(waiter));
    end_wait(waiter);
    drop_handle(waiter);
}

bool add_descriptor_waiter_type(PyObject* module, ModuleState* state) {
    state->descriptor_waiter_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &waiter_spec, nullptr));
    return state->descriptor_waiter_type != nullptr &&
           PyModule_AddType(module, state->descriptor_waiter_type) == 0;
}

} // namespace penstock::python
