#include "accept_task.hpp"

#include "coroutine_protocol.hpp"
#include "socket_transport.hpp"

namespace penstock::python {

namespace {

/// The coroutine. It gives way once: its first turn comes before that of what the protocol factories schedule,
/// the second one after that. Where an exception is thrown in it closes the transports.
struct AcceptingObject {
    PyObject ob_base;
    PyObject* transports; ///< list; null when it has ended
    bool gave_way;
};

AcceptingObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<AcceptingObject*>(object);
}

/// The transports, for the last step. Null with an exception set after that.
Ref finish(PyObject* self) noexcept {
    AcceptingObject* accepting = self_of(self);
    Ref transports(std::exchange(accepting->transports, nullptr));
    may_resume(false, !transports);
    return transports;
}

PySendResult accepting_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    AcceptingObject* accepting = self_of(self);
    if (accepting->transports != nullptr && !std::exchange(accepting->gave_way, true)) {
        *result = Py_NewRef(Py_None);
        return PYGEN_NEXT;
    }
    *result = finish(self) ? Py_NewRef(Py_None) : nullptr;
    return *result != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

PyObject* accepting_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = accepting_send(self, Py_None, &result);
    return iterator_step(self, sent, result);
}

PyObject* accepting_send_method(PyObject* self, PyObject* value) {
    PyObject* result = nullptr;
    const PySendResult sent = accepting_send(self, value, &result);
    return send_step(sent, result);
}

PyObject* accepting_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    const Ref transports = finish(self);
    if (!transports) {
        return nullptr;
    }
    // Closing one may call its protocol. The list is the coroutine's own, so no other code changes it.
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(transports.get()); ++i) {
        if (!close_gracefully(transport_of(PyList_GET_ITEM(transports.get(), i)))) {
            PyErr_Clear(); // the loop is closed, and with it the connection
        }
    }
    raise_thrown(arguments, count);
    return nullptr;
}

PyObject* accepting_close(PyObject* self, PyObject* /*unused*/) {
    Py_CLEAR(self_of(self)->transports);
    Py_RETURN_NONE;
}

int accepting_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self_of(self)->transports);
    return 0;
}

int accepting_clear(PyObject* self) {
    Py_CLEAR(self_of(self)->transports);
    return 0;
}

void accepting_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    accepting_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyObject* accepting_name(PyObject* /*self*/, void* /*unused*/) {
    return PyUnicode_FromString("accept connections");
}

PyMethodDef accepting_methods[] = {
    {"send", &accepting_send_method, METH_O, "End the coroutine."},
    {"throw", as_function(&accepting_throw), METH_FASTCALL, "Close the connections."},
    {"close", &accepting_close, METH_NOARGS, "End the coroutine before it has begun."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef accepting_attributes[] = {
    {"__name__", &accepting_name, nullptr, nullptr, nullptr},
    {"__qualname__", &accepting_name, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot accepting_slots[] = {
    {Py_tp_doc, const_cast<char*>("Connections whose protocols are about to begin.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&accepting_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&accepting_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&accepting_clear)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(&accepting_next)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&accepting_send)},
    {Py_tp_methods, accepting_methods},
    {Py_tp_getset, accepting_attributes},
    {0, nullptr},
};

PyType_Spec accepting_spec = {
    .name = "penstock._core.Accepting",
    .basicsize = sizeof(AcceptingObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = accepting_slots,
};

Ref make_accepting(const ModuleState* state) noexcept {
    Ref transports(PyList_New(0));
    if (!transports) {
        return Ref();
    }
    auto* accepting = PyObject_GC_New(AcceptingObject, state->accepting_type);
    if (accepting == nullptr) {
        return Ref();
    }
    accepting->transports = transports.release();
    accepting->gave_way = false;
    PyObject_GC_Track(as_object(accepting));
    return Ref(as_object(accepting));
}

/// Not through the program's task factory: what it is given are coroutines that were handed to the loop.
Ref make_task(LoopObject* loop, PyObject* coroutine) noexcept {
    PyObject* stack[] = {nullptr, coroutine, as_object(loop)};
    return Ref(PyObject_Vectorcall(loop->state->task_type, stack + 1,
                                   1 | PY_VECTORCALL_ARGUMENTS_OFFSET, loop->state->keywords_loop));
}

} // namespace

AcceptTask::AcceptTask(LoopObject* loop) noexcept
    : loop_(loop), coroutine_(make_accepting(loop->state)) {
    if (!coroutine_ || !make_task(loop, coroutine_.get())) {
        report_raised(loop, "Exception while accepting connections", nullptr, nullptr);
    }
}

void AcceptTask::add(PyObject* transport) noexcept {
    PyObject* transports = coroutine_ ? self_of(coroutine_.get())->transports : nullptr;
    if (transports != nullptr && PyList_Append(transports, transport) != 0) {
        report_raised(loop_, "Exception while accepting connections", nullptr, nullptr);
    }
}

bool add_accepting_type(PyObject* module, ModuleState* state) {
    state->accepting_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &accepting_spec, nullptr));
    return state->accepting_type != nullptr && PyModule_AddType(module, state->accepting_type) == 0;
}

} // namespace penstock::python
