// asyncio's own StreamReader, fed natively. Its private attributes are the same from 3.11 to 3.14.

#include "asyncio_reader.hpp"

#include "asyncio_read.hpp"

namespace penstock::python {

namespace {

Ref strong(PyObject* weak_reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* object = nullptr;
    PyWeakref_GetRef(weak_reference, &object);
    return Ref(object);
#else
    PyObject* object = PyWeakref_GetObject(weak_reference);
    return object == Py_None ? Ref() : Ref::borrow(object);
#endif
}

/// False with an exception set, or with none: `limit` is an int.
bool over_twice_the_limit(const ModuleState* state, PyObject* attributes,
                          Py_ssize_t size) noexcept {
    PyObject* limit = PyDict_GetItemWithError(attributes, state->name_limit);
    const Py_ssize_t bytes = limit != nullptr ? PyNumber_AsSsize_t(limit, nullptr) : size;
    // No overflow with a huge limit.
    return PyErr_Occurred() == nullptr && size - size / 2 > bytes;
}

bool pause_transport(const ModuleState* state, PyObject* attributes) noexcept {
    const Ref transport = Ref::borrow(PyDict_GetItemWithError(attributes, state->name_transport));
    PyObject* paused = PyDict_GetItemWithError(attributes, state->name_paused);
    if (!transport || transport.get() == Py_None || paused == Py_True) {
        return PyErr_Occurred() == nullptr;
    }
    if (Ref(PyObject_CallMethod(transport.get(), "pause_reading", nullptr))) {
        return PyDict_SetItem(attributes, state->name_paused, Py_True) == 0;
    }
    if (PyErr_ExceptionMatches(PyExc_NotImplementedError) == 0) {
        return false;
    }
    PyErr_Clear(); // somebody's own transport that cannot: all there is to do is to keep everything
    return PyDict_SetItem(attributes, state->name_transport, Py_None) == 0;
}

/// Stops the transport when more than twice the limit is there and nobody waits for more. asyncio's own
/// code does so before the woken task runs, and that task goes on with the transport if it waits again;
/// here it has run already, so everything is looked up now. False with an exception set.
bool pause_transport_if_full(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* waiter = PyDict_GetItemWithError(attributes, state->name_waiter);
    PyObject* buffer =
        waiter == Py_None ? PyDict_GetItemWithError(attributes, state->name_buffer) : nullptr;
    if (buffer != nullptr && PyByteArray_Check(buffer) &&
        over_twice_the_limit(state, attributes, PyByteArray_GET_SIZE(buffer))) {
        return pause_transport(state, attributes);
    }
    return PyErr_Occurred() == nullptr;
}

/// Imports penstock.loop.fed_streams. False with an exception set.
bool import_fed_streams(ModuleState* state) noexcept {
    if (state->fed_reader_type != nullptr) {
        return true;
    }
    const Ref module(PyImport_ImportModule("penstock.loop.fed_streams"));
    Ref protocol(module ? PyObject_GetAttrString(module.get(), "StreamReaderProtocol") : nullptr);
    Ref reader(protocol ? PyObject_GetAttrString(module.get(), "StreamReader") : nullptr);
    if (!reader) {
        return false;
    }
    Py_XSETREF(state->fed_protocol_type, protocol.release());
    Py_XSETREF(state->fed_reader_type, reader.release());
    return true;
}

/// Somebody took the attributes away that asyncio's own code needs too.
bool fail_to_feed() noexcept {
    if (PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_AttributeError, "a StreamReader without its _buffer or _waiter");
    }
    return false;
}

/// Makes an instance of `plain` one of `fed`. Whether it is one then.
bool has_native_waits(const ModuleState* state, PyObject* object, PyObject* plain,
                      PyObject* fed) noexcept {
    const PyObject* type = as_object(Py_TYPE(object));
    return type == fed || (type == plain && PyObject_SetAttr(object, state->name_class, fed) == 0);
}

/// What `feed_data` asserts. Who waits natively has seen to it. False with an exception set.
bool expects_data(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* ended = PyDict_GetItemWithError(attributes, state->name_eof);
    const int truth = ended != nullptr ? PyObject_IsTrue(ended) : 0;
    if (truth > 0) {
        PyErr_SetString(PyExc_AssertionError, "feed_data after feed_eof");
    }
    return truth == 0 && PyErr_Occurred() == nullptr;
}

} // namespace

PyObject* asyncio_reader_of(ModuleState* state, PyObject* protocol) noexcept {
    const PyObject* type = as_object(Py_TYPE(protocol));
    if (type != state->asyncio_protocol_type && type != state->fed_protocol_type) {
        return nullptr;
    }
    Ref reference(PyObject_GetAttrString(protocol, "_stream_reader_wr"));
    if (!reference || PyWeakref_CheckRef(reference.get()) == 0) {
        PyErr_Clear();
        return nullptr;
    }
    const Ref reader = strong(reference.get());
    if (!reader || !import_fed_streams(state) ||
        !has_native_waits(state, reader.get(), state->asyncio_reader_type,
                          state->fed_reader_type) ||
        !has_native_waits(state, protocol, state->asyncio_protocol_type,
                          state->fed_protocol_type)) {
        PyErr_Clear(); // asyncio's own code does as well
        return nullptr;
    }
    return reference.release();
}

bool feed_asyncio_reader(ModuleState* state, PyObject* reference, const char* data,
                         std::size_t size, Feeding feeding) noexcept {
    const Ref reader = strong(reference);
    if (!reader) {
        return true; // nobody can read it any more
    }
    const Ref attributes(PyObject_GenericGetDict(reader.get(), nullptr));
    PyObject* waiter =
        attributes ? PyDict_GetItemWithError(attributes.get(), state->name_waiter) : nullptr;
    const Ref buffer = Ref::borrow(
        waiter != nullptr ? PyDict_GetItemWithError(attributes.get(), state->name_buffer)
                          : nullptr);
    if (!buffer || !PyByteArray_Check(buffer.get())) {
        return fail_to_feed();
    }
    if (feeding == Feeding::where_no_task_runs && PyByteArray_GET_SIZE(buffer.get()) == 0 &&
        waits_natively(state, waiter)) {
        if (!resume_native_read(state, waiter, attributes.get(), data, size)) {
            return false;
        }
    } else if (!expects_data(state, attributes.get()) ||
               !append_to_buffer(buffer.get(), data, size) ||
               !wake_waiter(state, attributes.get(), waiter)) {
        return false;
    }
    return pause_transport_if_full(state, attributes.get());
}

} // namespace penstock::python
