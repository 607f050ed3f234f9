// Decrypting, encrypting and flow control of a TLS transport.

#include "tls/tls_transport.hpp"

#include "asgi/http_connection.hpp"
#include "streams/asyncio_stream_feed.hpp"

#include <new>
#include <utility>

namespace penstock::python {

namespace {

using State = TlsTransportObject::State;
using Notified = TlsTransportObject::Notified;
using Outcome = TlsSession::Outcome;

/// The size at which records go to the socket: large enough to save system calls, small enough to
/// stay in the cache.
constexpr std::size_t send_size = std::size_t{128} * 1024;

/// The content of one OpenSSL record.
constexpr std::size_t largest_record = 16384;

/// A vector that grew to `send_size` and one record more has at most twice as much.
constexpr std::size_t most_memory_kept = std::size_t{512} * 1024;

/// Gives a session without memory for records the loop's. The connections of a loop combine their
/// records in the same warm memory, one after the other, and an idle one holds none.
void take_record_memory(TlsTransportObject* tls) noexcept {
    std::vector<char>& output = tls->session->output();
    if (output.capacity() == 0 && tls->loop != nullptr && tls->loop->record_memory != nullptr) {
        output.swap(*tls->loop->record_memory);
    }
}

/// Drops the records of a session, and returns their memory to the loop.
void return_record_memory(TlsTransportObject* tls) noexcept {
    std::vector<char> memory;
    memory.swap(tls->session->output());
    memory.clear();
    LoopObject* loop = tls->loop;
    if (loop == nullptr || loop->closed || memory.capacity() > most_memory_kept) {
        return;
    }
    if (loop->record_memory == nullptr) {
        loop->record_memory = new (std::nothrow) std::vector<char>;
    }
    if (loop->record_memory != nullptr && loop->record_memory->capacity() < memory.capacity()) {
        loop->record_memory->swap(memory);
    }
}

void send_record(void* raw, const char* record, std::size_t size) {
    send_copy(static_cast<SocketTransportObject*>(raw), record, size);
}

bool is_readable(const TlsTransportObject* tls) noexcept {
    return tls->state == State::open || tls->state == State::flushing;
}

bool delivers(const TlsTransportObject* tls) noexcept {
    return !tls->paused && is_readable(tls);
}

/// Whether close() was called before the peer's end. A buffered protocol then gets one more buffer,
/// and as in asyncio one in each iteration while written data waits; what is left is dropped.
/// Without that bound, close() in buffer_updated() would call it again for all that has arrived.
bool closed_by_itself(const TlsTransportObject* tls) noexcept {
    return tls->closed && !tls->eof_received;
}

/// Decrypts into `to` until it is full or the data ends.
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
            return Outcome::again; // OpenSSL would return the same
        }
    }
    return Outcome::done;
}

/// Passes requests to the connection of an ASGI server, which runs the application: at once where
/// no task runs, as on a socket without TLS. False with an exception set.
bool pass_to_http(TlsTransportObject* tls, const char* data, std::size_t size) noexcept {
    const Ref protocol = Ref::borrow(tls->protocol);
    const Ref raw = Ref::borrow(as_object(tls->raw)); // the owner of its steps
    if (!tls->dispatching || !raw || !transport_of(raw.get())->direct_steps.allowed()) {
        return feed_http(http_of(protocol.get()), data, size, Feeding::anywhere);
    }
    tls->dispatching = false; // the application may have this called again
    const bool fed = transport_of(raw.get())->direct_steps.timed(
        [&] { return feed_http(http_of(protocol.get()), data, size, Feeding::from_dispatcher); });
    tls->dispatching = true;
    return fed;
}

/// Passes `data[:size]`, a bytes object without other references, to the protocol. False with an
/// exception set.
bool pass_to_protocol(TlsTransportObject* tls, PyObject* data, std::size_t size) noexcept {
    if (PyObject_TypeCheck(tls->protocol, tls->loop->state->http_connection_type) != 0) {
        const Ref owner(data);
        return pass_to_http(tls, PyBytes_AS_STRING(data), size);
    }
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

/// Delivers all data that has arrived in one bytes object.
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
    if (!pass_to_protocol(tls, data, count)) {
        return Outcome::failed;
    }
    if (error) {
        raise_exception(std::move(error));
    }
    return outcome;
}

/// Delivers as much data as the buffer of a BufferedProtocol takes.
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
    if (!is_readable(tls)) { // get_buffer() has closed the connection
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

/// Encrypts as much as the socket takes. `count` is the number of encrypted bytes. False with an
/// exception set.
bool encrypt(TlsTransportObject* tls, const char* data, std::size_t size,
             std::size_t& count) noexcept {
    count = 0;
    TlsSession& session = *tls->session;
    // A single record is sent from OpenSSL's buffer. Several are combined for one system call.
    const TlsSession::Send send = size <= largest_record ? &send_record : nullptr;
    while (count < size && !tls->raw_writing_paused) {
        if (send == nullptr) {
            take_record_memory(tls);
        }
        std::size_t part = 0;
        const Outcome outcome = session.write(data + count, size - count, part, send, tls->raw);
        count += part;
        if (outcome == Outcome::failed) {
            return false;
        }
        if (outcome != Outcome::done) {
            break; // in a renegotiation: the peer must send first
        }
        if (session.output().size() >= send_size) {
            send_output(tls);
        }
    }
    send_output(tls);
    return true;
}

/// Counts a write after the connection was lost. Warns as asyncio does.
bool note_lost_write(TlsTransportObject* tls) noexcept {
    constexpr unsigned log_threshold = 5;
    if (tls->lost_writes >= log_threshold &&
        !upcall(state_of(Py_TYPE(tls)), "warn_of_lost_tls_write", nullptr, 0)) {
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
    tls->reading_goes_on = false;
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

void notify_writing(TlsTransportObject* tls, bool paused) noexcept {
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

// ---- receiving ---------------------------------------------------------------------------------

void receive_records(PyObject* self, const char* data, std::size_t size) {
    TlsTransportObject* tls = tls_of(self);
    const Ref alive = Ref::borrow(self);
    if (tls->loop == nullptr) {
        return;
    }
    tls->dispatching = true;
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
        tls->session->own_input();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        fail_with_raised(tls, "Fatal error on SSL protocol");
    }
    tls->dispatching = false;
}

// A buffer of a BufferedProtocol may be much smaller than what has arrived. asyncio fills it once
// in an iteration. Here it is filled again while the protocol is fast, and the rest waits for the
// next iteration once it has taken `callbacks_slice`: others wait for that and one call. Data
// before an end is delivered at once, so that nothing has to remember the end.
void read_available(TlsTransportObject* tls) noexcept {
    const bool was_closed = closed_by_itself(tls);
    io::TimeSlice slice(callbacks_slice);
    slice.begin();
    while (delivers(tls) && tls->session->may_read()) {
        const Outcome outcome =
            tls->buffered_protocol ? deliver_into_buffer(tls) : deliver_data(tls);
        if (outcome == Outcome::failed) {
            fail_with_raised(tls, "Fatal error on SSL protocol");
            return;
        }
        if (outcome == Outcome::closed) {
            notify_eof(tls);
            begin_shutdown(tls);
            break;
        }
        if (outcome == Outcome::again) {
            break;
        }
        if (tls->buffered_protocol && closed_by_itself(tls)) {
            if (was_closed && !schedule_resume(tls)) {
                PyErr_WriteUnraisable(as_object(tls));
            }
            break;
        }
        if (tls->state == State::open && slice.is_over()) {
            if (!std::exchange(tls->reading_goes_on, true) && !schedule_resume(tls)) {
                fail_with_raised(tls, "Fatal error on SSL protocol");
                return;
            }
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

void notify_eof(TlsTransportObject* tls) noexcept {
    if (tls->notified != Notified::made || tls->protocol == nullptr) {
        return;
    }
    tls->notified = Notified::ended;
    const Ref protocol = Ref::borrow(tls->protocol); // the call may set another protocol
    const Ref keep_open(
        PyObject_CallMethodNoArgs(protocol.get(), tls->loop->state->name_eof_received));
    const int truth = keep_open ? PyObject_IsTrue(keep_open.get()) : -1;
    if (truth < 0 ||
        (truth > 0 && !upcall(tls->loop->state, "warn_of_tls_kept_open", nullptr, 0))) {
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

// ---- sending -----------------------------------------------------------------------------------

void send_output(TlsTransportObject* tls) noexcept {
    std::vector<char>& output = tls->session->output();
    if (output.empty()) {
        return;
    }
    if (tls->raw != nullptr) {
        send_copy(tls->raw, output.data(), output.size());
    }
    return_record_memory(tls);
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
    // asyncio also pauses at a high mark of 0 with an empty buffer, and then never resumes.
    if (!tls->protocol_paused && size >= tls->write_marks.high && size > 0) {
        notify_writing(tls, true);
    } else if (tls->protocol_paused && size <= tls->write_marks.low) {
        notify_writing(tls, false);
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
        // A memoryview that is not contiguous: sends a contiguous copy.
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
        // Only bytes objects cannot change before they are sent.
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
