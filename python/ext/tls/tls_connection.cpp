// Handshake, shutdown and loss of a TLS connection.

#include "tls/tls_transport.hpp"

#include "core/memory_reserve.hpp"

#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

namespace {

using State = TlsTransportObject::State;
using Notified = TlsTransportObject::Notified;
using Outcome = TlsSession::Outcome;

bool start_timer(TlsTransportObject* tls, PyObject*& timer, PyObject* seconds,
                 PyObject* method) noexcept {
    const Ref callback(PyObject_GetAttr(as_object(tls), method));
    Ref handle(callback ? PyObject_CallMethodObjArgs(as_object(tls->loop),
                                                     tls->loop->state->name_call_later, seconds,
                                                     callback.get(), nullptr)
                        : nullptr);
    Py_XSETREF(timer, handle.release());
    return timer != nullptr;
}

void stop_timer(TlsTransportObject* tls, PyObject*& timer) noexcept {
    const Ref handle(std::exchange(timer, nullptr));
    if (handle &&
        !Ref(PyObject_CallMethodNoArgs(handle.get(), state_of(Py_TYPE(tls))->name_cancel))) {
        PyErr_WriteUnraisable(as_object(tls));
    }
}

void log_debug(TlsTransportObject* tls, const char* function, PyObject* argument) noexcept {
    if (!tls->loop->debug) {
        return;
    }
    PyObject* arguments[] = {as_object(tls), argument};
    if (!upcall(tls->loop->state, function, arguments, 2)) {
        PyErr_WriteUnraisable(as_object(tls));
    }
}

/// Completes the wait for the handshake. `exception` is null on success.
void wake_waiter(TlsTransportObject* tls, PyObject* exception) noexcept {
    const Ref waiter(std::exchange(tls->waiter, nullptr));
    if (!waiter) {
        return;
    }
    const ModuleState* state = tls->loop->state;
    const Ref cancelled(PyObject_CallMethodNoArgs(waiter.get(), state->name_cancelled));
    if (cancelled && cancelled.get() == Py_True) {
        return;
    }
    PyObject* method = exception != nullptr ? state->name_set_exception : state->name_set_result;
    if (!cancelled || !Ref(PyObject_CallMethodOneArg(waiter.get(), method,
                                                     exception != nullptr ? exception : Py_None))) {
        report_raised(tls->loop, "Fatal error on SSL protocol", as_object(tls), nullptr);
    }
}

/// Ends the handshake with the raised exception.
void fail_handshake(TlsTransportObject* tls) noexcept {
    if (exception_ends_program()) {
        interrupt_with_raised(tls->loop);
        return;
    }
    const Ref exception = take_exception();
    tls->state = State::unwrapped;
    const bool certificate =
        PyErr_GivenExceptionMatches(exception.get(), tls->loop->state->ssl_certificate_error) != 0;
    raise_exception(Ref::borrow(exception.get()));
    fail_with_raised(tls, certificate ? "SSL handshake failed on verifying the certificate"
                                      : "SSL handshake failed");
    wake_waiter(tls, exception.get());
}

/// Stores the outcome of the handshake for get_extra_info().
bool keep_session_info(TlsTransportObject* tls) noexcept {
    const ModuleState* state = tls->loop->state;
    PyObject* object = tls->session->ssl_object();
    PyObject* const methods[][2] = {{state->name_peercert, state->name_getpeercert},
                                    {state->name_cipher, state->name_cipher},
                                    {state->name_compression, state->name_compression}};
    for (const auto& [name, method] : methods) {
        const Ref value(PyObject_CallMethodNoArgs(object, method));
        if (!value || PyDict_SetItem(tls->extra, name, value.get()) != 0) {
            return false;
        }
    }
    return PyDict_SetItem(tls->extra, state->name_ssl_object, object) == 0;
}

void finish_handshake(TlsTransportObject* tls) noexcept {
    stop_timer(tls, tls->handshake_timer);
    tls->state = State::open;
    if (!keep_session_info(tls)) {
        fail_handshake(tls);
        return;
    }
    if (tls->loop->debug) {
        const Ref took(PyFloat_FromDouble(static_cast<double>(io::monotonic_now()) / 1e9 -
                                          tls->handshake_began));
        log_debug(tls, "log_handshake", took ? took.get() : Py_None);
    }
    const bool upgraded = tls->notified != Notified::nothing;
    if (!upgraded) {
        tls->notified = Notified::made;
        if (!call_method(tls->protocol, tls->loop->state->name_connection_made, as_object(tls))) {
            fail_with_raised(tls, "Fatal error: protocol.connection_made() call failed.");
            return;
        }
    }
    wake_waiter(tls, nullptr);
    // The task that awaits start_tls() runs first: until then the protocol has only the transport
    // below, and would answer the first data without encryption. asyncio delivers at once.
    if (!upgraded) {
        read_available(tls);
    } else if (!schedule_resume(tls)) {
        fail_handshake(tls);
    }
}

void close_raw_step(LoopObject* /*loop*/, PyObject* target) {
    if (!close_gracefully(tls_of(target)->raw)) {
        PyErr_WriteUnraisable(target);
    }
}

/// Starts the timer that bounds the rest of a shutdown, whichever side has begun it.
bool limit_shutdown(TlsTransportObject* tls) noexcept {
    return tls->shutdown_timer != nullptr ||
           start_timer(tls, tls->shutdown_timer, tls->shutdown_timeout,
                       tls->loop->state->name_check_shutdown_timeout);
}

/// Closes the socket in the next iteration, as asyncio does: callbacks that the protocol has
/// scheduled run before connection_lost. A peer that does not read may block the queue, so the
/// timer runs until the connection is lost.
void finish_shutdown(TlsTransportObject* tls) noexcept {
    if (!limit_shutdown(tls)) {
        PyErr_WriteUnraisable(as_object(tls));
    }
    if (!schedule_native(tls->loop, &close_raw_step, as_object(tls))) {
        PyErr_Clear(); // no memory for a handle: close now instead
        close_raw_step(tls->loop, as_object(tls));
    }
}

/// The socket transport has all written data: exchanges close_notify.
void end_session(TlsTransportObject* tls) noexcept {
    if (!tls->eof_received) {
        const Outcome outcome = tls->session->shutdown();
        Ref exception = take_exception();
        send_output(tls);
        if (outcome == Outcome::again) {
            return;
        }
        if (outcome == Outcome::failed) {
            stop_timer(tls, tls->shutdown_timer);
            raise_exception(std::move(exception));
            fail_with_raised(tls, "Fatal error on transport");
            return;
        }
    }
    notify_eof(tls);
    finish_shutdown(tls);
}

void forget_protocol(TlsTransportObject* tls) noexcept {
    Py_CLEAR(tls->protocol);
    Py_CLEAR(tls->asyncio_reader);
    Py_CLEAR(tls->context);
    Py_CLEAR(tls->loop);
}

void notify_lost(TlsTransportObject* tls, PyObject* reason) noexcept {
    tls->notified = Notified::lost;
    const Ref protocol = Ref::borrow(tls->protocol);
    if (!Ref(PyObject_CallMethodOneArg(protocol.get(), tls->loop->state->name_connection_lost,
                                       reason))) {
        report_raised(tls->loop, "Exception in callback protocol.connection_lost()", as_object(tls),
                      protocol.get());
    }
}

bool receive_eof(PyObject* self) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    tls->eof_received = true;
    log_debug(tls, "log_received_eof", Py_None);
    switch (tls->state) {
    case State::handshaking:
        stop_timer(tls, tls->handshake_timer);
        PyErr_SetNone(PyExc_ConnectionResetError);
        fail_handshake(tls);
        return false;
    case State::open:
        tls->state = State::flushing;
        if (tls->paused) {
            return true;
        }
        break;
    case State::flushing:
    case State::ending:
        break;
    case State::unwrapped:
        return false;
    }
    continue_shutdown(tls);
    if (tls->state != State::flushing) {
        return false;
    }
    // The peer may still read the queued data.
    tls->closed = true;
    notify_eof(tls);
    if (!limit_shutdown(tls)) {
        PyErr_WriteUnraisable(self);
    }
    return true;
}

void lose_tls(PyObject* self, PyObject* reason) {
    TlsTransportObject* tls = tls_of(self);
    if (tls->loop == nullptr) {
        return;
    }
    const Ref alive = Ref::borrow(self);
    const bool in_handshake = tls->state == State::handshaking;
    tls->state = State::unwrapped;
    tls->closed = true;
    ++tls->lost_writes;
    if (tls->backlog != nullptr) {
        tls->backlog->clear();
    }
    stop_timer(tls, tls->shutdown_timer);
    stop_timer(tls, tls->handshake_timer);
    wake_waiter(tls, reason != Py_None ? reason : nullptr);
    if (!in_handshake && (tls->notified == Notified::made || tls->notified == Notified::ended)) {
        notify_lost(tls, reason);
    }
    forget_protocol(tls);
}

} // namespace

const NativeProtocol tls_protocol = {
    .connection_made = &connect_tls,
    .data_received = &receive_records,
    .eof_received = &receive_eof,
    .pause_writing = &pause_raw_writing,
    .resume_writing = &resume_raw_writing,
    .connection_lost = &lose_tls,
};

void connect_tls(PyObject* self, SocketTransportObject* raw) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    if (tls->loop == nullptr || raw->loop == nullptr) {
        return; // lost before the handshake began
    }
    tls->raw = transport_of(Py_NewRef(as_object(raw)));
    tls->context = Py_XNewRef(raw->context);
    tls->handshake_began = static_cast<double>(io::monotonic_now()) / 1e9;
    log_debug(tls, "log_handshake", Py_None);
    tls->state = State::handshaking;
    if (!start_timer(tls, tls->handshake_timer, tls->handshake_timeout,
                     tls->loop->state->name_check_handshake_timeout)) {
        fail_handshake(tls);
        return;
    }
    continue_handshake(tls);
}

void continue_handshake(TlsTransportObject* tls) noexcept {
    const Outcome outcome = tls->session->handshake();
    Ref exception = take_exception();
    // Sent on failure too: the alert tells the peer the reason (RFC 8446, 6.2). asyncio omits it.
    send_output(tls);
    if (outcome == Outcome::done) {
        if (tls->state == State::handshaking) {
            finish_handshake(tls);
        }
    } else if (outcome == Outcome::failed) {
        stop_timer(tls, tls->handshake_timer);
        raise_exception(std::move(exception));
        fail_handshake(tls);
    }
}

void begin_shutdown(TlsTransportObject* tls) noexcept {
    if (tls->state != State::handshaking && tls->state != State::open) {
        return;
    }
    tls->closed = true;
    if (tls->state == State::handshaking) {
        abort_connection(tls, nullptr);
        return;
    }
    tls->state = State::flushing;
    if (!limit_shutdown(tls)) {
        fail_with_raised(tls, "Fatal error on SSL protocol");
        return;
    }
    continue_shutdown(tls);
}

void continue_shutdown(TlsTransportObject* tls) noexcept {
    if (tls->state == State::flushing) {
        read_available(tls);
        if (tls->state != State::flushing || backlog_size(tls) > 0) {
            return;
        }
        tls->state = State::ending;
    }
    if (tls->state == State::ending) {
        end_session(tls);
    }
}

void abort_connection(TlsTransportObject* tls, PyObject* reason) noexcept {
    tls->state = State::unwrapped;
    if (tls->raw != nullptr) {
        force_close(tls->raw, reason);
    }
}

void fail_with_raised(TlsTransportObject* tls, const char* message) noexcept {
    LoopObject* loop = tls->loop;
    if (loop == nullptr) {
        PyErr_WriteUnraisable(as_object(tls));
        return;
    }
    if (exception_ends_program()) {
        interrupt_with_raised(loop);
        return;
    }
    const Ref exception = take_exception();
    const ReleasedReserve reserve(loop, exception.get());
    if (tls->raw != nullptr) {
        force_close(tls->raw, exception.get());
    }
    if (PyErr_GivenExceptionMatches(exception.get(), PyExc_OSError) == 0) {
        raise_exception(Ref::borrow(exception.get()));
        report_raised(loop, message, as_object(tls), tls->protocol);
    }
}

PyObject* tls_check_handshake_timeout(PyObject* self, PyObject* /*unused*/) {
    TlsTransportObject* tls = tls_of(self);
    if (tls->state == State::handshaking) {
        PyErr_Format(PyExc_ConnectionAbortedError,
                     "SSL handshake is taking longer than %S seconds: aborting the connection",
                     tls->handshake_timeout);
        fail_with_raised(tls, "Fatal error on transport");
    }
    Py_RETURN_NONE;
}

PyObject* tls_check_shutdown_timeout(PyObject* self, PyObject* /*unused*/) {
    TlsTransportObject* tls = tls_of(self);
    if (tls->state == State::flushing || tls->state == State::ending) {
        const Ref reason(PyObject_CallFunction(PyExc_TimeoutError, "s", "SSL shutdown timed out"));
        if (!reason) {
            return nullptr;
        }
        force_close(tls->raw, reason.get());
    }
    Py_RETURN_NONE;
}

} // namespace penstock::python
