// Feeds asyncio's own StreamReader. Its private attributes are the same from Python 3.11 to 3.14.

#include "streams/asyncio_stream_feed.hpp"

#include "streams/asyncio_read_awaitable.hpp"

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

/// False also with an exception set.
bool exceeds_high_water(const ModuleState* state, PyObject* attributes, Py_ssize_t size) noexcept {
    PyObject* limit = PyDict_GetItemWithError(attributes, state->name_limit);
    const Py_ssize_t bytes = limit != nullptr ? PyNumber_AsSsize_t(limit, nullptr) : size;
    // Not `2 * bytes`, which overflows with a huge limit.
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
    PyErr_Clear(); // a transport that cannot be paused: all data is kept
    return PyDict_SetItem(attributes, state->name_transport, Py_None) == 0;
}

/// Pauses the transport when the buffer holds more than twice the limit and no read waits.
/// asyncio's own code does so before the woken task runs, and that task resumes the transport if it
/// waits again. Here the task has already run, so all state is read again. False with an exception
/// set.
bool pause_transport_if_full(const ModuleState* state, PyObject* attributes) noexcept {
    PyObject* waiter = PyDict_GetItemWithError(attributes, state->name_waiter);
    PyObject* buffer =
        waiter == Py_None ? PyDict_GetItemWithError(attributes, state->name_buffer) : nullptr;
    if (buffer != nullptr && PyByteArray_Check(buffer) &&
        exceeds_high_water(state, attributes, PyByteArray_GET_SIZE(buffer))) {
        return pause_transport(state, attributes);
    }
    return PyErr_Occurred() == nullptr;
}

/// Imports penstock.loop._fed_streams. False with an exception set.
bool import_fed_streams(ModuleState* state) noexcept {
    if (state->fed_reader_type != nullptr) {
        return true;
    }
    const Ref module(PyImport_ImportModule("penstock.loop._fed_streams"));
    Ref protocol(module ? PyObject_GetAttrString(module.get(), "StreamReaderProtocol") : nullptr);
    Ref reader(protocol ? PyObject_GetAttrString(module.get(), "StreamReader") : nullptr);
    if (!reader) {
        return false;
    }
    Py_XSETREF(state->fed_protocol_type, protocol.release());
    Py_XSETREF(state->fed_reader_type, reader.release());
    return true;
}

/// Raises the error of a missing attribute that asyncio's own code needs too.
bool fail_to_feed() noexcept {
    if (PyErr_Occurred() == nullptr) {
        PyErr_SetString(PyExc_AttributeError, "the StreamReader has no _buffer or no _waiter");
    }
    return false;
}

/// Turns an instance of `plain` into an instance of `fed`. True if it is one afterwards.
bool has_native_waits(const ModuleState* state, PyObject* object, PyObject* plain,
                      PyObject* fed) noexcept {
    const PyObject* type = as_object(Py_TYPE(object));
    return type == fed || (type == plain && PyObject_SetAttr(object, state->name_class, fed) == 0);
}

/// The assertion of `feed_data`; a native wait implies it. False with an exception set.
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
        PyErr_Clear(); // asyncio's own code also works
        return nullptr;
    }
    return reference.release();
}

bool feed_asyncio_reader(ModuleState* state, PyObject* reference, const char* data,
                         std::size_t size, Feeding feeding) noexcept {
    const Ref reader = strong(reference);
    if (!reader) {
        return true; // no program can read it any more
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
    if (feeding == Feeding::from_dispatcher && PyByteArray_GET_SIZE(buffer.get()) == 0 &&
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
