// The protocol between a transport and a native stream reader, with a drain() that is free when
// there is nothing to wait for.

#include "streams/stream_protocol.hpp"

#include "awaitable/coroutine_protocol.hpp"
#include "net/socket_transport.hpp"
#include "tls/tls_transport.hpp"

#include <structmember.h>

namespace penstock::python {

namespace {

StreamProtocolObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<StreamProtocolObject*>(object);
}

PyObject* protocol_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return type->tp_alloc(type, 0);
}

PyObject* protocol_data_received(PyObject* self, PyObject* data) {
    const Ref reader = Ref::borrow(as_object(self_of(self)->reader));
    if (!reader) {
        Py_RETURN_NONE;
    }
    return PyObject_CallMethod(reader.get(), "feed_data", "(O)", data);
}

/// StreamWriter.drain: an awaitable that is almost always ready.
PyObject* protocol_drain(PyObject* self, PyObject* /*unused*/) {
    const StreamProtocolObject* protocol = self_of(self);
    const ModuleState* state = state_of(Py_TYPE(self));
    if (!protocol->paused && !protocol->lost && protocol->transport != nullptr &&
        (protocol->reader == nullptr || protocol->reader->exception == nullptr) &&
        !is_closing(protocol->transport, state)) {
        return Py_NewRef(state->completed);
    }
    PyErr_Clear();
    return PyObject_CallMethod(self, "_drain_slowly", nullptr);
}

template <PyObject* StreamProtocolObject::* slot> PyObject* get_object(PyObject* self, void*) {
    PyObject* value = self_of(self)->*slot;
    return Py_NewRef(value != nullptr ? value : Py_None);
}

template <PyObject* StreamProtocolObject::* slot>
int set_object(PyObject* self, PyObject* value, void*) {
    Py_XSETREF(self_of(self)->*slot, value == Py_None ? nullptr : Py_XNewRef(value));
    return 0;
}

PyObject* get_reader(PyObject* self, void* /*unused*/) {
    StreamReaderObject* reader = self_of(self)->reader;
    return Py_NewRef(reader != nullptr ? as_object(reader) : Py_None);
}

int set_reader(PyObject* self, PyObject* value, void* /*unused*/) {
    const ModuleState* state = state_of(Py_TYPE(self));
    if (value != nullptr && value != Py_None && !Py_IS_TYPE(value, state->stream_reader_type)) {
        PyErr_SetString(PyExc_TypeError, "the reader must be a penstock StreamReader");
        return -1;
    }
    StreamReaderObject* reader =
        value == nullptr || value == Py_None ? nullptr : reader_of(Py_NewRef(value));
    Py_XSETREF(self_of(self)->reader, reader);
    return 0;
}

int protocol_traverse(PyObject* self, visitproc visit, void* arg) {
    StreamProtocolObject* protocol = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(protocol->reader);
    Py_VISIT(protocol->transport);
    return 0;
}

int protocol_clear(PyObject* self) {
    StreamProtocolObject* protocol = self_of(self);
    Py_CLEAR(protocol->reader);
    Py_CLEAR(protocol->transport);
    return 0;
}

void protocol_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    protocol_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef protocol_methods[] = {
    {"data_received", &protocol_data_received, METH_O, nullptr},
    {"drain", &protocol_drain, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef protocol_members[] = {
    {"_paused", T_BOOL, offsetof(StreamProtocolObject, paused), 0, nullptr},
    {"_lost", T_BOOL, offsetof(StreamProtocolObject, lost), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef protocol_attributes[] = {
    {"_reader", &get_reader, &set_reader, nullptr, nullptr},
    {"_transport", &get_object<&StreamProtocolObject::transport>,
     &set_object<&StreamProtocolObject::transport>, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot protocol_slots[] = {
    {Py_tp_doc, const_cast<char*>("Native base of the streams' protocol.")},
    {Py_tp_new, reinterpret_cast<void*>(&protocol_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&protocol_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&protocol_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&protocol_clear)},
    {Py_tp_methods, protocol_methods},
    {Py_tp_members, protocol_members},
    {Py_tp_getset, protocol_attributes},
    {0, nullptr},
};

PyType_Spec protocol_spec = {
    .name = "penstock._core.StreamProtocolCore",
    .basicsize = sizeof(StreamProtocolObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = protocol_slots,
};

// ---- an awaitable that is always ready
// --------------------------------------------------------------

PySendResult completed_send(PyObject* /*self*/, PyObject* /*value*/, PyObject** result) {
    *result = Py_NewRef(Py_None);
    return PYGEN_RETURN;
}

PyObject* completed_next(PyObject* self) {
    return iterator_step(self, PYGEN_RETURN, Py_NewRef(Py_None));
}

PyObject* completed_send_method(PyObject* /*self*/, PyObject* /*value*/) {
    return send_step(PYGEN_RETURN, Py_NewRef(Py_None));
}

PyObject* completed_throw(PyObject* /*self*/, PyObject* const* arguments, Py_ssize_t count) {
    raise_thrown(arguments, count);
    return nullptr;
}

PyObject* completed_close(PyObject* /*self*/, PyObject* /*unused*/) {
    Py_RETURN_NONE;
}

void completed_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

PyMethodDef completed_methods[] = {
    {"send", &completed_send_method, METH_O, nullptr},
    {"throw", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&completed_throw)),
     METH_FASTCALL, nullptr},
    {"close", &completed_close, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot completed_slots[] = {
    {Py_tp_doc, const_cast<char*>("An awaitable that always returns None at once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&completed_dealloc)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&completed_send)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(&completed_next)},
    {Py_tp_methods, completed_methods},
    {0, nullptr},
};

PyType_Spec completed_spec = {
    .name = "penstock._core.Completed",
    .basicsize = sizeof(PyObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = completed_slots,
};

} // namespace

bool is_closing(PyObject* transport, const ModuleState* state) noexcept {
    if (Py_IS_TYPE(transport, state->socket_transport_type)) {
        return transport_of(transport)->closing;
    }
    if (Py_IS_TYPE(transport, state->tls_transport_type)) {
        return is_closing(tls_of(transport));
    }
    const Ref closing(PyObject_CallMethod(transport, "is_closing", nullptr));
    return !closing || closing.get() == Py_True;
}

StreamReaderObject* reader_to_feed(const ModuleState* state, PyObject* protocol) noexcept {
    return PyObject_TypeCheck(protocol, state->stream_protocol_type) != 0
               ? self_of(protocol)->reader
               : nullptr;
}

bool add_stream_protocol_types(PyObject* module, ModuleState* state) {
    state->stream_protocol_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &protocol_spec, nullptr));
    if (state->stream_protocol_type == nullptr ||
        PyModule_AddType(module, state->stream_protocol_type) != 0) {
        return false;
    }
    const Ref completed_type(PyType_FromModuleAndSpec(module, &completed_spec, nullptr));
    if (!completed_type ||
        PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(completed_type.get())) != 0) {
        return false;
    }
    state->completed = reinterpret_cast<PyObject*>(
        PyObject_New(PyObject, reinterpret_cast<PyTypeObject*>(completed_type.get())));
    return state->completed != nullptr;
}

} // namespace penstock::python
