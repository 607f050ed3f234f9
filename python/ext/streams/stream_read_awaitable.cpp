// The awaitable of a native stream's read, readexactly, readuntil and readline.

#include "streams/stream_reader.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace penstock::python {

namespace {

using Kind = ReadOperationObject::Kind;

/// The result of a read's look into the buffer.
enum class Look : unsigned char { complete, wait, failed };

constexpr std::size_t not_found = std::numeric_limits<std::size_t>::max();

struct Match {
    std::size_t begin = not_found;
    std::size_t end = not_found;
    std::size_t scanned = 0;
};

/// The separator with the first end, searched for from where the last search stopped.
Match find_separator(const ReadOperationObject* operation) noexcept {
    const StreamReaderObject* reader = operation->reader;
    Match match{.scanned = operation->scanned};
    std::size_t longest = 1;
    const auto look_for = [&](const char* separator, std::size_t length) {
        longest = std::max(longest, length);
        if (operation->scanned >= reader->size) {
            return; // nothing to search, and perhaps no memory
        }
        const char* from = reader->data + operation->scanned;
        const auto* found = static_cast<const char*>(
            memmem(from, reader->size - operation->scanned, separator, length));
        if (found != nullptr) {
            const auto begin = static_cast<std::size_t>(found - reader->data);
            if (begin + length < match.end) {
                match.begin = begin;
                match.end = begin + length;
            }
        }
    };
    if (operation->separators == nullptr) {
        look_for("\n", 1);
    } else {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(operation->separators); ++i) {
            PyObject* separator = PyTuple_GET_ITEM(operation->separators, i);
            look_for(PyBytes_AS_STRING(separator),
                     static_cast<std::size_t>(PyBytes_GET_SIZE(separator)));
        }
    }
    if (match.end == not_found && reader->size + 1 > longest) {
        match.scanned = std::max(match.scanned, reader->size + 1 - longest);
    }
    return match;
}

PyObject* take(StreamReaderObject* reader, std::size_t count) noexcept {
    Ref bytes(PyBytes_FromStringAndSize(reader->data, static_cast<Py_ssize_t>(count)));
    if (!bytes || !consume(reader, count)) {
        return nullptr;
    }
    return bytes.release();
}

void raise_by_upcall(ReadOperationObject* operation, const char* function, PyObject* first,
                     PyObject* second) noexcept {
    PyObject* arguments[] = {first, second};
    upcall(state_of(Py_TYPE(operation)), function, arguments, 2);
}

Look fail_incomplete(ReadOperationObject* operation, PyObject* expected) noexcept {
    const Ref partial(take(operation->reader, operation->reader->size));
    if (partial) {
        raise_by_upcall(operation, "raise_incomplete_read", partial.get(), expected);
    }
    return Look::failed;
}

/// The limit was overrun: readline drops the line, or the whole buffer, and readuntil leaves it.
Look fail_overrun(ReadOperationObject* operation, const Match& match) noexcept {
    StreamReaderObject* reader = operation->reader;
    const bool found = match.end != not_found;
    const bool is_line = operation->kind != Kind::until;
    const Ref consumed(PyLong_FromSize_t(found ? match.begin : match.scanned));
    if (is_line && !consume(reader, found ? match.end : reader->size)) {
        return Look::failed;
    }
    if (consumed) {
        raise_by_upcall(operation, is_line ? "raise_line_too_long" : "raise_limit_overrun",
                        found ? Py_True : Py_False, consumed.get());
    }
    return Look::failed;
}

Look look_for_line(ReadOperationObject* operation, Ref& value) noexcept {
    StreamReaderObject* reader = operation->reader;
    const Match match = find_separator(operation);
    operation->scanned = match.scanned;
    if (match.end != not_found) {
        if (match.begin > reader->limit) {
            return fail_overrun(operation, match);
        }
        value = Ref(take(reader, match.end));
        return value ? Look::complete : Look::failed;
    }
    if (match.scanned > reader->limit) {
        return fail_overrun(operation, match);
    }
    if (!reader->eof) {
        return Look::wait;
    }
    if (operation->kind == Kind::until) {
        return fail_incomplete(operation, Py_None);
    }
    if (operation->kind == Kind::next_line && reader->size == 0) {
        PyErr_SetNone(PyExc_StopAsyncIteration);
        return Look::failed;
    }
    value = Ref(take(reader, reader->size));
    return value ? Look::complete : Look::failed;
}

/// Completes the operation if the buffer allows; `value` is its result then.
Look look(ReadOperationObject* operation, Ref& value) noexcept {
    StreamReaderObject* reader = operation->reader;
    if (operation->kind == Kind::exactly && operation->count < 0) {
        PyErr_SetString(PyExc_ValueError, "readexactly size can not be less than zero");
        return Look::failed;
    }
    if (reader->exception != nullptr) {
        raise_given(reader->exception);
        return Look::failed;
    }
    const auto wanted = static_cast<std::size_t>(operation->count);
    switch (operation->kind) {
    case Kind::some:
        if (reader->size == 0 && !reader->eof && wanted > 0) {
            return Look::wait;
        }
        value = Ref(take(reader, std::min(wanted, reader->size)));
        break;
    case Kind::all:
        if (!reader->eof) {
            return Look::wait;
        }
        value = Ref(take(reader, reader->size));
        break;
    case Kind::exactly:
        if (reader->size < wanted) {
            if (!reader->eof) {
                return Look::wait;
            }
            const Ref expected(PyLong_FromSize_t(wanted));
            return expected ? fail_incomplete(operation, expected.get()) : Look::failed;
        }
        value = Ref(take(reader, wanted));
        break;
    case Kind::until:
    case Kind::line:
    case Kind::next_line:
        return look_for_line(operation, value);
    }
    return value ? Look::complete : Look::failed;
}

/// Becomes the read that waits on the reader. False with an exception set.
bool begin_to_wait(ReadOperationObject* operation) noexcept {
    StreamReaderObject* reader = operation->reader;
    if (!resume_transport(reader)) { // first, since it may run Python code
        return false;
    }
    if (reader->waiting != nullptr && reader->waiting != operation) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s() called while another coroutine is already waiting for incoming data",
                     operation->name());
        return false;
    }
    if (reader->waiting == nullptr) {
        reader->waiting = reinterpret_cast<ReadOperationObject*>(Py_NewRef(as_object(operation)));
    }
    operation->task.blocking = true;
    return true;
}

void stop_waiting(ReadOperationObject* operation) noexcept {
    if (operation->reader != nullptr && operation->reader->waiting == operation) {
        operation->reader->waiting = nullptr;
        Py_DECREF(operation); // the caller holds another reference
    }
}

} // namespace

const char* ReadOperationObject::name() const noexcept {
    switch (kind) {
    case Kind::some:
    case Kind::all:
        return "read";
    case Kind::exactly:
        return "readexactly";
    case Kind::until:
    case Kind::line:
    case Kind::next_line:
        break;
    }
    return "readuntil";
}

PySendResult ReadOperationObject::advance(bool /*first*/, PyObject* /*value*/,
                                          PyObject** result) noexcept {
    Ref read;
    const Look found = look(this, read);
    if (found == Look::wait && begin_to_wait(this)) {
        *result = Py_NewRef(as_object(this));
        return PYGEN_NEXT;
    }
    *result = read.release();
    return found == Look::complete ? PYGEN_RETURN : PYGEN_ERROR;
}

bool ReadOperationObject::wake_soon() noexcept {
    const Ref alive = Ref::borrow(as_object(this));
    if (task.wakeup == nullptr) {
        return true; // no task waits for it yet
    }
    stop_waiting(this);
    return step_later(state(), task, as_object(this), reader->loop);
}

void ReadOperationObject::release() noexcept {
    stop_waiting(this);
    Py_CLEAR(separators);
    python::release(task);
}

int ReadOperationObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(separators);
    return visit_task(task, visit, arg);
}

PyObject* make_read(StreamReaderObject* reader, ReadOperationObject::Kind kind, Py_ssize_t count,
                    PyObject* separators) noexcept {
    ModuleState* state = state_of(Py_TYPE(reader));
    auto* operation = ReadOperationObject::allocate(state, state->read_operation_type);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->reader = reinterpret_cast<StreamReaderObject*>(Py_NewRef(as_object(reader)));
    operation->separators = Py_XNewRef(separators);
    operation->task = {};
    operation->count = count;
    operation->scanned = 0;
    operation->kind = kind;
    operation->stage = AwaitStage::created;
    PyObject_GC_Track(as_object(operation));
    return as_object(operation);
}

bool would_complete(ReadOperationObject* operation) noexcept {
    const StreamReaderObject* reader = operation->reader;
    if (reader->eof || reader->exception != nullptr) {
        return true;
    }
    switch (operation->kind) {
    case Kind::some:
        return reader->size > 0;
    case Kind::all:
        return false;
    case Kind::exactly:
        return reader->size >= static_cast<std::size_t>(operation->count);
    case Kind::until:
    case Kind::line:
    case Kind::next_line:
        break;
    }
    const Match match = find_separator(operation);
    if (match.end == not_found) {
        operation->scanned = match.scanned;
    }
    return match.end != not_found || match.scanned > reader->limit;
}

bool resume(ReadOperationObject* operation) noexcept {
    const Ref alive = Ref::borrow(as_object(operation));
    if (operation->task.wakeup == nullptr) {
        return true; // no task waits for it yet
    }
    stop_waiting(operation);
    return step(operation->state(), operation->task, as_object(operation));
}

bool add_read_operation_type(PyObject* module, ModuleState* state) {
    state->read_operation_type = ReadOperationObject::add_type(
        module, "penstock._core.ReadOperation", "A read of a stream, to be awaited once.");
    return state->read_operation_type != nullptr;
}

} // namespace penstock::python
