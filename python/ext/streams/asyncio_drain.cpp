// `StreamWriter.drain` of asyncio's own writers on a transport of this loop. It almost always
// completes at once, and then needs no coroutine.

#include "core/module.hpp"

#include "streams/stream_protocol.hpp"

namespace penstock::python {

namespace {

/// Whether there is nothing to wait for or to raise. If not, asyncio's own code runs.
bool nothing_to_drain(const ModuleState* state, PyObject* writer) noexcept {
    const Ref attributes(PyObject_GenericGetDict(writer, nullptr));
    if (!attributes) {
        return false;
    }
    PyObject* transport = PyDict_GetItemWithError(attributes.get(), state->name_transport);
    PyObject* reader = PyDict_GetItemWithError(attributes.get(), state->name_reader);
    PyObject* protocol = PyDict_GetItemWithError(attributes.get(), state->name_protocol);
    if (transport == nullptr || reader == nullptr || protocol == nullptr ||
        as_object(Py_TYPE(reader)) != state->fed_reader_type ||
        as_object(Py_TYPE(protocol)) != state->fed_protocol_type) {
        return false;
    }
    const Ref of_reader(PyObject_GenericGetDict(reader, nullptr));
    const Ref of_protocol(of_reader ? PyObject_GenericGetDict(protocol, nullptr) : nullptr);
    const auto is = [](const Ref& of, PyObject* name, PyObject* value) {
        return PyDict_GetItemWithError(of.get(), name) == value;
    };
    return of_protocol && is(of_reader, state->name_exception, Py_None) &&
           is(of_protocol, state->name_private_connection_lost, Py_False) &&
           is(of_protocol, state->name_paused, Py_False) && !is_closing(transport, state);
}

PyObject* native_drain(PyObject* self, PyTypeObject* defining, PyObject* const* /*arguments*/,
                       Py_ssize_t count, PyObject* keywords) {
    if (count != 0 || (keywords != nullptr && PyTuple_GET_SIZE(keywords) > 0)) {
        PyErr_SetString(PyExc_TypeError, "drain() takes no arguments");
        return nullptr;
    }
    const ModuleState* state = state_of(defining);
    if (nothing_to_drain(state, self)) {
        return Py_NewRef(state->completed);
    }
    PyErr_Clear();
    return PyObject_CallMethodOneArg(state->asyncio_writer_type, state->name_drain, self);
}

PyMethodDef waits_methods[] = {
    {"drain", as_function(&native_drain), METH_METHOD | METH_FASTCALL | METH_KEYWORDS,
     "Wait while the transport has paused writing."},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot waits_slots[] = {
    {Py_tp_doc,
     const_cast<char*>("The native wait, as a method for a subclass of asyncio's StreamWriter.")},
    {Py_tp_methods, waits_methods},
    {0, nullptr},
};

PyType_Spec waits_spec = {
    .name = "penstock._core.AsyncioWriterWaits",
    .basicsize = sizeof(PyObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = waits_slots,
};

} // namespace

bool add_asyncio_drain_type(PyObject* module) {
    const Ref waits(PyType_FromModuleAndSpec(module, &waits_spec, nullptr));
    return waits && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(waits.get())) == 0;
}

} // namespace penstock::python
