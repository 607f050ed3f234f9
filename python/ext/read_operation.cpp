// Reads of a native stream as awaitables that a task waits for directly.

#include "stream_reader.hpp"

#include "coroutine_protocol.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include <structmember.h>

namespace penstock::python {

namespace {

using Kind = ReadOperationObject::Kind;
using State = ReadOperationObject::State;

/// What a look at the buffer says.
enum class Look : unsigned char { complete, wait, failed };

constexpr std::size_t not_found = std::numeric_limits<std::size_t>::max();

ReadOperationObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<ReadOperationObject*>(object);
}

const char* method_name(Kind kind) noexcept {
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

struct Match {
    std::size_t begin = not_found;
    std::size_t end = not_found;
    std::size_t scanned = 0;
};

/// The separator that ends first, from where the last look stopped.
Match find_separator(const ReadOperationObject* operation) noexcept {
    const StreamReaderObject* reader = operation->reader;
    Match match{.scanned = operation->scanned};
    std::size_t longest = 1;
    const auto look_for = [&](const char* separator, std::size_t length) {
        longest = std::max(longest, length);
        if (operation->scanned >= reader->size) {
            return; // nothing to look through, and perhaps no memory to point to
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

void raise_by_rare_path(ReadOperationObject* operation, const char* function, PyObject* first,
                        PyObject* second) noexcept {
    PyObject* arguments[] = {first, second};
    call_rare_path(state_of(Py_TYPE(operation)), function, arguments, 2);
}

Look fail_incomplete(ReadOperationObject* operation, PyObject* expected) noexcept {
    const Ref partial(take(operation->reader, operation->reader->size));
    if (partial) {
        raise_by_rare_path(operation, "raise_incomplete_read", partial.get(), expected);
    }
    return Look::failed;
}

/// The limit was overrun: readline drops the line (or all there is), readuntil leaves it.
Look fail_overrun(ReadOperationObject* operation, const Match& match) noexcept {
    StreamReaderObject* reader = operation->reader;
    const bool found = match.end != not_found;
    const bool is_line = operation->kind != Kind::until;
    const Ref consumed(PyLong_FromSize_t(found ? match.begin : match.scanned));
    if (is_line && !consume(reader, found ? match.end : reader->size)) {
        return Look::failed;
    }
    if (consumed) {
        raise_by_rare_path(operation, is_line ? "raise_line_too_long" : "raise_limit_overrun",
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

/// Completes the operation if it can be: `value` is its result then.
Look look(ReadOperationObject* operation, Ref& value) noexcept {
    StreamReaderObject* reader = operation->reader;
    if (operation->kind == Kind::exactly && operation->count < 0) {
        PyErr_SetString(PyExc_ValueError, "readexactly size can not be less than zero");
        return Look::failed;
    }
    if (reader->exception != nullptr) {
        raise_exception(Ref::borrow(reader->exception));
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

/// Becomes the one read that waits. False with an exception set.
bool begin_to_wait(ReadOperationObject* operation) noexcept {
    StreamReaderObject* reader = operation->reader;
    if (!resume_transport(reader)) { // first, since it may be somebody's Python code
        return false;
    }
    if (reader->waiting != nullptr && reader->waiting != operation) {
        PyErr_Format(PyExc_RuntimeError,
                     "%s() called while another coroutine is already waiting for incoming data",
                     method_name(operation->kind));
        return false;
    }
    if (reader->waiting == nullptr) {
        reader->waiting = reinterpret_cast<ReadOperationObject*>(Py_NewRef(as_object(operation)));
    }
    operation->state = State::waiting;
    operation->task.blocking = true;
    return true;
}

void stop_waiting(ReadOperationObject* operation) noexcept {
    if (operation->reader != nullptr && operation->reader->waiting == operation) {
        operation->reader->waiting = nullptr;
        Py_DECREF(operation); // the caller holds a reference of its own
    }
}

PySendResult operation_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    ReadOperationObject* operation = self_of(self);
    if (operation->state == State::finished) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        *result = nullptr;
        return PYGEN_ERROR;
    }
    Ref value;
    Look found = look(operation, value);
    if (found == Look::wait) {
        if (begin_to_wait(operation)) {
            *result = Py_NewRef(self);
            return PYGEN_NEXT;
        }
        found = Look::failed;
    }
    operation->state = State::finished;
    stop_waiting(operation);
    *result = value.release();
    return found == Look::complete ? PYGEN_RETURN : PYGEN_ERROR;
}

PyObject* operation_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = operation_send(self, Py_None, &result);
    return iterator_step(self, sent, result);
}

PyObject* operation_send_method(PyObject* self, PyObject* /*value*/) {
    PyObject* result = nullptr;
    const PySendResult sent = operation_send(self, Py_None, &result);
    return send_step(sent, result);
}

PyObject* operation_throw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
    ReadOperationObject* operation = self_of(self);
    const Ref alive = Ref::borrow(self);
    operation->state = State::finished;
    stop_waiting(operation);
    raise_thrown(arguments, count);
    return nullptr;
}

PyObject* operation_close(PyObject* self, PyObject* /*unused*/) {
    ReadOperationObject* operation = self_of(self);
    const Ref alive = Ref::borrow(self);
    operation->state = State::finished;
    stop_waiting(operation);
    Py_RETURN_NONE;
}

// ---- the future that a task sees ------------------------------------------------------------------

PyObject* operation_add_done_callback(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                                      PyObject* keywords) {
    return set_wakeup(self_of(self)->task, arguments, count, keywords);
}

PyObject* operation_result(PyObject* self, PyObject* /*unused*/) {
    return raise_if_cancelled(state_of(Py_TYPE(self)), self_of(self)->task);
}

PyObject* operation_cancel(PyObject* self, PyObject* arguments, PyObject* keywords) {
    ReadOperationObject* operation = self_of(self);
    if (operation->state != State::waiting || operation->task.cancelled) {
        Py_RETURN_FALSE;
    }
    if (!note_cancel(operation->task, arguments, keywords) || !schedule_resume(operation)) {
        return nullptr;
    }
    Py_RETURN_TRUE;
}

PyObject* operation_done(PyObject* self, PyObject* /*unused*/) {
    const ReadOperationObject* operation = self_of(self);
    return PyBool_FromLong(operation->state != State::waiting || operation->task.cancelled);
}

PyObject* get_loop_getter(PyObject* self, void* /*unused*/) {
    return loop_getter(state_of(Py_TYPE(self)), self_of(self)->reader->loop);
}

PyObject* operation_getattro(PyObject* self, PyObject* name) {
    return get_attribute(state_of(Py_TYPE(self)), self_of(self)->task, self, name,
                         &get_loop_getter);
}

int operation_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return set_attribute(self_of(self)->task, self, name, value);
}

int operation_traverse(PyObject* self, visitproc visit, void* arg) {
    ReadOperationObject* operation = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(operation->reader);
    Py_VISIT(operation->separators);
    return visit_task(operation->task, visit, arg);
}

int operation_clear(PyObject* self) {
    ReadOperationObject* operation = self_of(self);
    Py_CLEAR(operation->separators);
    release(operation->task);
    return 0;
}

void operation_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    ReadOperationObject* operation = self_of(self);
    operation_clear(self);
    Py_CLEAR(operation->reader);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyMethodDef operation_methods[] = {
    {"send", &operation_send_method, METH_O, nullptr},
    {"throw", as_function(&operation_throw), METH_FASTCALL, nullptr},
    {"close", &operation_close, METH_NOARGS, nullptr},
    {"add_done_callback", as_function(&operation_add_done_callback), METH_FASTCALL | METH_KEYWORDS,
     nullptr},
    {"result", &operation_result, METH_NOARGS, nullptr},
    {"cancel", as_function(&operation_cancel), METH_VARARGS | METH_KEYWORDS, nullptr},
    {"done", &operation_done, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef operation_attributes[] = {
    {"get_loop", &get_loop_getter, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot operation_slots[] = {
    {Py_tp_doc, const_cast<char*>("A read of a stream, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&operation_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&operation_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&operation_clear)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&operation_send)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(&operation_next)},
    {Py_tp_methods, operation_methods},
    {Py_tp_getset, operation_attributes},
    {Py_tp_getattro, reinterpret_cast<void*>(&operation_getattro)},
    {Py_tp_setattro, reinterpret_cast<void*>(&operation_setattro)},
    {0, nullptr},
};

PyType_Spec operation_spec = {
    .name = "penstock._core.ReadOperation",
    .basicsize = sizeof(ReadOperationObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = operation_slots,
};

} // namespace

PyObject* make_read(StreamReaderObject* reader, ReadOperationObject::Kind kind, Py_ssize_t count,
                    PyObject* separators) noexcept {
    PyTypeObject* type = state_of(Py_TYPE(reader))->read_operation_type;
    auto* operation = PyObject_GC_New(ReadOperationObject, type);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->reader = reinterpret_cast<StreamReaderObject*>(Py_NewRef(as_object(reader)));
    operation->separators = Py_XNewRef(separators);
    operation->task = {};
    operation->count = count;
    operation->scanned = 0;
    operation->kind = kind;
    operation->state = State::fresh;
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
        return true; // nobody has begun to wait for it yet
    }
    stop_waiting(operation);
    return step(state_of(Py_TYPE(operation)), operation->task, as_object(operation));
}

bool schedule_resume(ReadOperationObject* operation) noexcept {
    const Ref alive = Ref::borrow(as_object(operation));
    if (operation->task.wakeup == nullptr) {
        return true;
    }
    PyObject* loop = operation->reader->loop;
    stop_waiting(operation);
    return step_later(state_of(Py_TYPE(operation)), operation->task, as_object(operation), loop);
}

bool add_read_operation_type(PyObject* module, ModuleState* state) {
    state->read_operation_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &operation_spec, nullptr));
    return state->read_operation_type != nullptr &&
           PyModule_AddType(module, state->read_operation_type) == 0;
}

} // namespace penstock::python
