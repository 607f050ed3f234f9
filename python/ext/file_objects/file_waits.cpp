// What the calls of a binary file wait for.

#include "file_objects/file_waits.hpp"

#include "file_objects/binary_buffer.hpp"
#include "file_objects/positioned_transfers.hpp"
#include "file_objects/seeking.hpp"
#include "file_objects/truncation.hpp"
#include "files/file_calls.hpp"
#include "files/file_memory.hpp"

#include <algorithm>

#include <unistd.h>

namespace penstock::python {

namespace {

using Take = decltype(FileWait::take);

/// The parts of a longer read of a pipe would be copied too often; the coroutine method keeps them
/// apart.
constexpr Py_ssize_t largest_in_parts = 64 << 10;

FileWait wait_for_write_out(BinaryFileObject* file) noexcept;

bool can_read(const BinaryFileObject* file) noexcept {
    return can_wait(file) && is_readable(file) && file->unwritten_size == 0;
}

/// Whether an operation can begin at the position: with O_DIRECT not where a block does not, and
/// not behind what a peek has read.
bool begins_at_position(const BinaryFileObject* file) noexcept {
    return file->alignment == 1 ||
           (file->position % file->alignment == 0 && buffered(file).empty());
}

/// The size that a read asks for, for `size` bytes or more.
long long whole_blocks(const BinaryFileObject* file, long long size) noexcept {
    const long long over = size % file->alignment;
    return over == 0 ? size : size + file->alignment - over;
}

/// Whether a read would not see what is buffered.
bool must_write_first(const BinaryFileObject* file) noexcept {
    return is_readable(file) && file->unwritten_size != 0;
}

/// Whether data that are written go to the end, wherever the position is.
bool appends(const BinaryFileObject* file) noexcept {
    return file->appending != 0 && file->seekable != 0;
}

/// Not where data were appended to a device: lseek(2) finds its end, and may wait.
bool can_write(const BinaryFileObject* file) noexcept {
    return can_wait(file) && file->fd >= 0 && file->writable != 0 &&
           (!appends(file) || file->regular != 0);
}

/// Where appended data end; `otherwise` if that cannot be told.
long long end_of_file(const BinaryFileObject* file, long long otherwise) noexcept {
    const long long size = present_size(file);
    return size >= 0 ? size : otherwise;
}

/// The offset for the engine: a pipe has none.
long long offset_of(const BinaryFileObject* file, long long position) noexcept {
    return file->seekable != 0 ? position : -1;
}

/// Null with an exception set.
PyObject* make_read(BinaryFileObject* file, long long size, long long position) noexcept {
    FileOperationObject* operation = make_file_operation(file->engine, read_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = file->fd;
    operation->size = size;
    operation->offset = offset_of(file, position);
    operation->alignment = file->alignment;
    return allocate_bytes(operation) ? as_object(operation) : refuse_operation(operation);
}

/// Reads from the position on. What is buffered is copied to the beginning of `target`; `there` is
/// how much: nothing of a file that is open with O_DIRECT. Null with an exception set.
PyObject* make_read_into(BinaryFileObject* file, PyObject* target, long long& there) noexcept {
    FileOperationObject* operation = make_file_operation(file->engine, read_into_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = file->fd;
    operation->offset = offset_of(file, file->position);
    operation->alignment = file->alignment;
    if (!export_buffer(operation, target, true)) {
        return refuse_operation(operation);
    }
    const std::string_view data = buffered(file);
    const std::size_t count = std::min(data.size(), static_cast<std::size_t>(operation->size));
    data.copy(operation->memory, count);
    there = static_cast<long long>(count);
    operation->memory += count;
    operation->size -= there;
    operation->offset = offset_of(file, file->position + there);
    return as_object(operation);
}

/// Null with an exception set.
PyObject* make_write(BinaryFileObject* file, PyObject* data, long long position) noexcept {
    FileOperationObject* operation = make_file_operation(file->engine, write_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = file->fd;
    operation->offset = offset_of(file, position);
    operation->alignment = file->alignment;
    operation->may_block_briefly = file->cached != 0;
    return export_buffer(operation, data, false) ? as_object(operation)
                                                 : refuse_operation(operation);
}

/// Reads ahead from the position on, at least `size` bytes unless the file ends before; of a pipe,
/// what it has.
FileWait wait_for_fill(BinaryFileObject* file, Py_ssize_t size, Take take) noexcept {
    if (must_write_first(file)) {
        return wait_for_write_out(file);
    }
    if (!can_read(file) || file->buffer_size == 0) {
        return {};
    }
    const long long asked = std::max<long long>(size, file->next_read_ahead);
    return {.awaitable = make_read(file, asked, file->position),
            .take = take,
            .asked = asked,
            .in_turn = true,
            .in_parts = file->seekable == 0};
}

/// What is missing of `size` bytes of a pipe, from which no more is taken.
FileWait wait_for_part(BinaryFileObject* file, Py_ssize_t size, Take take) noexcept {
    const auto there = static_cast<Py_ssize_t>(buffered(file).size());
    if (size <= there || size > largest_in_parts) {
        return {};
    }
    return {.awaitable = make_read(file, size - there, file->position),
            .take = take,
            .asked = size - there,
            .in_turn = true,
            .in_parts = true};
}

// ---- what a fill brings
// ---------------------------------------------------------------------------

/// Buffers what was read from the position on; of a pipe, behind what it has brought before. False
/// with an exception set.
bool keep_answer(BinaryFileObject* file, PyObject* answer) noexcept {
    if (file->seekable != 0) {
        keep_read_ahead(file, Ref::borrow(answer));
        return true;
    }
    const std::string_view before = buffered(file);
    PyObject* whole =
        before.empty()
            ? Py_NewRef(answer)
            : PyBytes_FromStringAndSize(before.data(), static_cast<Py_ssize_t>(before.size()));
    if (whole != nullptr && !before.empty()) {
        PyBytes_Concat(&whole, answer);
    }
    if (whole == nullptr) {
        return false;
    }
    file->ahead_at = file->position;
    Py_XSETREF(file->ahead, whole);
    return true;
}

AtOnce take_filled_read(FileObject* self, CallArguments given, PyObject* answer,
                        long long /*asked*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (!keep_answer(file, answer)) {
        return AtOnce::failed;
    }
    const Py_ssize_t size = size_argument(given.first);
    const std::string_view data = buffered(file);
    const std::size_t most = size < 0 ? data.size() : static_cast<std::size_t>(size);
    return at_once_of(take_buffered(file, data.substr(0, most)), result);
}

AtOnce take_line(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long asked,
                 PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (!keep_answer(file, answer)) {
        return AtOnce::failed;
    }
    const std::string_view data = buffered(file);
    std::size_t size = line_size(data);
    if (size == 0) {
        const Py_ssize_t read = PyBytes_GET_SIZE(answer);
        if (file->seekable != 0 ? read >= asked : read != 0) {
            return AtOnce::slow; // a long line, or one that a pipe brings in parts
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
    if (!keep_answer(binary_of(self), answer)) {
        return AtOnce::failed;
    }
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

/// The next attempt takes what suffices.
AtOnce take_part(FileObject* self, CallArguments given, PyObject* answer, long long asked,
                 PyObject** result) {
    if (PyBytes_GET_SIZE(answer) == 0) {
        return take_filled_read(self, given, answer, asked, result);
    }
    return keep_answer(binary_of(self), answer) ? AtOnce::slow : AtOnce::failed;
}

/// Copies what is buffered to the argument. `AtOnce::slow` for what only Python code can refuse.
AtOnce take_filled_readinto(FileObject* self, CallArguments given, PyObject* answer,
                            long long /*asked*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    Py_buffer buffer;
    if (!keep_answer(file, answer)) {
        return AtOnce::failed;
    }
    if (PyObject_GetBuffer(given.first, &buffer, PyBUF_WRITABLE) != 0) {
        PyErr_Clear();
        return AtOnce::slow;
    }
    const std::string_view data = buffered(file);
    const std::size_t count = std::min(data.size(), static_cast<std::size_t>(buffer.len));
    data.copy(static_cast<char*>(buffer.buf), count);
    file->position += static_cast<long long>(count);
    PyBuffer_Release(&buffer);
    return at_once_of(PyLong_FromSize_t(count), result);
}

AtOnce take_part_of_readinto(FileObject* self, CallArguments given, PyObject* answer,
                             long long asked, PyObject** result) {
    if (PyBytes_GET_SIZE(answer) == 0) {
        return take_filled_readinto(self, given, answer, asked, result);
    }
    return keep_answer(binary_of(self), answer) ? AtOnce::slow : AtOnce::failed;
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

/// `there` bytes were copied from the buffer before.
AtOnce take_count(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long there,
                  PyObject** result) {
    const long long count = PyLong_AsLongLong(answer);
    if (count < 0) {
        return AtOnce::failed;
    }
    binary_of(self)->position += there + count;
    return at_once_of(PyLong_FromLongLong(there + count), result);
}

AtOnce take_as_it_is(FileObject* /*self*/, CallArguments /*unused*/, PyObject* answer,
                     long long /*asked*/, PyObject** result) {
    *result = Py_NewRef(answer);
    return AtOnce::done;
}

AtOnce take_written(FileObject* self, CallArguments /*unused*/, PyObject* answer, long long asked,
                    PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    file->position += asked;
    if (asked != 0 && appends(file)) {
        file->position = end_of_file(file, file->position);
    }
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
    const long long end = file->unwritten_at + std::exchange(file->unwritten_size, 0);
    if (appends(file)) {
        file->unwritten_at = end_of_file(file, end);
        if (file->position == end) {
            file->position = file->unwritten_at;
        }
    }
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

/// How much a buffer holds that can be filled; -1, without an exception, if it cannot.
Py_ssize_t target_size(PyObject* target) noexcept {
    Py_buffer buffer;
    if (PyObject_GetBuffer(target, &buffer, PyBUF_WRITABLE) != 0) {
        PyErr_Clear();
        return -1;
    }
    const Py_ssize_t size = buffer.len;
    PyBuffer_Release(&buffer);
    return size;
}

/// Whether data are written from where they are. Small parts of other objects are copied to the
/// buffer, and what is no data is refused, by Python code.
bool is_written_as_it_is(const BinaryFileObject* file, PyObject* data) noexcept {
    Py_buffer buffer;
    if (PyBytes_CheckExact(data)) {
        return true;
    }
    if (PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) != 0) {
        PyErr_Clear();
        return false;
    }
    const bool large = buffer.len >= file->buffer_size;
    PyBuffer_Release(&buffer);
    return large;
}

} // namespace

bool can_wait(const BinaryFileObject* file) noexcept {
    const FileEngineObject* engine = file->engine;
    return engine != nullptr && engine->io != nullptr && !engine->closing;
}

AtOnce attempt_again(FileObject* /*file*/, CallArguments /*given*/, PyObject* /*answer*/,
                     long long /*asked*/, PyObject** /*result*/) {
    return AtOnce::slow;
}

FileWait wait_for_read(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    if (size != -2 && must_write_first(file)) {
        return wait_for_write_out(file);
    }
    if (size == -2 || !can_read(file) || !begins_at_position(file)) {
        return {};
    }
    if (file->seekable == 0) {
        return wait_for_part(file, size, &take_part);
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
        asked = whole_blocks(file, std::max(there - file->position, 0LL) + 1);
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
    if (wait.take == &take_line) {
        wait.take = &take_next_line;
    }
    return wait;
}

FileWait wait_for_peek(FileObject* self, CallArguments /*unused*/) {
    BinaryFileObject* file = binary_of(self);
    return wait_for_fill(file, static_cast<Py_ssize_t>(file->buffer_size), &take_peek);
}

FileWait wait_for_readinto(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = target_size(given.first);
    if (size >= 0 && must_write_first(file)) {
        return wait_for_write_out(file);
    }
    if (size < 0 || !can_read(file) || !begins_at_position(file)) {
        return {};
    }
    if (file->seekable == 0) {
        return wait_for_part(file, size, &take_part_of_readinto);
    }
    if (size < file->buffer_size) {
        return wait_for_fill(file, size, &take_filled_readinto);
    }
    FileWait wait{.take = &take_count, .in_turn = true};
    wait.awaitable = make_read_into(file, given.first, wait.asked);
    return wait;
}

FileWait wait_for_pread(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    const long long place = offset_argument(given.second);
    if (size < 0 || place < 0 || file->seekable == 0 || !can_read(file)) {
        return {};
    }
    return {.awaitable = make_read(file, size, place),
            .take = &take_as_it_is,
            .asked = size,
            .in_turn = false};
}

FileWait wait_for_write(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    if (!can_write(file) || !is_written_as_it_is(file, given.first)) {
        return {};
    }
    if (file->unwritten_size != 0) {
        return wait_for_write_out(file);
    }
    if (file->seekable != 0) {
        drop_read_ahead(file);
    }
    FileWait wait{.take = &take_written, .in_turn = true};
    wait.awaitable = make_write(file, given.first, file->position);
    if (wait.awaitable != nullptr) {
        wait.asked = FileOperationObject::of(wait.awaitable)->size;
    }
    return wait;
}

FileWait wait_for_flush(FileObject* self, CallArguments /*unused*/) {
    BinaryFileObject* file = binary_of(self);
    return file->unwritten_size != 0 ? wait_for_write_out(file) : FileWait{};
}

FileWait wait_for_tell(FileObject* self, CallArguments given) {
    return binary_of(self)->seekable != 0 ? wait_for_flush(self, given) : FileWait{};
}

FileWait wait_for_seek(FileObject* self, CallArguments given) {
    const BinaryFileObject* file = binary_of(self);
    SeekTarget target = {};
    const bool waits = file->seekable != 0 && read_target(given, target) &&
                       (has_open_position(file) || target.whence == SEEK_END);
    return waits ? wait_for_flush(self, given) : FileWait{};
}

FileWait wait_for_truncate(FileObject* self, CallArguments given) {
    BinaryFileObject* file = binary_of(self);
    const long long length = length_argument(file, given.first);
    if (length < 0 || file->seekable == 0 || !can_write(file)) {
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
