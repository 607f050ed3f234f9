// rising_stamps(): whether each series goes on behind its last time stamp.

#include "module.hpp"
#include "shared/buffer_view.hpp"

#include <cstdint>
#include <cstring>

namespace penstock::python::record {

namespace {

template <typename T> T value_at(const char* data, std::size_t place) noexcept {
    T value;
    std::memcpy(&value, data + place * sizeof(T), sizeof(T));
    return value;
}

} // namespace

PyObject* rising_stamps(PyObject*, PyObject* arguments) noexcept {
    PyObject* given_stamps = nullptr;
    PyObject* given_codes = nullptr;
    PyObject* given_last = nullptr;
    Py_ssize_t start = 0;
    if (PyArg_ParseTuple(arguments, "OOOn", &given_stamps, &given_codes, &given_last, &start) ==
        0) {
        return nullptr;
    }
    BufferView stamps;
    BufferView codes;
    BufferView last;
    if (!stamps.acquire(given_stamps, PyBUF_SIMPLE) || !codes.acquire(given_codes, PyBUF_SIMPLE) ||
        !last.acquire(given_last, PyBUF_WRITABLE)) {
        return nullptr;
    }
    const std::size_t rows = codes.bytes().size() / sizeof(std::int32_t);
    const std::size_t series = last.bytes().size() / sizeof(std::int64_t);
    if (stamps.bytes().size() / sizeof(std::int64_t) < rows || start < 0) {
        PyErr_SetString(PyExc_ValueError, "there are fewer stamps than codes");
        return nullptr;
    }
    char* const highest = last.data();
    std::size_t row = static_cast<std::size_t>(start);
    for (; row < rows; ++row) {
        const auto code = value_at<std::int32_t>(codes.data(), row);
        if (code < 0 || static_cast<std::size_t>(code) >= series) {
            PyErr_Format(PyExc_ValueError, "there is no series %d", static_cast<int>(code));
            return nullptr;
        }
        const auto stamp = value_at<std::int64_t>(stamps.data(), row);
        if (stamp <= value_at<std::int64_t>(highest, static_cast<std::size_t>(code))) {
            break;
        }
        std::memcpy(highest + static_cast<std::size_t>(code) * sizeof(stamp), &stamp,
                    sizeof(stamp));
    }
    return PyLong_FromSize_t(row);
}

} // namespace penstock::python::record
