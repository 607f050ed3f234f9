// The TLS transport's Python type.

#include "tls/tls_transport.hpp"

#include "net/transport_base.hpp"
#include "streams/asyncio_stream_feed.hpp"

#include <new>

#include <structmember.h>

namespace penstock::python {

namespace {

using State = TlsTransportObject::State;
using Notified = TlsTransportObject::Notified;

constexpr std::size_t default_write_high_water = std::size_t{512} * 1024;
constexpr std::size_t default_read_high_water = std::size_t{256} * 1024;

/// The ssl module is imported on first use: not every interpreter has it, and programs without TLS
/// do not need it.
bool import_ssl(ModuleState* state) noexcept {
    if (state->ssl_memory_bio != nullptr) {
        return true;
    }
    const Ref ssl(PyImport_ImportModule("ssl"));
    const Ref want_read(ssl ? PyObject_GetAttrString(ssl.get(), "SSLWantReadError") : nullptr);
    const Ref syscall(want_read ? PyObject_GetAttrString(ssl.get(), "SSLSyscallError") : nullptr);
    Ref certificate(syscall ? PyObject_GetAttrString(ssl.get(), "CertificateError") : nullptr);
    Ref memory_bio(certificate ? PyObject_GetAttrString(ssl.get(), "MemoryBIO") : nullptr);
    Ref again(memory_bio ? PyTuple_Pack(2, want_read.get(), syscall.get()) : nullptr);
    if (!again) {
        return false;
    }
    Py_XSETREF(state->ssl_again_errors, again.release());
    Py_XSETREF(state->ssl_certificate_error, certificate.release());
    Py_XSETREF(state->ssl_memory_bio, memory_bio.release());
    return true;
}

bool set_protocol(TlsTransportObject* tls, ModuleState* state, PyObject* protocol) noexcept {
    const int buffered = is_buffered(state, protocol);
    if (buffered < 0) {
        return false;
    }
    Py_XSETREF(tls->protocol, Py_NewRef(protocol));
    tls->buffered_protocol = buffered != 0;
    Py_XSETREF(tls->asyncio_reader, asyncio_reader_of(state, protocol));
    return true;
}

PyObject* tls_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop",
                                  "protocol",
                                  "sslcontext",
                                  "waiter",
                                  "server_side",
                                  "server_hostname",
                                  "call_connection_made",
                                  "ssl_handshake_timeout",
                                  "ssl_shutdown_timeout",
                                  nullptr};
    PyObject* loop = nullptr;
    PyObject* protocol = nullptr;
    PyObject* context = nullptr;
    PyObject* waiter = nullptr;
    int server_side = 0;
    PyObject* hostname = nullptr;
    int call_connection_made = 0;
    PyObject* handshake_timeout = nullptr;
    PyObject* shutdown_timeout = nullptr;
    ModuleState* state = state_of(type);
    if (state == nullptr ||
        !PyArg_ParseTupleAndKeywords(
            arguments, keywords, "O!OOOpOpOO:SSLTransport", const_cast<char**>(names),
            state->loop_type, &loop, &protocol, &context, &waiter, &server_side, &hostname,
            &call_connection_made, &handshake_timeout, &shutdown_timeout) ||
        !import_ssl(state)) {
        return nullptr;
    }
    auto session = TlsSession::open(state, context, server_side != 0, hostname);
    if (!session) {
        return nullptr;
    }
    Ref self(type->tp_alloc(type, 0));
    if (!self) {
        return nullptr;
    }
    TlsTransportObject* tls = tls_of(self.get());
    tls->closed = true; // no warning about an unclosed transport until it is connected
    tls->write_marks = WaterMarks::below(default_write_high_water);
    tls->read_marks = WaterMarks::below(default_read_high_water);
    tls->session = session.release();
    tls->notified = call_connection_made != 0 ? Notified::nothing : Notified::made;
    tls->handshake_timeout = Py_NewRef(handshake_timeout);
    tls->shutdown_timeout = Py_NewRef(shutdown_timeout);
    tls->waiter = waiter != Py_None ? Py_NewRef(waiter) : nullptr;
    tls->extra = PyDict_New();
    if (tls->extra == nullptr || PyDict_SetItem(tls->extra, state->name_sslcontext, context) != 0 ||
        !set_protocol(tls, state, protocol)) {
        return nullptr;
    }
    tls->loop = reinterpret_cast<LoopObject*>(Py_NewRef(loop));
    tls->closed = false;
    return self.release();
}

// ---- asyncio.Transport --------------------------------------------------------------------------

bool refuse_data(PyObject* data) noexcept {
    if (PyBytes_Check(data) || PyByteArray_Check(data) || PyMemoryView_Check(data)) {
        return false;
    }
    PyErr_Format(PyExc_TypeError, "data: expecting a bytes-like instance, got %s",
                 Py_TYPE(data)->tp_name);
    return true;
}

PyObject* none_if(bool done) noexcept {
    return done ? Py_NewRef(Py_None) : nullptr;
}

PyObject* tls_write(PyObject* self, PyObject* data) {
    if (refuse_data(data)) {
        return nullptr;
    }
    const int truth =
        PyBytes_CheckExact(data) ? (PyBytes_GET_SIZE(data) > 0 ? 1 : 0) : PyObject_IsTrue(data);
    if (truth <= 0) {
        return none_if(truth == 0);
    }
    return none_if(write_data(tls_of(self), data));
}

/// Joins the chunks into one record, instead of one record for each chunk.
PyObject* tls_writelines(PyObject* self, PyObject* list_of_data) {
    const Ref chunks(
        PySequence_Fast(list_of_data, "writelines() takes an iterable of bytes-like objects"));
    if (!chunks) {
        return nullptr;
    }
    const Ref empty(PyBytes_FromStringAndSize(nullptr, 0));
    const Ref joined(empty ? PyObject_CallMethod(empty.get(), "join", "(O)", chunks.get())
                           : nullptr);
    return joined ? tls_write(self, joined.get()) : nullptr;
}

PyObject* tls_write_eof(PyObject* /*self*/, PyObject* /*unused*/) {
    PyErr_SetNone(PyExc_NotImplementedError);
    return nullptr;
}

PyObject* tls_can_write_eof(PyObject* /*self*/, PyObject* /*unused*/) {
    Py_RETURN_FALSE;
}

PyObject* tls_close(PyObject* self, PyObject* /*unused*/) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    if (!tls->closed) {
        tls->closed = true;
        if (tls->loop != nullptr) {
            begin_shutdown(tls);
        }
    }
    Py_RETURN_NONE;
}

PyObject* tls_force_close(PyObject* self, PyObject* reason) {
    TlsTransportObject* tls = tls_of(self);
    const Ref exception(reason != Py_None ? exception_of(reason).release() : nullptr);
    if (!exception && reason != Py_None) {
        return nullptr;
    }
    tls->closed = true;
    if (tls->loop != nullptr) {
        abort_connection(tls, exception.get());
    }
    Py_RETURN_NONE;
}

PyObject* tls_abort(PyObject* self, PyObject* /*unused*/) {
    return tls_force_close(self, Py_None);
}

PyObject* tls_is_closing(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(is_closing(tls_of(self)));
}

PyObject* tls_is_reading(PyObject* self, PyObject* /*unused*/) {
    return PyBool_FromLong(!tls_of(self)->paused);
}

PyObject* tls_pause_reading(PyObject* self, PyObject* /*unused*/) {
    tls_of(self)->paused = true;
    Py_RETURN_NONE;
}

PyObject* tls_resume_reading(PyObject* self, PyObject* /*unused*/) {
    TlsTransportObject* tls = tls_of(self);
    if (!tls->paused) {
        Py_RETURN_NONE;
    }
    tls->paused = false;
    return none_if(schedule_resume(tls));
}

PyObject* tls_set_write_buffer_limits(PyObject* self, PyObject* arguments, PyObject* keywords) {
    TlsTransportObject* tls = tls_of(self);
    if (!WaterMarks::parse(tls->write_marks, arguments, keywords, "|OO:set_write_buffer_limits",
                           default_write_high_water)) {
        return nullptr;
    }
    control_writing(tls);
    Py_RETURN_NONE;
}

PyObject* tls_get_write_buffer_limits(PyObject* self, PyObject* /*unused*/) {
    return tls_of(self)->write_marks.as_tuple();
}

PyObject* tls_get_write_buffer_size(PyObject* self, PyObject* /*unused*/) {
    return PyLong_FromSize_t(backlog_size(tls_of(self)));
}

PyObject* tls_set_read_buffer_limits(PyObject* self, PyObject* arguments, PyObject* keywords) {
    TlsTransportObject* tls = tls_of(self);
    if (!WaterMarks::parse(tls->read_marks, arguments, keywords, "|OO:set_read_buffer_limits",
                           default_read_high_water)) {
        return nullptr;
    }
    if (tls->loop != nullptr) {
        control_raw_reading(tls);
    }
    Py_RETURN_NONE;
}

PyObject* tls_get_read_buffer_limits(PyObject* self, PyObject* /*unused*/) {
    return tls_of(self)->read_marks.as_tuple();
}

PyObject* tls_get_read_buffer_size(PyObject* self, PyObject* /*unused*/) {
    return PyLong_FromSize_t(tls_of(self)->session->unread());
}

PyObject* tls_get_protocol(PyObject* self, PyObject* /*unused*/) {
    PyObject* protocol = tls_of(self)->protocol;
    return Py_NewRef(protocol != nullptr ? protocol : Py_None);
}

PyObject* tls_set_protocol(PyObject* self, PyObject* protocol) {
    TlsTransportObject* tls = tls_of(self);
    return none_if(tls->loop == nullptr || set_protocol(tls, tls->loop->state, protocol));
}

PyObject* tls_get_extra_info(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) {
    InfoRequest info{};
    if (!info.parse(arguments, count, keywords)) {
        return nullptr;
    }
    const TlsTransportObject* tls = tls_of(self);
    if (PyObject* known = PyDict_GetItemWithError(tls->extra, info.name)) {
        return Py_NewRef(known);
    }
    if (PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    return tls->raw != nullptr ? PyObject_CallMethod(as_object(tls->raw), "get_extra_info", "OO",
                                                     info.name, info.fallback)
                               : Py_NewRef(info.fallback);
}

// ---- asyncio's private interface ---------------------------------------------------------------

/// `loop.start_tls` calls this with the transport that it upgrades.
PyObject* tls_connect(PyObject* self, PyObject* raw) {
    if (Py_TYPE(raw) != state_of(Py_TYPE(self))->socket_transport_type) {
        PyErr_Format(PyExc_TypeError, "a SocketTransport is needed, not %R", raw);
        return nullptr;
    }
    connect_tls(self, transport_of(raw));
    Py_RETURN_NONE;
}

PyObject* tls_pause_writing(PyObject* self, PyObject* /*unused*/) {
    pause_raw_writing(self);
    Py_RETURN_NONE;
}

PyObject* tls_resume_writing(PyObject* self, PyObject* /*unused*/) {
    resume_raw_writing(self);
    Py_RETURN_NONE;
}

/// Takes records that arrived before the upgrade.
PyObject* tls_feed(PyObject* self, PyObject* data) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(data, &bytes, &size) != 0) {
        return nullptr;
    }
    try {
        TlsSession* session = tls_of(self)->session;
        session->feed(bytes, static_cast<std::size_t>(size));
        session->own_input();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

PyObject* tls_append_write_backlog(PyObject* self, PyObject* data) {
    const Ref bytes(PyBytes_FromObject(data));
    return none_if(bytes && add_to_backlog(tls_of(self), bytes.get(), 0));
}

PyObject* get_self(PyObject* self, void* /*unused*/) {
    return Py_NewRef(self);
}

PyObject* get_loop(PyObject* self, void* /*unused*/) {
    LoopObject* loop = tls_of(self)->loop;
    return Py_NewRef(loop != nullptr ? as_object(loop) : Py_None);
}

PyObject* get_transport(PyObject* self, void* /*unused*/) {
    const TlsTransportObject* tls = tls_of(self);
    return Py_NewRef(tls->loop != nullptr && tls->raw != nullptr ? as_object(tls->raw) : Py_None);
}

PyObject* get_protocol_paused(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(tls_of(self)->protocol_paused);
}

PyObject* get_true(PyObject* /*self*/, void* /*unused*/) {
    Py_RETURN_TRUE;
}

PyObject* get_sendfile_mode(PyObject* self, void* /*unused*/) {
    return upcall(state_of(Py_TYPE(self)), "tls_sendfile_mode", nullptr, 0).release();
}

PyObject* tls_repr(PyObject* self) {
    const TlsTransportObject* tls = tls_of(self);
    const char* state = tls->loop == nullptr               ? " closed"
                        : tls->closed                      ? " closing"
                        : tls->state == State::handshaking ? " handshaking"
                                                           : "";
    return tls->raw != nullptr ? PyUnicode_FromFormat("<SSLTransport%s over %R>", state, tls->raw)
                               : PyUnicode_FromFormat("<SSLTransport%s>", state);
}

// ---- Python type -------------------------------------------------------------------------------

int tls_traverse(PyObject* self, visitproc visit, void* arg) {
    TlsTransportObject* tls = tls_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(tls->extra);
    Py_VISIT(tls->loop);
    Py_VISIT(tls->raw);
    if (tls->session != nullptr) {
        Py_VISIT(tls->session->ssl_object());
    }
    Py_VISIT(tls->protocol);
    Py_VISIT(tls->attributes);
    Py_VISIT(tls->asyncio_reader);
    Py_VISIT(tls->context);
    Py_VISIT(tls->waiter);
    Py_VISIT(tls->handshake_timer);
    Py_VISIT(tls->shutdown_timer);
    return 0;
}

int tls_clear(PyObject* self) {
    TlsTransportObject* tls = tls_of(self);
    tls->state = State::unwrapped;
    Py_CLEAR(tls->loop);
    Py_CLEAR(tls->extra);
    Py_CLEAR(tls->raw);
    Py_CLEAR(tls->protocol);
    Py_CLEAR(tls->attributes);
    Py_CLEAR(tls->asyncio_reader);
    Py_CLEAR(tls->context);
    Py_CLEAR(tls->waiter);
    Py_CLEAR(tls->handshake_timer);
    Py_CLEAR(tls->shutdown_timer);
    return 0;
}

void tls_finalize(PyObject* self) {
    TlsTransportObject* tls = tls_of(self);
    if (tls->closed) {
        return;
    }
    tls->closed = true;
    Ref exception = take_exception();
    if (PyErr_ResourceWarning(self, 1, "unclosed transport %R", self) != 0) {
        PyErr_WriteUnraisable(self);
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

void tls_dealloc(PyObject* self) {
    if (PyObject_CallFinalizerFromDealloc(self) < 0) {
        return; // resurrected
    }
    TlsTransportObject* tls = tls_of(self);
    PyObject_GC_UnTrack(self);
    if (tls->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    tls_clear(self);
    Py_CLEAR(tls->handshake_timeout);
    Py_CLEAR(tls->shutdown_timeout);
    delete std::exchange(tls->backlog, nullptr);
    delete std::exchange(tls->session, nullptr);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/// Replaces BaseTransport.__init__, which would reset the `_extra` that __new__ has set.
int keep_init(PyObject* /*self*/, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    return 0;
}

constexpr Parameters write_parameters{"write", "data"};
constexpr Parameters writelines_parameters{"writelines", "list_of_data"};
constexpr Parameters set_protocol_parameters{"set_protocol", "protocol"};

PyMethodDef tls_methods[] = {
    {"write", as_function(&with_one_parameter<&tls_write, write_parameters>),
     METH_FASTCALL | METH_KEYWORDS,
     "Encrypt and send data; what the socket does not take is queued."},
    {"writelines", as_function(&with_one_parameter<&tls_writelines, writelines_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Send several chunks together."},
    {"write_eof", &tls_write_eof, METH_NOARGS, "NotImplementedError: TLS has no half-close."},
    {"can_write_eof", &tls_can_write_eof, METH_NOARGS, "False."},
    {"close", &tls_close, METH_NOARGS, "Send queued data and close_notify, then close."},
    {"abort", &tls_abort, METH_NOARGS, "Close at once; queued data is dropped."},
    {"_force_close", &tls_force_close, METH_O, nullptr},
    {"is_closing", &tls_is_closing, METH_NOARGS, "Whether it is closing or closed."},
    {"is_reading", &tls_is_reading, METH_NOARGS, "Whether received data is delivered."},
    {"pause_reading", &tls_pause_reading, METH_NOARGS, "Stop delivering received data."},
    {"resume_reading", &tls_resume_reading, METH_NOARGS, "Undo pause_reading()."},
    {"get_write_buffer_size", &tls_get_write_buffer_size, METH_NOARGS,
     "The number of bytes that wait to be encrypted and sent."},
    {"get_write_buffer_limits", &tls_get_write_buffer_limits, METH_NOARGS,
     "The water marks (low, high) of flow control."},
    {"set_write_buffer_limits", as_function(&tls_set_write_buffer_limits),
     METH_VARARGS | METH_KEYWORDS, "Set the water marks of flow control, in bytes."},
    {"get_read_buffer_size", &tls_get_read_buffer_size, METH_NOARGS,
     "Received bytes that wait for the protocol to resume reading."},
    {"get_read_buffer_limits", &tls_get_read_buffer_limits, METH_NOARGS,
     "The sizes (low, high) of the read buffer at which the socket is resumed and paused."},
    {"set_read_buffer_limits", as_function(&tls_set_read_buffer_limits),
     METH_VARARGS | METH_KEYWORDS,
     "Set the sizes of the read buffer at which the socket is paused and resumed, in bytes."},
    {"get_protocol", &tls_get_protocol, METH_NOARGS, "The protocol."},
    {"set_protocol", as_function(&with_one_parameter<&tls_set_protocol, set_protocol_parameters>),
     METH_FASTCALL | METH_KEYWORDS, "Switch to another protocol."},
    {"get_extra_info", as_function(&tls_get_extra_info), METH_FASTCALL | METH_KEYWORDS,
     "sslcontext, ssl_object, peercert, cipher, compression, and the socket's own."},
    {"_connect", &tls_connect, METH_O, nullptr},
    {"_feed", &tls_feed, METH_O, nullptr},
    {"_check_handshake_timeout", &tls_check_handshake_timeout, METH_NOARGS, nullptr},
    {"_check_shutdown_timeout", &tls_check_shutdown_timeout, METH_NOARGS, nullptr},
    {"pause_writing", &tls_pause_writing, METH_NOARGS, nullptr},
    {"resume_writing", &tls_resume_writing, METH_NOARGS, nullptr},
    {"_test__append_write_backlog", &tls_append_write_backlog, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef tls_attributes[] = {
    {"_ssl_protocol", &get_self, nullptr, nullptr, nullptr},
    {"_transport", &get_transport, nullptr, nullptr, nullptr},
    {"_loop", &get_loop, nullptr, nullptr, nullptr},
    {"_protocol_paused", &get_protocol_paused, nullptr, nullptr, nullptr},
    {"_start_tls_compatible", &get_true, nullptr, nullptr, nullptr},
    {"_sendfile_compatible", &get_sendfile_mode, nullptr, nullptr, nullptr},
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef tls_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(TlsTransportObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(TlsTransportObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot tls_slots[] = {
    {Py_tp_doc, const_cast<char*>("The transport of a TLS connection over a SocketTransport.")},
    {Py_tp_new, reinterpret_cast<void*>(&tls_new)},
    {Py_tp_init, reinterpret_cast<void*>(&keep_init)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&tls_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&tls_finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(&tls_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&tls_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&tls_repr)},
    {Py_tp_methods, tls_methods},
    {Py_tp_members, tls_members},
    {Py_tp_getset, tls_attributes},
    {0, nullptr},
};

PyType_Spec tls_spec = {
    .name = "penstock._core.SSLTransport",
    .basicsize = sizeof(TlsTransportObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = tls_slots,
};

} // namespace

bool add_tls_transport_type(PyObject* module, ModuleState* state) {
    // The base class of the socket transport, whose layout is checked there.
    state->tls_transport_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(
        module, &tls_spec, reinterpret_cast<PyObject*>(state->socket_transport_type->tp_base)));
    return state->tls_transport_type != nullptr &&
           PyModule_AddType(module, state->tls_transport_type) == 0;
}

} // namespace penstock::python
