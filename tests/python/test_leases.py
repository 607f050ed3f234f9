"""Each call of the C API by the ring's module is checked against leases, or runs no Python code."""

from __future__ import annotations

import re
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[2] / "python"
CALL = re.compile(r"\b(_?Py[A-Za-z]*_\w+)\s*\(")
CHECKED = set(re.findall(r"^#define (Py\w+)\(", (PYTHON / "shared/lease.hpp").read_text(), re.M))

# They allocate nothing that the collector tracks, drop no reference and call no method.
RUN_NO_CODE = {
    *("PyBool_FromLong", "PyBuffer_FillInfo", "PyBytes_AS_STRING", "PyBytes_CheckExact"),
    *("PyBytes_FromStringAndSize", "PyBytes_GET_SIZE", "PyErr_ExceptionMatches", "PyErr_Fetch"),
    *("PyErr_GetRaisedException", "PyErr_Occurred", "PyExceptionClass_Check"),
    *("PyExceptionInstance_Check", "PyList_SET_ITEM", "PyLong_Check"),
    *("PyLong_CheckExact", "PyLong_FromLong", "PyLong_FromSize_t", "PyLong_FromSsize_t"),
    *("PyLong_FromUnsignedLong", "PyLong_FromUnsignedLongLong", "PyMem_Calloc", "PyMem_Free"),
    *("PyModuleDef_Init", "PyModule_GetState", "PyObject_GC_Del", "PyObject_GC_Track"),
    *("PyObject_GC_UnTrack", "PySequence_Fast_GET_ITEM", "PySequence_Fast_GET_SIZE"),
    *("PyStructSequence_SetItem", "PyThread_get_thread_ident", "PyTuple_GET_ITEM"),
    *("PyTuple_GET_SIZE", "PyTuple_SET_ITEM", "PyType_GetModuleByDef", "PyUnicode_Compare"),
    *("PyUnicode_InternFromString", "Py_INCREF", "Py_IS_TYPE", "Py_IsFinalizing", "Py_NewRef"),
    *("Py_REFCNT", "Py_SIZE", "Py_TYPE", "Py_VISIT", "Py_XNewRef", "_Py_IsFinalizing"),
}
# Macros that end in a checked call.
BY_OTHERS = {"Py_CLEAR": "Py_DECREF", "_PyObject_GC_New": "PyObject_GC_New"}
OWN = {"PyInit__uring"}


def test_each_call_that_may_run_python_code_is_checked() -> None:
    files = [*PYTHON.glob("uring_ext/**/*.[ch]pp"), *PYTHON.glob("shared/*.hpp")]
    text = "\n".join(re.sub(r"//.*", "", file.read_text()) for file in files)
    called = set(CALL.findall(text)) - CHECKED
    assert set(BY_OTHERS.values()) <= CHECKED
    assert called - RUN_NO_CODE - BY_OTHERS.keys() - OWN == set()
