// An extension module that leaks on purpose: the check for leaks is checked with it, in scripts/test-extension-asan.

#include <Python.h>

namespace penstock {
namespace {

// What is lost must not be found in a register or on the stack by the search for pointers.
void* volatile lost = nullptr;

PyObject* leak_a_block(PyObject*, PyObject*) {
    lost = new char[100];
    lost = nullptr;
    Py_RETURN_NONE;
}

// One reference too many, as after a forgotten Py_DECREF. The interpreter's own frames lie between this and malloc.
PyObject* leak_an_object(PyObject*, PyObject*) {
    lost = PyBytes_FromStringAndSize(nullptr, 1000);
    lost = nullptr;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
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
