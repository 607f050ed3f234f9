#include "files/stat_result.hpp"

#include <cstdint>

#include <sys/sysmacros.h>

namespace penstock::python {

namespace {

constexpr std::int64_t second = 1'000'000'000;

std::int64_t nanoseconds_of(const statx_timestamp& time) noexcept {
    return time.tv_sec * second + time.tv_nsec;
}

} // namespace

PyObject* make_stat_result(ModuleState* state, const struct statx& status) noexcept {
    const statx_timestamp* times[] = {&status.stx_atime, &status.stx_mtime, &status.stx_ctime};
    // The fields of os.stat_result on Linux: the tuple's ten, then those that have only names.
    const Ref fields(
        PyStructSequence_New(reinterpret_cast<PyTypeObject*>(state->stat_result_type)));
    if (!fields) {
        return nullptr;
    }
    Py_ssize_t index = 0;
    bool complete = true;
    const auto add = [&](PyObject* value) {
        complete = complete && value != nullptr;
        PyStructSequence_SetItem(fields.get(), index++, value);
    };
    add(PyLong_FromUnsignedLong(status.stx_mode));
    add(PyLong_FromUnsignedLongLong(status.stx_ino));
    add(PyLong_FromUnsignedLongLong(makedev(status.stx_dev_major, status.stx_dev_minor)));
    add(PyLong_FromUnsignedLong(status.stx_nlink));
    add(PyLong_FromUnsignedLong(status.stx_uid));
    add(PyLong_FromUnsignedLong(status.stx_gid));
    add(PyLong_FromUnsignedLongLong(status.stx_size));
    for (const statx_timestamp* time : times) {
        add(PyLong_FromLongLong(time->tv_sec));
    }
    for (const statx_timestamp* time : times) {
        add(PyFloat_FromDouble(static_cast<double>(time->tv_sec) + 1e-9 * time->tv_nsec));
    }
    for (const statx_timestamp* time : times) {
        add(PyLong_FromLongLong(nanoseconds_of(*time)));
    }
    add(PyLong_FromUnsignedLong(status.stx_blksize));
    add(PyLong_FromUnsignedLongLong(status.stx_blocks));
    add(PyLong_FromUnsignedLongLong(makedev(status.stx_rdev_major, status.stx_rdev_minor)));
    return complete ? Py_NewRef(fields.get()) : nullptr;
}

} // namespace penstock::python
