// Whole files from the page cache.
//
// A read that has to wait goes to the ring. A cached read is cheaper without the ring: no operation
// is prepared, submitted and completed, and no Python code runs between opening, reading and
// closing.

#include "module.hpp"
#include "shared/cached_copy.hpp"
#include "shared/cached_opening.hpp"

#include <sys/uio.h>

namespace penstock::python::uring {

namespace {

/// Fills `bytes` from the cache. False if that is not the whole file.
bool read_whole(int fd, PyObject* bytes) noexcept {
    char beyond = 0; // stays unused if the file ends at its size
    const Py_ssize_t size = PyBytes_GET_SIZE(bytes);
    const iovec parts[] = {
        {.iov_base = PyBytes_AS_STRING(bytes), .iov_len = static_cast<std::size_t>(size)},
        {.iov_base = &beyond, .iov_len = 1},
    };
    return copy_from_cache(size, [&] { return ::preadv2(fd, parts, 2, 0, RWF_NOWAIT); }) == size;
}

} // namespace

PyObject* read_cached_file(PyObject* /*module*/, PyObject* path) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(path, static_cast<void*>(&encoded)) == 0) {
        return nullptr;
    }
    const Ref name(encoded);
    const CachedFile found = open_regular_from_cache(PyBytes_AS_STRING(encoded), O_RDONLY);
    const OwnedDescriptor file(found.fd);
    if (found.fd < 0) {
        return PyLong_FromLong(found.fd);
    }
    // A size of 0 gives no information: files in /proc have it.
    if (found.size == 0 || found.size > max_cached_file) {
        return PyLong_FromLong(-EAGAIN);
    }
    Ref bytes(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(found.size)));
    if (bytes && !read_whole(file.get(), bytes.get())) {
        return PyLong_FromLong(-EAGAIN);
    }
    return bytes.release();
}

} // namespace penstock::python::uring
