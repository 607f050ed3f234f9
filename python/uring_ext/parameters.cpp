#include "parameters.hpp"

namespace penstock::python::uring {

namespace {

std::size_t index_of(const ModuleState* state, PyObject* keyword,
                     const ArgumentSlots& places) noexcept {
    for (std::size_t i = 0; i < places.count; ++i) {
        if (state->names[static_cast<std::size_t>(places.names[i])] == keyword) {
            return i;
        }
    }
    // A name that was made at run time is not interned.
    for (std::size_t i = 0; i < places.count; ++i) {
        PyObject* name = state->names[static_cast<std::size_t>(places.names[i])];
        if (PyUnicode_Compare(name, keyword) == 0) {
            return i;
        }
    }
    return places.count;
}

} // namespace

bool assign_arguments(const ModuleState* state, const char* function, PyObject* const* arguments,
                      Py_ssize_t count, PyObject* keywords, const ArgumentSlots& places) noexcept {
    const auto positional = static_cast<std::size_t>(count);
    if (positional > places.positional) {
        PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments (%zu given)",
                     function, places.positional, positional);
        return false;
    }
    for (std::size_t i = 0; i < positional; ++i) {
        places.given[i] = arguments[i];
    }
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
        const std::size_t place = index_of(state, keyword, places);
        if (place == places.count) {
            PyErr_Format(PyExc_TypeError, "%s() has no parameter '%U'", function, keyword);
            return false;
        }
        if (places.given[place] != nullptr) {
            PyErr_Format(PyExc_TypeError, "%s() got two values for '%U'", function, keyword);
            return false;
        }
        places.given[place] = arguments[count + i];
    }
    for (std::size_t i = 0; i < places.required; ++i) {
        if (places.given[i] == nullptr) {
            PyErr_Format(PyExc_TypeError, "%s() is missing the argument '%U'", function,
                         state->names[static_cast<std::size_t>(places.names[i])]);
            return false;
        }
    }
    return true;
}

} // namespace penstock::python::uring
