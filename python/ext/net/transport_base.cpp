#include "net/transport_base.hpp"

namespace penstock::python {

bool check_protocol(const ModuleState* state, PyObject* protocol) noexcept {
    return Py_TYPE(protocol) == state->tls_transport_type ||
           Ref(PyObject_GetAttr(protocol, state->name_connection_made));
}

void finish_waiter(LoopObject* loop, Ref waiter, PyObject* transport) noexcept {
    if (!waiter) {
        return;
    }
    const Ref cancelled(PyObject_CallMethodNoArgs(waiter.get(), loop->state->name_cancelled));
    if (!cancelled ||
        (cancelled.get() != Py_True &&
         !Ref(PyObject_CallMethodOneArg(waiter.get(), loop->state->name_set_result, Py_None)))) {
        report_raised(loop, "Fatal error on transport", transport, nullptr);
    }
}

bool InfoRequest::parse(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept {
    const Py_ssize_t keyword_count = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    name = count > 0 ? arguments[0] : nullptr;
    fallback = count > 1 ? arguments[1] : nullptr;
    bool known = count <= 2;
    for (Py_ssize_t i = 0; known && i < keyword_count; ++i) {
        PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
        PyObject** slot = nullptr;
        if (PyUnicode_CompareWithASCIIString(keyword, "name") == 0) {
            slot = &name;
        } else if (PyUnicode_CompareWithASCIIString(keyword, "default") == 0) {
            slot = &fallback;
        }
        known = slot != nullptr && *slot == nullptr;
        if (known) {
            *slot = arguments[count + i];
        }
    }
    if (!known || name == nullptr) {
        PyErr_SetString(PyExc_TypeError, "get_extra_info() takes a name and a default");
        return false;
    }
    if (fallback == nullptr) {
        fallback = Py_None;
    }
    return true;
}

} // namespace penstock::python
