// What the calls of a binary file wait for.

#include "file_objects/file_waits.hpp"

#include "file_objects/binary_buffer.hpp"
#include "file_objects/positioned_transfers.hpp"
#include "file_objects/truncation.hpp"
#include "files/file_calls.hpp"
#include "files/file_memory.hpp"

#include <algorithm>

namespace penstock::python {

namespace {

using Take = decltype(FileWait::take);

bool can_read(const BinaryFileObject* file) noexcept {
    return can_wait(file) && is_readable(file) && file->unwritten_size == 0;
}

bool can_write(const BinaryFileObject* file) noexcept {
    return can_wait(file) && file->fd >= 0 && file->writable != 0 && file->appending == 0;
}

/// Null with an exception set.
PyObject* make_read(BinaryFileObject* file, long long size, long long offset) noexcept {
    FileOperationObject* operation = make_file_operation(file->engine, read_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = file->fd;
    operation->size = size;
    operation->offset = offset;
    return allocate_bytes(operation) ? as_object(operation) : refuse_operation(operation);
}

/// Null with an exception set.
PyObject* make_write(BinaryFileObject* file, PyObject* data, long long offset) noexcept {
    FileOperationObject* operation = make_file_operation(file->engine, write_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = file->fd;
    operation->offset = offset;
    operation->may_block_briefly = file->cached != 0;
    return export_buffer(operation, data, false) ? as_object(operation)
                                                 : refuse_operation(operation);
}

/// Reads ahead from the position on, at least `size` bytes unless the file ends before.
FileWait wait_for_fill(BinaryFileObject* file, Py_ssize_t size, Take take) noexcept {
    if (!can_read(file) || file->buffer_size == 0) {
        return {};
    }
    const long long asked = std::max<long long>(size, file->next_read_ahead);
    return {.awaitable = make_read(file, asked, file->position),
            .take = take,
            .asked = asked,
            .in_turn = true};
}

// ---- what a fill brings
// ---------------------------------------------------------------------------

AtOnce take_filled_read(FileObject* self, CallArguments given, PyObject* answer,
                        long long /*asked*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    keep_read_ahead(file, Ref::borrow(answer));
    const Py_ssize_t size = size_argument(given.first);
    const std::string_view data = buffered(file);
    const std::size_t most = size < 0 ? data.size() : static_cast<std::size_t>(size);
    return at_once_of(take_buffered(file, data.substr(0, most)), result);
}

AtOnce take_line(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long asked,
                 PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    keep_read_ahead(file, Ref::borrow(answer));
    const std::string_view data = buffered(file);
    std::size_t size = line_size(data);
    if (size == 0) {
        if (PyBytes_GET_SIZE(answer) >= asked) {
            return AtOnce::slow; // a long line
        }
        size = data.size();
    }
    return at_once_of(take_buffered(file, data.substr(0, size)), result);
}

AtOnce take_next_line(FileObject* self, CallArguments given, PyObject* answer, long long asked,
                      PyObject** result) {
    const AtOnce outcome = take_line(self, given, answer, asked, result);
    return outcome == AtOnce::done ? end_iteration_at_nothing(result) : outcome;
}

AtOnce take_peek(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long /*asked*/,
                 PyObject** result) {
    keep_read_ahead(binary_of(self), Ref::borrow(answer));
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

// ---- what other operations bring
// ------------------------------------------------------------------

AtOnce take_read(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long /*asked*/,
                 PyObject** result) {
    binary_of(self)->position += PyBytes_GET_SIZE(answer);
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

/// What is not shorter than asked for is not known to be the rest.
AtOnce take_rest(FileObject* self, CallArguments given, PyObject* answer, long long asked,
                 PyObject** result) {
    return PyBytes_GET_SIZE(answer) < asked ? take_read(self, given, answer, asked, result)
                                            : AtOnce::slow;
}

AtOnce take_as_it_is(FileObject* /*self*/, CallArguments /*unused*/, PyObject* answer,
                     long long /*asked*/, PyObject** result) {
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

AtOnce take_written(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long asked,
                    PyObject** result) {
    binary_of(self)->position += asked;
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

/// The buffer was written out.
AtOnce take_written_out(FileObject* self, CallArguments /*unused*/, PyObject* /*answer*/,
                        long long /*asked*/, PyObject** /*result*/) {
    BinaryFileObject* file = binary_of(self);
    file->writing_out = 0;
    if (PyList_SetSlice(file->unwritten, 0, PyList_GET_SIZE(file->unwritten), nullptr) != 0) {
        return AtOnce::failed;
    }
    file->unwritten_size = 0;
    return AtOnce::slow;
}

AtOnce take_truncated(FileObject* /*self*/, CallArguments /*unused*/, PyObject* /*answer*/,
                      long long asked, PyObject** result) {
    return at_once_of(PyLong_FromLongLong(asked), result);
}

FileWait wait_for_write_out(BinaryFileObject* file) noexcept {
    if (!can_write(file) || file->unwritten == nullptr || !PyList_CheckExact(file->unwritten)) {
        return {};
    }
    const ModuleState* state = file->base.state;
    const Ref data(
        PyObject_CallMethodOneArg(state->empty_bytes, state->name_join, file->unwritten));
    PyObject* operation = data ? make_write(file, data.get(), file->unwritten_at) : nullptr;
    file->writing_out = operation != nullptr ? 1 : 0;
    return {.awaitable = operation, .take = &take_written_out, .asked = 0, .in_turn = true};
}

} // namespace

bool can_wait(const BinaryFileObject* file) noexcept {
    const FileEngineObject* engine = file->engine;
    return file->plain != 0 && engine != nullptr && engine->io != nullptr && !engine->closing;
}

AtOnce attempt_again(FileObject* /*file*/, CallArguments /*given*/, PyObject* /*answer*/,
                     long long /*asked*/, PyObject** /*result*/) {
    return AtOnce::slow;
}

FileWait wait_for_read(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    if (size == -2 || !can_read(file)) {
        return {};
    }
    if (size >= 0 && size < file->buffer_size) {
        return wait_for_fill(file, size, &take_filled_read);
    }
    long long asked = size;
    if (size < 0) {
        // Asking for one byte more shows that the file ends there.
        const long long there = file->regular != 0 ? present_size(file) : -1;
        if (there < 0) {
            return {};
        }
        asked = std::max(there - file->position, 0LL) + 1;
    }
    return {.awaitable = make_read(file, asked, file->position),
            .take = size < 0 ? &take_rest : &take_read,
            .asked = asked,
            .in_turn = true};
}

FileWait wait_for_read1(FileObject* self, CallArguments given) {
    const Py_ssize_t size = size_argument(given.first);
    if (size == -2 || given.first == Py_None) {
        return {};
    }
    return wait_for_fill(binary_of(self), std::max<Py_ssize_t>(size, 0), &take_filled_read);
}

/// Not for a line whose beginning fills the buffer: the coroutine method keeps the parts of one.
FileWait wait_for_line(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    if (size_argument(given.first) != -1 ||
        buffered(file).size() >= static_cast<std::size_t>(file->buffer_size)) {
        return {};
    }
    return wait_for_fill(file, 0, &take_line);
}

FileWait wait_for_next_line(FileObject* self, CallArguments given) {
    FileWait wait = wait_for_line(self, given);
    wait.take = &take_next_line;
    return wait;
}

FileWait wait_for_peek(FileObject* self, CallArguments /*unused*/) {
    BinaryFileObject* file = binary_of(self);
    return wait_for_fill(file, static_cast<Py_ssize_t>(file->buffer_size), &take_peek);
}

FileWait wait_for_pread(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    const long long place = offset_argument(given.second);
    if (size < 0 || place < 0 || !can_read(file)) {
        return {};
    }
    return {.awaitable = make_read(file, size, place),
            .take = &take_as_it_is,
            .asked = size,
            .in_turn = false};
}

FileWait wait_for_write(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    if (!PyBytes_CheckExact(given.first) || !can_write(file)) {
        return {};
    }
    if (file->unwritten_size != 0) {
        return wait_for_write_out(file);
    }
    drop_read_ahead(file);
    return {.awaitable = make_write(file, given.first, file->position),
            .take = &take_written,
            .asked = PyBytes_GET_SIZE(given.first),
            .in_turn = true};
}

FileWait wait_for_flush(FileObject* self, CallArguments /*unused*/) {
    BinaryFileObject* file = binary_of(self);
    return file->unwritten_size != 0 ? wait_for_write_out(file) : FileWait{};
}

FileWait wait_for_truncate(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const long long length = length_argument(file, given.first);
    if (length < 0 || !can_write(file)) {
        return {};
    }
    if (file->unwritten_size != 0) {
        return wait_for_write_out(file);
    }
    drop_read_ahead(file);
    FileOperationObject* operation = make_file_operation(file->engine, truncate_call);
    if (operation != nullptr) {
        operation->fd = file->fd;
        operation->offset = length;
    }
    return {.awaitable = as_object(operation),
            .take = &take_truncated,
            .asked = length,
            .in_turn = true};
}

} // namespace penstock::python
