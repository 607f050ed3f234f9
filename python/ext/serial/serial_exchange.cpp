#include "serial/serial_exchange.hpp"

#include "core/fd_callbacks.hpp"
#include "core/loop_clock.hpp"
#include "core/module.hpp"
#include "net/read_buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <new>

#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::python {

namespace {

enum class Outcome : unsigned char { done, blocked, failed };

void stop_waiting(SerialExchangeObject* exchange) noexcept {
    if (exchange->reader->asking == exchange) {
        exchange->reader->asking = nullptr;
    }
    if (DescriptorWaiterObject* waiter = std::exchange(exchange->waiter, nullptr)) {
        abandon(waiter);
        Py_DECREF(waiter);
    }
}

// ---- the deadline
// -----------------------------------------------------------------------------------

/// False with an exception set.
bool read_clock(LoopObject* loop, double& now) noexcept {
    if (!loop->clock_overridden) {
        now = native_time();
        return true;
    }
    return read_time(loop, now) && check_open(loop);
}

void ring(LoopObject* loop, PyObject* target) noexcept;

/// Lets the reader's timer ring at the deadline of the exchange, or before it.
///
/// An answer removes nearly every deadline before it has passed, and the next question sets a later
/// one. So the timer stays as it is, and looks for the deadline in force when it rings.
bool set_timer(SerialReaderObject* reader, double deadline) noexcept {
    if (!std::isfinite(deadline) || (reader->timer != nullptr && reader->rings_at <= deadline)) {
        return true;
    }
    drop_timer(reader);
    HandleObject* handle = make_native_handle(reader->loop, &ring, as_object(reader));
    if (handle == nullptr || !check_open(reader->loop)) {
        Py_XDECREF(handle);
        return false;
    }
    try {
        reader->loop->io->timers().add(handle->timer, deadline_of(deadline));
    } catch (const std::bad_alloc&) {
        Py_DECREF(handle);
        PyErr_NoMemory();
        return false;
    }
    Py_INCREF(handle); // the loop's reference
    reader->timer = handle;
    reader->rings_at = deadline;
    return true;
}

/// The timer's step. It runs while no task does.
void ring(LoopObject* loop, PyObject* target) noexcept {
    auto* reader = reinterpret_cast<SerialReaderObject*>(target);
    Py_CLEAR(reader->timer);
    SerialExchangeObject* exchange = reader->asking;
    if (exchange == nullptr) {
        return;
    }
    const Ref alive = Ref::borrow(as_object(exchange));
    double now = 0;
    bool succeeded = read_clock(loop, now);
    if (succeeded && reader->asking == exchange) {
        if (now < exchange->deadline) {
            succeeded = set_timer(reader, exchange->deadline);
        } else {
            exchange->expired = true;
            const Ref waiter = Ref::borrow(as_object(exchange->waiter));
            if (!exchange->waiter->is_done()) {
                end_wait(exchange->waiter);
                wake_later(exchange->waiter);
            }
        }
    }
    if (!succeeded) {
        report_raised(loop, "the deadline of a serial exchange was lost", nullptr, nullptr);
    }
}

/// Waits until the descriptor is readable or the deadline has passed. False with an exception set.
bool begin_waiting(SerialExchangeObject* exchange) noexcept {
    SerialReaderObject* reader = exchange->reader;
    DescriptorWaiterObject* waiter = make_descriptor_waiter(reader->loop);
    // Checked last: making the waiter may have collected garbage, whose finalizers run Python code.
    if (waiter == nullptr || !may_read(reader) || !set_timer(reader, exchange->deadline)) {
        Py_XDECREF(waiter);
        return false;
    }
    reader->immediate = 0;
    exchange->waiter = waiter;
    reader->asking = exchange;
    return begin_wait(reader->loop, Direction::read, place_of(reader), waiter);
}

// ---- bytes
// -----------------------------------------------------------------------------------

/// False with an exception set.
bool count_waiting(SerialReaderObject* reader, int& count) noexcept {
    if (!is_open(reader)) {
        return false;
    }
    if (::ioctl(reader->fd, FIONREAD, &count) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    return true;
}

/// Writes what the driver takes at once. False with an exception set.
bool write_request(SerialExchangeObject* exchange) noexcept {
    const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(exchange->request));
    ssize_t count = 0;
    do {
        count = ::write(exchange->reader->fd, PyBytes_AS_STRING(exchange->request), size);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    exchange->taken = std::max<ssize_t>(count, 0);
    exchange->sent_at = io::monotonic_now();
    return true;
}

Py_ssize_t size_of(PyObject* bytes) noexcept {
    return bytes != nullptr ? PyBytes_GET_SIZE(bytes) : 0;
}

/// Looks for the end of the answer in bytes of which the last `added` are new.
void look_for_end(SerialExchangeObject* exchange, Py_ssize_t added) noexcept {
    const Py_ssize_t size = size_of(exchange->got);
    if (exchange->delimiter != nullptr) {
        const Py_ssize_t wanted = size_of(exchange->delimiter);
        const Py_ssize_t from = std::max<Py_ssize_t>(0, size - added - wanted + 1);
        const char* data = PyBytes_AS_STRING(exchange->got);
        const void* found =
            ::memmem(data + from, static_cast<std::size_t>(size - from),
                     PyBytes_AS_STRING(exchange->delimiter), static_cast<std::size_t>(wanted));
        if (found != nullptr) {
            exchange->end = (static_cast<const char*>(found) - data) + wanted;
        }
    } else if (exchange->length > 0) {
        exchange->end = size >= exchange->length ? exchange->length : -1;
    } else if (exchange->silence <= 0) {
        exchange->end = size;
    }
}

/// read(2) into the loop's buffer, and from there to the end of `got`.
Outcome read_more(SerialExchangeObject* exchange) noexcept {
    SerialReaderObject* reader = exchange->reader;
    if (!may_read(reader)) {
        return Outcome::failed;
    }
    const ReadBuffer buffer(reader->loop);
    if (buffer.data() == nullptr) {
        PyErr_NoMemory();
        return Outcome::failed;
    }
    const Py_ssize_t most = exchange->length > 0 ? exchange->length : exchange->limit;
    const Py_ssize_t size =
        std::min(most - size_of(exchange->got), static_cast<Py_ssize_t>(ReadBuffer::size));
    ssize_t count = 0;
    do {
        count = ::read(reader->fd, buffer.data(), static_cast<std::size_t>(size));
    } while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return Outcome::blocked;
    }
    if (count <= 0) {
        const int error = count < 0 ? errno : EIO; // a hang-up
        note_end(reader->loop, place_of(reader));  // a hung-up tty stays readable for ever
        errno = error;
        PyErr_SetFromErrno(PyExc_OSError);
        return Outcome::failed;
    }
    exchange->last_byte_at = io::monotonic_now();
    if (exchange->first_byte_at == 0) {
        exchange->first_byte_at = exchange->last_byte_at;
    }
    PyObject* chunk = PyBytes_FromStringAndSize(buffer.data(), count);
    if (exchange->got == nullptr || chunk == nullptr) {
        Py_XSETREF(exchange->got, chunk);
    } else {
        PyBytes_ConcatAndDel(&exchange->got, chunk);
    }
    if (exchange->got == nullptr) {
        return Outcome::failed;
    }
    look_for_end(exchange, count);
    return Outcome::done;
}

/// After bytes that do not end the answer, of one that a silence ends. False with an exception set.
bool extend_silence(SerialExchangeObject* exchange) noexcept {
    if (exchange->silence <= 0 || exchange->length > 0 || exchange->delimiter != nullptr) {
        return true;
    }
    double now = 0;
    if (!read_clock(exchange->reader->loop, now)) {
        return false;
    }
    exchange->expired = now >= exchange->ends_at;
    exchange->deadline = std::min(now + exchange->silence, exchange->ends_at);
    return true;
}

PyObject* take_result(SerialExchangeObject* exchange) noexcept {
    PyObject* got = std::exchange(exchange->got, nullptr);
    if (got == nullptr) {
        got = PyBytes_FromStringAndSize(nullptr, 0);
    }
    const bool fell_silent = exchange->silence > 0 && exchange->expired && exchange->end < 0;
    if (fell_silent && exchange->length == 0 && exchange->delimiter == nullptr &&
        exchange->deadline < exchange->ends_at && size_of(got) > 0) {
        exchange->end = size_of(got);
    }
    return Py_BuildValue("(NnnLLL)", got, exchange->end, exchange->taken, exchange->sent_at,
                         exchange->first_byte_at, exchange->last_byte_at);
}

PySendResult finish_with(PyObject* made, PyObject** result) noexcept {
    *result = made;
    return made != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

enum class Beginning : unsigned char { sent, strays, partly_sent, failed };

/// Checks for bytes that nobody asked for, writes, and sets the deadline.
Beginning begin(SerialExchangeObject* exchange) noexcept {
    SerialReaderObject* reader = exchange->reader;
    double now = 0;
    int waiting = 0;
    if (!read_clock(reader->loop, now) || !may_read(reader) ||
        (exchange->refuses_strays && !count_waiting(reader, waiting))) {
        return Beginning::failed;
    }
    if (waiting > 0) {
        return Beginning::strays;
    }
    if (exchange->request != nullptr) {
        if (!write_request(exchange)) {
            return Beginning::failed;
        }
        if (exchange->taken < PyBytes_GET_SIZE(exchange->request)) {
            return Beginning::partly_sent;
        }
    }
    exchange->ends_at = exchange->deadline = now + exchange->seconds;
    exchange->expired = exchange->seconds <= 0;
    return Beginning::sent;
}

} // namespace

PySendResult SerialExchangeObject::advance(bool first, PyObject* /*value*/,
                                           PyObject** result) noexcept {
    if (std::exchange(yielding, false)) {
        reader->slice.begin();
        return finish_with(take_result(this), result);
    }
    const bool woken = waiter != nullptr;
    if (woken) {
        reader->slice.begin();
        stop_waiting(this);
    }
    if (first) {
        switch (begin(this)) {
        case Beginning::failed:
            return PYGEN_ERROR;
        case Beginning::strays:
            return finish_with(Py_NewRef(Py_None), result);
        case Beginning::partly_sent:
            return finish_with(take_result(this), result);
        case Beginning::sent:
            break;
        }
    }
    if (!first || request == nullptr) {
        const Outcome outcome = read_more(this);
        if (outcome == Outcome::failed) {
            return PYGEN_ERROR;
        }
        const bool ended = end >= 0 || size_of(got) >= limit;
        if (ended && !woken && must_yield(reader)) {
            yielding = true;
            return finish_with(Py_NewRef(Py_None), result) == PYGEN_RETURN ? PYGEN_NEXT
                                                                           : PYGEN_ERROR;
        }
        if (ended) {
            return finish_with(take_result(this), result);
        }
        if (outcome == Outcome::done && !extend_silence(this)) {
            return PYGEN_ERROR;
        }
    }
    if (expired) {
        return finish_with(take_result(this), result);
    }
    if (!begin_waiting(this)) {
        return PYGEN_ERROR;
    }
    *result = Py_NewRef(as_object(waiter));
    return PYGEN_NEXT;
}

void SerialExchangeObject::release() noexcept {
    stop_waiting(this);
    if (PyObject* unread = std::exchange(got, nullptr)) {
        Py_XSETREF(reader->unread, unread);
    }
    Py_CLEAR(request);
    Py_CLEAR(delimiter);
}

int SerialExchangeObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(waiter);
    return 0;
}

PyObject* exchange(PyObject* self, PyObject* arguments) noexcept {
    auto* reader = reinterpret_cast<SerialReaderObject*>(self);
    PyObject* request = nullptr;
    PyObject* delimiter = nullptr;
    Py_ssize_t length = 0;
    double silence = 0;
    double seconds = 0;
    Py_ssize_t limit = 0;
    int refuses_strays = 0;
    if (!PyArg_ParseTuple(arguments, "SSnddnp:exchange", &request, &delimiter, &length, &silence,
                          &seconds, &limit, &refuses_strays)) {
        return nullptr;
    }
    if (limit < 1 || length < 0) {
        return PyErr_Format(PyExc_ValueError, "limit must be at least 1 and length 0, not %zd, %zd",
                            limit, length);
    }
    if (!runs_here(reader)) {
        Py_RETURN_NONE;
    }
    auto* made = PyObject_GC_New(SerialExchangeObject, reader->loop->state->serial_exchange_type);
    if (made == nullptr) {
        return nullptr;
    }
    made->reader = reinterpret_cast<SerialReaderObject*>(Py_NewRef(self));
    made->waiter = nullptr;
    made->request = PyBytes_GET_SIZE(request) > 0 ? Py_NewRef(request) : nullptr;
    made->delimiter = PyBytes_GET_SIZE(delimiter) > 0 ? Py_NewRef(delimiter) : nullptr;
    made->got = nullptr;
    made->length = length;
    made->limit = limit;
    made->taken = 0;
    made->end = -1;
    made->seconds = seconds;
    made->silence = silence;
    made->ends_at = made->deadline = 0;
    made->sent_at = made->first_byte_at = made->last_byte_at = 0;
    made->refuses_strays = refuses_strays != 0;
    made->expired = made->yielding = false;
    made->stage = AwaitStage::created;
    PyObject_GC_Track(as_object(made));
    return as_object(made);
}

PyObject* forget_input(PyObject* self, PyObject* /*unused*/) noexcept {
    if (auto* asking = reinterpret_cast<SerialReaderObject*>(self)->asking) {
        asking->first_byte_at = asking->last_byte_at = 0;
        Py_CLEAR(asking->got);
    }
    Py_RETURN_NONE;
}

void drop_timer(SerialReaderObject* reader) noexcept {
    if (HandleObject* timer = std::exchange(reader->timer, nullptr)) {
        cancel(timer);
        Py_DECREF(timer);
    }
}

bool add_serial_exchange_type(PyObject* module, ModuleState* state) {
    state->serial_exchange_type = SerialExchangeObject::add_type(
        module, "penstock._core.SerialExchange",
        "A question to a serial port and its answer, to be awaited once.");
    return state->serial_exchange_type != nullptr;
}

} // namespace penstock::python
