// deflated(): text as a DEFLATE stream, without the GIL.

#include "deflate.hpp"
#include "encoded_rows.hpp"
#include "module.hpp"

#include <new>

namespace penstock::python::record {

PyObject* deflated(PyObject*, PyObject* text) noexcept {
    constexpr std::size_t largest = std::size_t{1} << 31;
    if (!PyBytes_Check(text) || static_cast<std::size_t>(PyBytes_GET_SIZE(text)) >= largest) {
        PyErr_SetString(PyExc_TypeError, "text to deflate is bytes, fewer than 2 GiB");
        return nullptr;
    }
    const std::string_view given(PyBytes_AS_STRING(text),
                                 static_cast<std::size_t>(PyBytes_GET_SIZE(text)));
    bool failed = false;
    PyObject* made = encoded_rows(deflate_bound(given.size()), [&](char* out) noexcept {
        try {
            return deflate(out, given);
        } catch (const std::bad_alloc&) {
            failed = true;
            return out;
        }
    });
    if (failed) {
        Py_XDECREF(made);
        return PyErr_NoMemory();
    }
    return made;
}

} // namespace penstock::python::record
