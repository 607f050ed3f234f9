#include "net/water_marks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace penstock::python {

namespace {

constexpr Py_ssize_t most = std::numeric_limits<Py_ssize_t>::max();

/// Reads a mark in bytes. Rounds a fraction down, which changes nothing, since sizes are whole
/// numbers. A value above every size becomes the largest size. False with an exception set.
bool parse_mark(PyObject* object, Py_ssize_t& mark) noexcept {
    if (!PyFloat_Check(object)) {
        mark = PyNumber_AsSsize_t(object, nullptr);
        return PyErr_Occurred() == nullptr;
    }
    const double bytes = std::floor(PyFloat_AS_DOUBLE(object));
    constexpr double limit = 9.2e18;
    mark = !(bytes >= 0) ? -1 : bytes < limit ? static_cast<Py_ssize_t>(bytes) : most;
    return true;
}

} // namespace

bool WaterMarks::parse(WaterMarks& marks, PyObject* arguments, PyObject* keywords,
                       const char* method, std::size_t default_high) noexcept {
    static const char* names[] = {"high", "low", nullptr};
    PyObject* high_object = Py_None;
    PyObject* low_object = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, method, const_cast<char**>(names),
                                     &high_object, &low_object)) {
        return false;
    }
    Py_ssize_t low = 0;
    auto high = static_cast<Py_ssize_t>(default_high);
    if (low_object != Py_None && !parse_mark(low_object, low)) {
        return false;
    }
    if (high_object != Py_None) {
        if (!parse_mark(high_object, high)) {
            return false;
        }
    } else if (low_object != Py_None) {
        high = 4 * std::clamp(low, -most / 4, most / 4);
    }
    if (low_object == Py_None) {
        low = high / 4 - (high % 4 < 0 ? 1 : 0); // rounded down, as in Python
    }
    if (!(high >= low && low >= 0)) {
        PyErr_Format(PyExc_ValueError, "high (%zd) must be >= low (%zd) must be >= 0", high, low);
        return false;
    }
    marks = {.high = static_cast<std::size_t>(high), .low = static_cast<std::size_t>(low)};
    return true;
}

PyObject* WaterMarks::as_tuple() const noexcept {
    return Py_BuildValue("(nn)", static_cast<Py_ssize_t>(low), static_cast<Py_ssize_t>(high));
}

} // namespace penstock::python
