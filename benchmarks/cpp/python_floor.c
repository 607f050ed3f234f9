// The floor of what Python costs: a TCP echo server that receives, calls a Python function, sends.
//
// It is echo_floor.cpp with one bytes object and one call for each message. No loop whose
// protocols are written in Python can do less: what one costs beyond this is the cost of its loop.
//
//     serve(listener, answer)     # listener: a descriptor; answer: bytes -> bytes
//
// Returns at the end of standard input.

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { kEvents = 256, kLongestWaitMs = 5000 };

static char buffer[256 * 1024];

static void watch(int epoll, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_all(int epoll, int listener) {
    const int on = 1;
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); // refused on a Unix socket
        watch(epoll, fd);
    }
}

static int send_all(int fd, const char* data, Py_ssize_t left) {
    while (left > 0) {
        ssize_t sent = send(fd, data, (size_t)left, MSG_NOSIGNAL);
        if (sent < 0) {
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            if (errno != EAGAIN || poll(&room, 1, kLongestWaitMs) != 1) {
                return -1;
            }
            sent = 0;
        }
        data += sent;
        left -= sent;
    }
    return 0;
}

// Returns -1 with a Python error if the function raised, or returned no bytes.
static int answer_one(int fd, PyObject* answer) {
    const ssize_t received = recv(fd, buffer, sizeof buffer, 0);
    if (received <= 0) {
        if (received == 0 || errno != EAGAIN) {
            close(fd);
        }
        return 0;
    }
    PyObject* data = PyBytes_FromStringAndSize(buffer, received);
    PyObject* reply = data == NULL ? NULL : PyObject_CallOneArg(answer, data);
    Py_XDECREF(data);
    char* bytes = NULL;
    Py_ssize_t size = 0;
    const int failed = reply == NULL || PyBytes_AsStringAndSize(reply, &bytes, &size) < 0;
    if (!failed && send_all(fd, bytes, size) < 0) {
        close(fd);
    }
    Py_XDECREF(reply);
    return failed ? -1 : 0;
}

static PyObject* serve(PyObject* module, PyObject* arguments) {
    (void)module;
    int listener;
    PyObject* answer;
    if (!PyArg_ParseTuple(arguments, "iO:serve", &listener, &answer)) {
        return NULL;
    }
    struct epoll_event events[kEvents];
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(epoll, listener);
    watch(epoll, STDIN_FILENO);
    while (1) {
        int ready;
        Py_BEGIN_ALLOW_THREADS;
        ready = epoll_wait(epoll, events, kEvents, -1);
        Py_END_ALLOW_THREADS;
        for (int i = 0; i < ready; ++i) {
            const int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(epoll, listener);
            } else if (fd == STDIN_FILENO) {
                if (read(fd, buffer, sizeof buffer) <= 0) {
                    close(epoll);
                    Py_RETURN_NONE;
                }
            } else if (answer_one(fd, answer) < 0) {
                close(epoll);
                return NULL;
            }
        }
    }
}

static PyMethodDef functions[] = {
    {"serve", serve, METH_VARARGS, "Answer every message until standard input ends."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "python_floor",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit_python_floor(void) {
    return PyModule_Create(&definition);
}
