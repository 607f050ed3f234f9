// Whole files that are in the page cache.
//
// What has to be waited for goes to the ring. What has not costs less without: there is no operation
// to be prepared, submitted and completed, and nothing in Python between opening, reading and closing.

#include "cached_copy.hpp"
#include "cached_opening.hpp"
#include "uring_module.hpp"

#include <sys/uio.h>

namespace penstock::python {

namespace {

/// Fills `bytes` from the cache; false if that is not all of the file.
bool read_whole(int fd, PyObject* bytes) noexcept {
    char beyond = 0; // a file that ends where it should leaves it alone
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
    // A size of 0 says nothing: files of /proc have it.
    if (found.size == 0 || found.size > largest_file_at_once) {
        return PyLong_FromLong(-EAGAIN);
    }
    Ref bytes(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(found.size)));
    if (bytes && !read_whole(file.get(), bytes.get())) {
        return PyLong_FromLong(-EAGAIN);
    }
    return bytes.release();
}

} // namespace penstock::python
