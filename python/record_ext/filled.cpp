// filled(): an instance of a frozen class with slots, without its __init__. That sets each field by
// a call of object.__setattr__: ten fields take longer than the frame that they are read from.

#include "module.hpp"

#include <structmember.h>

namespace penstock::python::record {

namespace {

/// The place of a slot of `type`, or null with an exception set.
PyObject** place_of(PyTypeObject* type, PyObject* instance, PyObject* slot) noexcept {
    if (Py_IS_TYPE(slot, &PyMemberDescr_Type)) {
        const auto* member = reinterpret_cast<PyMemberDescrObject*>(slot);
        if (member->d_common.d_type == type && member->d_member->type == T_OBJECT_EX) {
            return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(instance) +
                                                member->d_member->offset);
        }
    }
    PyErr_Format(PyExc_TypeError, "%R is not a slot of %s", slot, type->tp_name);
    return nullptr;
}

} // namespace

/// filled(type, slots, *values): an instance whose slots hold the values, in the order of `slots`.
PyObject* filled(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count < 2 || !PyType_Check(arguments[0]) || !PyTuple_Check(arguments[1]) ||
        PyTuple_GET_SIZE(arguments[1]) != count - 2) {
        PyErr_SetString(PyExc_TypeError, "filled(type, slots, *values): a value for each slot");
        return nullptr;
    }
    auto* type = reinterpret_cast<PyTypeObject*>(arguments[0]);
    PyObject* made = type->tp_alloc(type, 0);
    for (Py_ssize_t i = 0; made != nullptr && i < count - 2; ++i) {
        PyObject** place = place_of(type, made, PyTuple_GET_ITEM(arguments[1], i));
        if (place == nullptr) {
            Py_CLEAR(made);
        } else {
            Py_XSETREF(*place, Py_NewRef(arguments[2 + i]));
        }
    }
    return made;
}

} // namespace penstock::python::record
