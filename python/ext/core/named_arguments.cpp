#include "core/named_arguments.hpp"

#include <algorithm>
#include <new>
#include <vector>

namespace penstock::python {

namespace {

/// Removes the argument of that name from the lists and returns it. Null when there is none.
PyObject* take_named(std::vector<PyObject*>& names, std::vector<PyObject*>& values,
                     const char* wanted) {
    const auto found = std::find_if(names.begin(), names.end(), [wanted](PyObject* name) {
        return PyUnicode_CompareWithASCIIString(name, wanted) == 0;
    });
    if (found == names.end()) {
        return nullptr;
    }
    const auto value = values.begin() + (found - names.begin());
    PyObject* taken = *value;
    values.erase(value);
    names.erase(found);
    return taken;
}

} // namespace

PyObject* normalize_keywords(const Parameters& parameters, FastMethod method, PyObject* self,
                             PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords) noexcept {
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    try {
        std::vector<PyObject*> stack(arguments, arguments + count);
        std::vector<PyObject*> values(arguments + count, arguments + count + keyword_count);
        std::vector<PyObject*> names;
        names.reserve(static_cast<std::size_t>(keyword_count));
        for (Py_ssize_t i = 0; i < keyword_count; ++i) {
            names.push_back(PyTuple_GET_ITEM(keywords, i));
        }
        const std::size_t wanted = parameters.second != nullptr ? 2 : 1;
        while (stack.size() < wanted) {
            const char* name = stack.empty() ? parameters.first : parameters.second;
            PyObject* value = take_named(names, values, name);
            if (value == nullptr) {
                return PyErr_Format(PyExc_TypeError,
                                    "%s() missing required positional argument: '%s'",
                                    parameters.method, name);
            }
            stack.push_back(value);
        }
        const auto positional = static_cast<Py_ssize_t>(stack.size());
        stack.insert(stack.end(), values.begin(), values.end());
        const Ref left(names.empty() ? nullptr
                                     : PyTuple_New(static_cast<Py_ssize_t>(names.size())));
        if (!left && !names.empty()) {
            return nullptr;
        }
        for (std::size_t i = 0; i < names.size(); ++i) {
            PyTuple_SET_ITEM(left.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names[i]));
        }
        return method(self, stack.data(), positional, left.get());
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

PyObject* only_argument(const Parameters& parameters, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords) noexcept {
    const Py_ssize_t given = count + (keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0);
    if (given != 1) {
        PyErr_Format(PyExc_TypeError, "%s() takes one argument, '%s' (%zd given)",
                     parameters.method, parameters.first, given);
        return nullptr;
    }
    if (count == 0 &&
        PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(keywords, 0), parameters.first) != 0) {
        PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R",
                     parameters.method, PyTuple_GET_ITEM(keywords, 0));
        return nullptr;
    }
    return arguments[0];
}

} // namespace penstock::python
