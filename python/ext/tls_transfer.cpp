// The bytes of a TLS transport: decrypting, encrypting, flow control.

#include "tls_transport.hpp"

#include "asyncio_reader.hpp"

#include <new>

namespace penstock::python {

namespace {

using State = TlsTransportObject::State;
using Told = TlsTransportObject::Told;
using Outcome = TlsSession::Outcome;

/// Records are handed to the socket when they make up this many bytes: enough to spare system calls,
/// little enough to stay in the cache.
constexpr std::size_t send_size = std::size_t{128} * 1024;

/// What OpenSSL puts into one record.
constexpr std::size_t largest_record = 16384;

void send_record(void* raw, const char* record, std::size_t size) {
    send_copy(static_cast<SocketTransportObject*>(raw), record, size, Hold::allowed);
}

bool is_readable(const TlsTransportObject* tls) noexcept {
    return tls->state == State::open || tls->state == State::flushing;
}

bool delivers(const TlsTransportObject* tls) noexcept {
    return !tls->paused && is_readable(tls);
}

/// Decrypts into `to` until it is full or nothing is left.
Outcome decrypt(TlsSession& session, char* to, std::size_t size, std::size_t& count) noexcept {
    count = 0;
    while (count < size) {
        std::size_t part = 0;
        const Outcome outcome = session.read(to + count, size - count, part);
        count += part;
        if (outcome != Outcome::done) {
            return outcome;
        }
        if (session.unread() == 0 && count < size) {
            return Outcome::again; // asking OpenSSL would give the same
        }
    }
    return Outcome::done;
}

/// Hands `data[:size]`, a bytes object that nobody else has, to the protocol. False with an exception
/// set.
bool hand_over(TlsTransportObject* tls, PyObject* data, std::size_t size) noexcept {
    if (tls->asyncio_reader != nullptr) {
        const Ref owner(data);
        return feed_asyncio_reader(tls->loop->state, tls->asyncio_reader, PyBytes_AS_STRING(data),
                                   size, Feeding::anywhere);
    }
    if (_PyBytes_Resize(&data, static_cast<Py_ssize_t>(size)) != 0) {
        return false;
    }
    const Ref owner(data);
    return static_cast<bool>(
        call_method(tls->protocol, tls->loop->state->name_data_received, data));
}

/// Everything that has arrived, in one bytes object.
Outcome deliver_data(TlsTransportObject* tls) noexcept {
    const std::size_t bound = tls->session->readable_at_most();
    PyObject* data = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bound));
    if (data == nullptr) {
        return Outcome::failed;
    }
    std::size_t count = 0;
    const Outcome outcome = decrypt(*tls->session, PyBytes_AS_STRING(data), bound, count);
    if (count == 0) {
        Py_DECREF(data);
        return outcome;
    }
    Ref error = outcome == Outcome::failed ? take_exception() : Ref();
    if (!hand_over(tls, data, count)) {
        return Outcome::failed;
    }
    if (error) {
        raise_exception(std::move(error));
    }
    return outcome;
}

/// As much as the buffer of a BufferedProtocol takes.
Outcome deliver_into_buffer(TlsTransportObject* tls) noexcept {
    const Ref hint(PyLong_FromSize_t(tls->session->unread()));
    const ModuleState* state = tls->loop->state;
    const Ref target =
        hint ? call_method(tls->protocol, state->name_get_buffer, hint.get()) : Ref();
    Py_buffer buffer;
    if (!target || PyObject_GetBuffer(target.get(), &buffer, PyBUF_WRITABLE) != 0) {
        return Outcome::failed;
    }
    if (buffer.len == 0) {
        PyBuffer_Release(&buffer);
        PyErr_SetString(PyExc_RuntimeError, "get_buffer() returned an empty buffer");
        return Outcome::failed;
    }
    if (!is_readable(tls)) { // get_buffer() has closed it
        PyBuffer_Release(&buffer);
        return Outcome::again;
    }
    std::size_t count = 0;
    const Outcome outcome = decrypt(*tls->session, static_cast<char*>(buffer.buf),
                                    static_cast<std::size_t>(buffer.len), count);
    Ref error = outcome == Outcome::failed ? take_exception() : Ref();
    PyBuffer_Release(&buffer);
    if (count > 0) {
        const Ref size(PyLong_FromSize_t(count));
        if (!size || !call_method(tls->protocol, state->name_buffer_updated, size.get())) {
            return Outcome::failed;
        }
    }
    if (error) {
        raise_exception(std::move(error));
    }
    return outcome;
}

/// Encrypts as much as the socket takes; `count` is what was encrypted. False with an exception set.
bool encrypt(TlsTransportObject* tls, const char* data, std::size_t size,
             std::size_t& count) noexcept {
    count = 0;
    TlsSession& session = *tls->session;
    // One record is sent from where OpenSSL has it; several are put together for one system call.
    const TlsSession::Send send = size <= largest_record ? &send_record : nullptr;
    while (count < size && !tls->raw_writing_paused) {
        std::size_t part = 0;
        const Outcome outcome = session.write(data + count, size - count, part, send, tls->raw);
        count += part;
        if (outcome == Outcome::failed) {
            return false;
        }
        if (outcome != Outcome::done) {
            break; // in a renegotiation: the peer is to speak first
        }
        if (session.output().size() >= send_size) {
            send_output(tls, Hold::allowed);
        }
    }
    send_output(tls, Hold::allowed);
    return true;
}

/// Counts a write that came too late; warns as asyncio does.
bool note_lost_write(TlsTransportObject* tls) noexcept {
    constexpr unsigned log_threshold = 5;
    if (tls->lost_writes >= log_threshold &&
        !call_rare_path(state_of(Py_TYPE(tls)), "warn_of_lost_tls_write", nullptr, 0)) {
        return false;
    }
    ++tls->lost_writes;
    return true;
}

bool write_now(const TlsTransportObject* tls) noexcept {
    return tls->state == State::open && !tls->raw_writing_paused && backlog_size(tls) == 0;
}

void resume_step(LoopObject* /*loop*/, PyObject* target) {
    TlsTransportObject* tls = tls_of(target);
    if (tls->loop == nullptr) {
        return;
    }
    const ProtocolContext context(tls->context);
    if (tls->state == State::open) {
        read_available(tls);
    } else {
        continue_shutdown(tls);
    }
}

void tell_writing(TlsTransportObject* tls, bool paused) noexcept {
    tls->protocol_paused = paused;
    const ModuleState* state = tls->loop->state;
    PyObject* method = paused ? state->name_pause_writing : state->name_resume_writing;
    const Ref protocol = Ref::borrow(tls->protocol);
    const ProtocolContext context(tls->context);
    if (!Ref(PyObject_CallMethodNoArgs(protocol.get(), method))) {
        report_raised(tls->loop,
                      paused ? "protocol.pause_writing() failed"
                             : "protocol.resume_writing() failed",
                      as_object(tls), protocol.get());
    }
}

} // namespace

// ---- in -----------------------------------------------------------------------------------------

void receive_records(PyObject* self, const char* data, std::size_t size) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    if (tls->loop == nullptr) {
        return;
    }
    try {
        tls->session->feed(data, size);
        switch (tls->state) {
        case State::open:
            read_available(tls);
            break;
        case State::handshaking:
            continue_handshake(tls);
            break;
        case State::flushing:
        case State::ending:
            continue_shutdown(tls);
            break;
        case State::unwrapped:
            break;
        }
        tls->session->keep_rest();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        fail_with_raised(tls, "Fatal error on SSL protocol");
    }
}

void read_available(TlsTransportObject* tls) noexcept {
    while (delivers(tls) && tls->session->may_read()) {
        const Outcome outcome =
            tls->buffered_protocol ? deliver_into_buffer(tls) : deliver_data(tls);
        if (outcome == Outcome::failed) {
            fail_with_raised(tls, "Fatal error on SSL protocol");
            return;
        }
        if (outcome == Outcome::closed) {
            tell_eof(tls);
            begin_shutdown(tls);
            break;
        }
        if (outcome == Outcome::again) {
            break;
        }
    }
    if (tls->loop == nullptr) {
        return;
    }
    if (backlog_size(tls) > 0) {
        write_backlog(tls);
    } else if (!tls->session->output().empty()) {
        send_output(tls);
    }
    if (tls->raw_reading_paused || tls->session->unread() > 0) {
        control_raw_reading(tls);
    }
}

void tell_eof(TlsTransportObject* tls) noexcept {
    if (tls->told != Told::made || tls->protocol == nullptr) {
        return;
    }
    tls->told = Told::ended;
    const Ref protocol = Ref::borrow(tls->protocol); // which may set another one
    const Ref keep_open(
        PyObject_CallMethodNoArgs(protocol.get(), tls->loop->state->name_eof_received));
    const int truth = keep_open ? PyObject_IsTrue(keep_open.get()) : -1;
    if (truth < 0 ||
        (truth > 0 && !call_rare_path(tls->loop->state, "warn_of_tls_kept_open", nullptr, 0))) {
        fail_with_raised(tls, "Error calling eof_received()");
    }
}

void control_raw_reading(TlsTransportObject* tls) noexcept {
    const std::size_t size = tls->session->unread();
    if (!tls->raw_reading_paused && size >= tls->read_marks.high && size > 0) {
        tls->raw_reading_paused = true;
    } else if (tls->raw_reading_paused && size <= tls->read_marks.low) {
        tls->raw_reading_paused = false;
    } else {
        return;
    }
    if (tls->raw != nullptr && !tls->raw->closing) {
        tls->raw->paused = tls->raw_reading_paused;
        update_interest(tls->raw);
    }
}

bool schedule_resume(TlsTransportObject* tls) noexcept {
    return tls->loop == nullptr || schedule_native(tls->loop, &resume_step, as_object(tls));
}

// ---- out ----------------------------------------------------------------------------------------

void send_output(TlsTransportObject* tls, Hold hold) noexcept {
    std::vector<char>& output = tls->session->output();
    if (output.empty()) {
        return;
    }
    if (tls->raw != nullptr) {
        send_copy(tls->raw, output.data(), output.size(), hold);
    }
    output.clear();
}

bool add_to_backlog(TlsTransportObject* tls, PyObject* data, std::size_t offset) noexcept {
    try {
        if (tls->backlog == nullptr) {
            tls->backlog = new WriteQueue;
        }
        tls->backlog->append(data, offset);
        return true;
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return false;
    }
}

void write_backlog(TlsTransportObject* tls) noexcept {
    while (backlog_size(tls) > 0 && !tls->raw_writing_paused &&
           (tls->state == State::open || tls->state == State::flushing)) {
        iovec chunk{};
        tls->backlog->fill(&chunk, 1);
        std::size_t count = 0;
        if (!encrypt(tls, static_cast<const char*>(chunk.iov_base), chunk.iov_len, count)) {
            fail_with_raised(tls, "Fatal error on SSL protocol");
            return;
        }
        if (count == 0) {
            break;
        }
        tls->backlog->consume(count);
    }
    send_output(tls);
    control_writing(tls);
}

void control_writing(TlsTransportObject* tls) noexcept {
    if (tls->loop == nullptr || tls->protocol == nullptr) {
        return;
    }
    const std::size_t size = backlog_size(tls);
    // asyncio also pauses at a high mark of 0 when nothing waits, and then nothing resumes.
    if (!tls->protocol_paused && size >= tls->write_marks.high && size > 0) {
        tell_writing(tls, true);
    } else if (tls->protocol_paused && size <= tls->write_marks.low) {
        tell_writing(tls, false);
    }
}

void pause_raw_writing(PyObject* self) {
    tls_of(self)->raw_writing_paused = true;
}

void resume_raw_writing(PyObject* self) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    tls->raw_writing_paused = false;
    if (tls->loop == nullptr) {
        return;
    }
    if (backlog_size(tls) > 0) {
        write_backlog(tls);
    }
    if (tls->state == State::flushing) {
        continue_shutdown(tls);
    }
}

bool write_data(TlsTransportObject* tls, PyObject* data) noexcept {
    if (tls->state != State::open && tls->state != State::handshaking) {
        return note_lost_write(tls);
    }
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) {
        if (!PyMemoryView_Check(data)) {
            return false;
        }
        // A memoryview that is not contiguous: send a flat copy.
        PyErr_Clear();
        const Ref flat(PyObject_CallMethod(data, "tobytes", nullptr));
        return flat && write_data(tls, flat.get());
    }
    const auto size = static_cast<std::size_t>(view.len);
    std::size_t count = 0;
    if (write_now(tls) && !encrypt(tls, static_cast<const char*>(view.buf), size, count)) {
        PyBuffer_Release(&view);
        fail_with_raised(tls, "Fatal error on SSL protocol");
        return true;
    }
    bool kept = true;
    if (count < size) {
        // Only bytes cannot change before they are sent.
        const bool own = PyBytes_CheckExact(data) != 0;
        const Ref bytes(own ? Py_NewRef(data)
                            : PyBytes_FromStringAndSize(static_cast<char*>(view.buf) + count,
                                                        static_cast<Py_ssize_t>(size - count)));
        kept = bytes && add_to_backlog(tls, bytes.get(), own ? count : 0);
    }
    PyBuffer_Release(&view);
    if (kept && tls->state == State::open && (backlog_size(tls) > 0 || tls->protocol_paused)) {
        control_writing(tls);
    }
    return kept;
}

} // namespace penstock::python
