// What a binary file reads from the page cache, and its buffers.

#include "file_objects/binary_buffer.hpp"

#include "files/cached_writes.hpp"
#include "shared/cached_copy.hpp"

#include <algorithm>

#include <penstock/io/files/read_status.hpp>
#include <sys/stat.h>

namespace penstock::python {

namespace {

constexpr long long largest_read_ahead = 128 << 10;

/// What a read takes of the loop's time slice, beside its bytes.
constexpr std::int64_t cost_of_read = 4096;

/// Copies up to `size` bytes at `offset` from the page cache; `complete` only without an error.
io::CachedRead copy_cached(BinaryFileObject* file, char* target, Py_ssize_t size,
                           long long offset) noexcept {
    FileEngineObject* engine = direct_engine(file);
    const int fd = file->fd;
    io::CachedRead read = copy_from_cache(size, [&] {
        return io::read_from_cache(fd, target, static_cast<std::size_t>(size), offset,
                                   io::FileOperation::Extent::whole);
    });
    engine->slice_credit -= static_cast<std::int64_t>(read.count) + cost_of_read;
    ask_next_time(&file->base);
    read.complete = read.complete && read.error == 0;
    return read;
}

/// Whether reads may be tried in the page cache now. Writes out what was buffered, so that they see
/// it.
bool prepare_to_read(BinaryFileObject* file) noexcept {
    return sees_written(file) && reads_from_cache(file);
}

/// Buffers data to be written. `AtOnce::slow` if they do not fit behind those that are there.
AtOnce write_to_buffer(BinaryFileObject* file, PyObject* data) noexcept {
    const long long size = PyBytes_GET_SIZE(data);
    const bool follows = file->unwritten_at + file->unwritten_size == file->position;
    if (size >= file->buffer_size || file->unwritten_size + size > file->buffer_size ||
        (file->unwritten_size != 0 && !follows) || file->unwritten == nullptr ||
        !PyList_CheckExact(file->unwritten)) {
        return AtOnce::slow;
    }
    if (size == 0) {
        return AtOnce::done; // without a size the list would never be written out
    }
    if (PyList_Append(file->unwritten, data) != 0) {
        return AtOnce::failed;
    }
    if (file->unwritten_size == 0) {
        file->unwritten_at = file->position;
        if (file->seekable != 0) {
            drop_read_ahead(file);
        }
    }
    file->unwritten_size += size;
    file->position += size;
    return AtOnce::done;
}

} // namespace

Ref read_cached_at(BinaryFileObject* file, Py_ssize_t size, long long offset) noexcept {
    if (size > max_cached_file) {
        return Ref();
    }
    PyObject* data = PyBytes_FromStringAndSize(nullptr, size);
    if (data == nullptr) {
        PyErr_Clear();
        return Ref();
    }
    const io::CachedRead read = copy_cached(file, PyBytes_AS_STRING(data), size, offset);
    if (!read.complete) {
        Py_DECREF(data);
        return Ref();
    }
    const auto count = static_cast<Py_ssize_t>(read.count);
    if (count < size && _PyBytes_Resize(&data, count) != 0) {
        PyErr_Clear();
    }
    return Ref(data);
}

bool write_at(BinaryFileObject* file, PyObject* data, long long offset) noexcept {
    const Py_ssize_t size = PyBytes_GET_SIZE(data);
    const CachedWrite written =
        write_to_cache(direct_engine(file), file->fd, PyBytes_AS_STRING(data), size, offset);
    ask_next_time(&file->base);
    return written.begun && written.error == 0;
}

bool fill_from_cache(BinaryFileObject* file, Py_ssize_t size) noexcept {
    if (file->buffer_size == 0 || !prepare_to_read(file)) {
        return false;
    }
    Ref data = read_cached_at(
        file, static_cast<Py_ssize_t>(std::max<long long>(size, file->next_read_ahead)),
        file->position);
    if (!data) {
        return false;
    }
    keep_read_ahead(file, std::move(data));
    return true;
}

void keep_read_ahead(BinaryFileObject* file, Ref data) noexcept {
    const bool holds = file->ahead != nullptr && PyBytes_CheckExact(file->ahead);
    const long long ahead = holds ? PyBytes_GET_SIZE(file->ahead) : 0;
    if (file->position >= file->ahead_at && file->position <= file->ahead_at + ahead) {
        file->next_read_ahead =
            std::min(2 * file->next_read_ahead, std::max(largest_read_ahead, file->buffer_size));
    }
    file->ahead_at = file->position;
    Py_XSETREF(file->ahead, data.release());
}

long long present_size(const BinaryFileObject* file) noexcept {
    struct statx status = {};
    return io::read_status(file->fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE, status) ==
                   0
               ? static_cast<long long>(status.stx_size)
               : -1;
}

Py_ssize_t fill_target(BinaryFileObject* file, char* target, Py_ssize_t size) noexcept {
    std::string_view data = buffered(file);
    const auto wanted = static_cast<std::size_t>(size);
    if (!suffices(file, wanted) && size < file->buffer_size) {
        if (!fill_from_cache(file, size)) {
            return -1;
        }
        data = buffered(file);
    }
    const auto there = static_cast<Py_ssize_t>(std::min(data.size(), wanted));
    data.copy(target, static_cast<std::size_t>(there));
    if (suffices(file, wanted) || size < file->buffer_size) {
        return there;
    }
    if (!prepare_to_read(file) || size - there > max_cached_file) {
        return -1;
    }
    const io::CachedRead read =
        copy_cached(file, target + there, size - there, file->position + there);
    return read.complete ? there + static_cast<Py_ssize_t>(read.count) : -1;
}

AtOnce read_past_buffer(BinaryFileObject* file, Py_ssize_t size, PyObject** result) noexcept {
    if (!prepare_to_read(file)) {
        return AtOnce::slow;
    }
    Ref data = read_cached_at(file, size, file->position);
    if (!data) {
        return AtOnce::slow;
    }
    file->position += PyBytes_GET_SIZE(data.get());
    *result = data.release();
    return AtOnce::done;
}

AtOnce read_rest_from_cache(BinaryFileObject* file, long long most, PyObject** result) noexcept {
    if (!prepare_to_read(file)) {
        return AtOnce::slow;
    }
    long long left = file->known_size - file->position;
    if (left <= 0) {
        // Not the size at opening: it says nothing about a file that has grown since, such as one
        // in /proc.
        const long long size = present_size(file);
        if (size < 0) {
            return AtOnce::slow;
        }
        left = std::max<long long>(size - file->position, 0);
    }
    // With room for one byte more than is left, a short read shows the end.
    if (left > most) {
        return AtOnce::slow;
    }
    Ref data = read_cached_at(file, static_cast<Py_ssize_t>(left) + 1, file->position);
    if (!data || PyBytes_GET_SIZE(data.get()) > left) {
        return AtOnce::slow;
    }
    file->position += PyBytes_GET_SIZE(data.get());
    *result = data.release();
    return AtOnce::done;
}

bool write_out_at_once(BinaryFileObject* file) noexcept {
    if (!writes_to_cache(file) || file->unwritten == nullptr ||
        !PyList_CheckExact(file->unwritten)) {
        return false;
    }
    const Ref data(PyObject_CallMethodOneArg(file->base.state->empty_bytes,
                                             file->base.state->name_join, file->unwritten));
    if (!data || !PyBytes_CheckExact(data.get())) {
        PyErr_Clear();
        return false;
    }
    if (!write_at(file, data.get(), file->unwritten_at) ||
        PyList_SetSlice(file->unwritten, 0, PyList_GET_SIZE(file->unwritten), nullptr) != 0) {
        PyErr_Clear();
        return false;
    }
    file->unwritten_size = 0;
    return true;
}

AtOnce write_at_once(BinaryFileObject* file, PyObject* data) noexcept {
    AtOnce outcome = write_to_buffer(file, data);
    if (outcome == AtOnce::slow && file->unwritten_size != 0 && write_out_at_once(file)) {
        outcome = write_to_buffer(file, data);
    }
    if (outcome != AtOnce::slow || file->unwritten_size != 0 || !writes_to_cache(file) ||
        !write_at(file, data, file->position)) {
        return outcome;
    }
    drop_read_ahead(file);
    file->position += PyBytes_GET_SIZE(data);
    return AtOnce::done;
}

} // namespace penstock::python
