#pragma once

#include "core/module.hpp"

namespace penstock::python {

// The loop's methods of these names. They behave like asyncio's, on a plain socket.socket and
// without Python code in between. Other sockets and unusual arguments go to asyncio's own methods.

PyObject* sock_recv(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                    PyObject* keywords);
PyObject* sock_recv_into(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                         PyObject* keywords);
PyObject* sock_recvfrom(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* keywords);
PyObject* sock_recvfrom_into(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                             PyObject* keywords);
PyObject* sock_sendall(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords);
PyObject* sock_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords);
PyObject* sock_accept(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                      PyObject* keywords);
PyObject* sock_connect(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                       PyObject* keywords);

} // namespace penstock::python
