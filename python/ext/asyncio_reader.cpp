// asyncio's own StreamReader, fed natively. Its private attributes are the same from 3.11 to 3.14.

#include "asyncio_reader.hpp"

#include <cstring>

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

bool append(PyObject* buffer, const char* data, std::size_t size) noexcept {
    const Py_ssize_t before = PyByteArray_GET_SIZE(buffer);
    if (PyByteArray_Resize(buffer, before + static_cast<Py_ssize_t>(size)) != 0) {
        return false;
    }
    std::memcpy(PyByteArray_AS_STRING(buffer) + before, data, size);
    return true;
}

bool wake_waiter(const ModuleState* state, PyObject* reader) noexcept {
    const Ref waiter(PyObject_GetAttr(reader, state->name_waiter));
    if (!waiter) {
        return false;
    }
    if (waiter.get() == Py_None) {
        return true;
    }
    if (PyObject_SetAttr(reader, state->name_waiter, Py_None) != 0) {
        return false;
    }
    const Ref cancelled(PyObject_CallMethodNoArgs(waiter.get(), state->name_cancelled));
    return cancelled &&
           (cancelled.get() == Py_True ||
            Ref(PyObject_CallMethodOneArg(waiter.get(), state->name_set_result, Py_None)));
}

/// False with an exception set, or with none: `limit` is an int.
bool over_twice_the_limit(const ModuleState* state, PyObject* reader, Py_ssize_t size) noexcept {
    const Ref limit(PyObject_GetAttr(reader, state->name_limit));
    if (!limit) {
        return false;
    }
    const Py_ssize_t bytes = PyNumber_AsSsize_t(limit.get(), nullptr);
    return PyErr_Occurred() == nullptr && size / 2 > bytes;
}

bool pause_transport(const ModuleState* state, PyObject* reader) noexcept {
    const Ref transport(PyObject_GetAttr(reader, state->name_transport));
    const Ref paused(PyObject_GetAttr(reader, state->name_paused));
    if (!transport || !paused) {
        return false;
    }
    if (transport.get() == Py_None || paused.get() == Py_True) {
        return true;
    }
    return Ref(PyObject_CallMethod(transport.get(), "pause_reading", nullptr)) &&
           PyObject_SetAttr(reader, state->name_paused, Py_True) == 0;
}

} // namespace

PyObject* asyncio_reader_of(const ModuleState* state, PyObject* protocol) noexcept {
    if (reinterpret_cast<PyObject*>(Py_TYPE(protocol)) != state->asyncio_protocol_type) {
        return nullptr;
    }
    Ref reference(PyObject_GetAttrString(protocol, "_stream_reader_wr"));
    if (!reference || PyWeakref_CheckRef(reference.get()) == 0) {
        PyErr_Clear();
        return nullptr;
    }
    const Ref reader = strong(reference.get());
    if (!reader ||
        reinterpret_cast<PyObject*>(Py_TYPE(reader.get())) != state->asyncio_reader_type) {
        return nullptr;
    }
    return reference.release();
}

bool feed_asyncio_reader(const ModuleState* state, PyObject* reference, const char* data,
                         std::size_t size) noexcept {
    const Ref reader = strong(reference);
    if (!reader) {
        return true; // nobody can read it any more
    }
    const Ref buffer(PyObject_GetAttr(reader.get(), state->name_buffer));
    if (!buffer || !append(buffer.get(), data, size) || !wake_waiter(state, reader.get())) {
        return false;
    }
    if (over_twice_the_limit(state, reader.get(), PyByteArray_GET_SIZE(buffer.get()))) {
        return pause_transport(state, reader.get());
    }
    return PyErr_Occurred() == nullptr;
}

} // namespace penstock::python
