#include "water_marks.hpp"

namespace penstock::python {

bool WaterMarks::parse(WaterMarks& marks, PyObject* arguments, PyObject* keywords,
                       const char* method, std::size_t default_high) noexcept {
    static const char* names[] = {"high", "low", nullptr};
    PyObject* high_object = Py_None;
    PyObject* low_object = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, method, const_cast<char**>(names),
                                     &high_object, &low_object)) {
        return false;
    }
    Py_ssize_t low =
        low_object != Py_None ? PyNumber_AsSsize_t(low_object, PyExc_OverflowError) : 0;
    if (PyErr_Occurred() != nullptr) {
        return false;
    }
    auto high = static_cast<Py_ssize_t>(default_high);
    if (high_object != Py_None) {
        high = PyNumber_AsSsize_t(high_object, PyExc_OverflowError);
        if (PyErr_Occurred() != nullptr) {
            return false;
        }
    } else if (low_object != Py_None) {
        high = 4 * low;
    }
    if (low_object == Py_None) {
        low = high / 4 - (high % 4 < 0 ? 1 : 0); // rounded down, as Python divides
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
