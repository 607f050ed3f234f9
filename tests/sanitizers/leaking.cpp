// An extension module with deliberate faults, with which scripts/test-extension-asan verifies its
// checks: leaks, and a call into the interpreter under a lease.

#include "shared/lease.hpp"

namespace penstock {
namespace {

// The search for pointers must not find the leaked block in a register or on the stack.
void* volatile lost = nullptr;

PyObject* leak_a_block(PyObject*, PyObject*) {
    lost = new char[100];
    lost = nullptr;
    Py_RETURN_NONE;
}

// One reference too many, as after a forgotten Py_DECREF. The interpreter's frames are between this
// and malloc.
PyObject* leak_an_object(PyObject*, PyObject*) {
    lost = PyBytes_FromStringAndSize(nullptr, 1000);
    lost = nullptr;
    Py_RETURN_NONE;
}

PyObject* call_under_a_lease(PyObject*, PyObject* callable) {
    const python::Lease lease("a deliberate lease");
    return PyObject_Vectorcall(callable, nullptr, 0, nullptr);
}

PyMethodDef methods[] = {
    {"call_under_a_lease", call_under_a_lease, METH_O, nullptr},
    {"leak_a_block", leak_a_block, METH_NOARGS, nullptr},
    {"leak_an_object", leak_an_object, METH_NOARGS, nullptr},
    {},
};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "leaking", nullptr, 0, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace
} // namespace penstock

PyMODINIT_FUNC PyInit_leaking() {
    return PyModuleDef_Init(&penstock::module);
}
