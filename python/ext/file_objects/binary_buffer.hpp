#pragma once

#include "file_objects/file_step.hpp"

#include <cstring>
#include <string_view>

namespace penstock::python {

/// The bytes that were read ahead, from the position on.
inline std::string_view buffered(const BinaryFileObject* file) noexcept {
    if (file->ahead == nullptr || !PyBytes_CheckExact(file->ahead)) {
        return {};
    }
    const long long start = file->position - file->ahead_at;
    const long long size = PyBytes_GET_SIZE(file->ahead);
    if (start < 0 || start >= size) {
        return {};
    }
    return {PyBytes_AS_STRING(file->ahead) + start, static_cast<std::size_t>(size - start)};
}

inline bool is_readable(const BinaryFileObject* file) noexcept {
    return file->fd >= 0 && file->readable != 0;
}

/// Whether a read of `size` bytes returns what is buffered: all of it or, of an unbuffered pipe,
/// what a cancelled read has left.
inline bool suffices(const BinaryFileObject* file, std::size_t size) noexcept {
    const std::size_t there = buffered(file).size();
    return there >= size || (there != 0 && file->buffer_size == 0 && file->seekable == 0);
}

/// Whether only writing the buffer shows where the position is: data are appended at the end of
/// the file, which another process may have moved.
inline bool has_open_position(const BinaryFileObject* file) noexcept {
    return file->appending != 0 && file->unwritten_size != 0;
}

/// The size of the first line of `data`; 0 if its end is not there.
inline std::size_t line_size(std::string_view data) noexcept {
    const void* end = data.empty() ? nullptr : std::memchr(data.data(), '\n', data.size());
    return end != nullptr
               ? static_cast<std::size_t>(static_cast<const char*>(end) - data.data()) + 1
               : 0;
}

/// Whether reads may be tried in the page cache now, and see all that was written.
inline bool reads_from_cache(const BinaryFileObject* file) noexcept {
    return file->plain != 0 && file->regular != 0 && file->unwritten_size == 0 &&
           direct_engine(file) != nullptr;
}

/// Whether writes at an offset may be made in the page cache now.
inline bool writes_to_cache(const BinaryFileObject* file) noexcept {
    return file->fd >= 0 && file->writable != 0 && file->cached != 0 && file->plain != 0 &&
           file->appending == 0 && direct_engine(file) != nullptr;
}

/// Writes `data`, which are bytes, at `offset` of a file that `writes_to_cache`. False, without an
/// exception, if that would have to wait or has failed: the engine must write all of it then.
bool write_at(BinaryFileObject* file, PyObject* data, long long offset) noexcept;

/// Reads up to `size` bytes at `offset` into a new object, of a file that `reads_from_cache`. Null,
/// without an exception, if the page cache has only a part, and for every error.
Ref read_cached_at(BinaryFileObject* file, Py_ssize_t size, long long offset) noexcept;

/// Reads ahead from the position on, at least `size` bytes unless the file ends before, if the page
/// cache has them. False if not, or for an unbuffered file; nothing was read then.
///
/// All that reads from the cache writes out first what was buffered.
bool fill_from_cache(BinaryFileObject* file, Py_ssize_t size) noexcept;

/// Makes what was read from the position on the read-ahead; larger ones pay while the file is read
/// in its order.
void keep_read_ahead(BinaryFileObject* file, Ref data) noexcept;

/// Reads `size` bytes at the position, which moves, past the buffer. `AtOnce::slow` if the page
/// cache does not have them.
AtOnce read_past_buffer(BinaryFileObject* file, Py_ssize_t size, PyObject** result) noexcept;

/// Copies `size` bytes at the position, less only at the end of the file, to `target`: from the
/// buffer, which it may fill, or from the page cache. Returns how many, or -1 where those do not
/// have them. The position stays.
Py_ssize_t fill_target(BinaryFileObject* file, char* target, Py_ssize_t size) noexcept;

/// The size of a regular file, without asking a server; -1 if that cannot be told.
long long present_size(const BinaryFileObject* file) noexcept;

/// Reads the rest of a file, of at most `most` bytes.
AtOnce read_rest_from_cache(BinaryFileObject* file, long long most, PyObject** result) noexcept;

/// Writes out what was buffered. False, without an exception, if the coroutine must do it.
bool write_out_at_once(BinaryFileObject* file) noexcept;

/// Whether the file holds all that was written. Writes out what was buffered, if that needs no
/// wait.
inline bool sees_written(BinaryFileObject* file) noexcept {
    return file->unwritten_size == 0 || write_out_at_once(file);
}

/// Buffers data to be written, or writes them and those before them to the page cache.
AtOnce write_at_once(BinaryFileObject* file, PyObject* data) noexcept;

/// Takes `data`, the first of the buffered bytes; null with an exception set.
inline PyObject* take_buffered(BinaryFileObject* file, std::string_view data) noexcept {
    PyObject* taken = PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size()));
    if (taken != nullptr) {
        file->position += static_cast<long long>(data.size());
    }
    return taken;
}

inline void drop_read_ahead(BinaryFileObject* file) noexcept {
    Py_XSETREF(file->ahead, Py_NewRef(file->base.state->empty_bytes));
}

inline AtOnce at_once_of(PyObject* made, PyObject** result) noexcept {
    *result = made;
    return made != nullptr ? AtOnce::done : AtOnce::failed;
}

/// The outcome of `__anext__` with a line: an empty one raises StopAsyncIteration.
inline AtOnce end_iteration_at_nothing(PyObject** line) noexcept {
    if (PyObject_Size(*line) != 0) {
        return AtOnce::done;
    }
    Py_CLEAR(*line);
    PyErr_SetNone(PyExc_StopAsyncIteration);
    return AtOnce::failed;
}

/// Calls of the methods peek() and flush(); null with an exception set.
PyObject* make_peek(BinaryFileObject* file) noexcept;
PyObject* make_flush(BinaryFileObject* file) noexcept;

} // namespace penstock::python
