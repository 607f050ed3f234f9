// Opening a tty and closing it, each as one call that holds no GIL: for ports that nobody stands in
// the way of. And the count that an instrument's client asks for before every question.
// What fails here leaves nothing behind, and `penstock.serial._tty.device` then does the same steps
// one by one; it knows what to say of each.
//
// <asm/termbits.h> and the C library's <termios.h> both define struct termios.

#include "core/module.hpp"
#include "serial/kernel_termios.hpp"

#include <cerrno>
#include <cstring>

#include <asm/ioctls.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace penstock::python {

namespace {

constexpr unsigned first_pty_major = 136; // Linux, Documentation/admin-guide/devices.txt
constexpr unsigned last_pty_major = 143;
constexpr cc_t xon = 0x11;
constexpr cc_t xoff = 0x13;

bool is_pty(dev_t device) noexcept {
    return ::major(device) >= first_pty_major && ::major(device) <= last_pty_major;
}

/// What a port is opened with.
struct Wanted {
    const char* path = nullptr;
    unsigned input_flags = 0;
    unsigned control_flags = 0;
    unsigned rate = 0;
    bool exclusive = false;
};

/// An open tty, undone by `undo` until it is handed over.
struct OpenTty {
    int fd = -1;
    bool has_wire = false;
    bool flagged = false; ///< TIOCEXCL was set
    bool changed = false; ///< the settings were
    KernelTermios found{};
    KernelTermios asked{};
    KernelTermios answered{};

    void undo() noexcept {
        if (fd < 0) {
            return;
        }
        if (changed) {
            ::ioctl(fd, TCSETS2, &found);
        }
        if (flagged) {
            ::ioctl(fd, TIOCNXCL);
        }
        ::flock(fd, LOCK_UN); // a child that was forked meanwhile shares it
        ::close(fd);
    }
};

/// Whether a record lock of another program is in the way. None of its own is taken.
bool has_record_lock(int fd, bool exclusive) noexcept {
    struct ::flock asked{};
    asked.l_type = static_cast<short>(exclusive ? F_WRLCK : F_RDLCK);
    asked.l_whence = SEEK_SET;
    return ::fcntl(fd, F_GETLK, &asked) == 0 && asked.l_type != F_UNLCK;
}

bool lock(OpenTty& tty, bool exclusive) noexcept {
    if (::flock(tty.fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0 ||
        has_record_lock(tty.fd, exclusive)) {
        return false;
    }
    if (!exclusive) {
        return true;
    }
    int held = 0;
    if (tty.has_wire && (::ioctl(tty.fd, TIOCGEXCL, &held) != 0 || held != 0)) {
        return false;
    }
    tty.flagged = ::ioctl(tty.fd, TIOCEXCL) == 0;
    return tty.flagged;
}

bool configure(OpenTty& tty, const Wanted& wanted) noexcept {
    tty.asked = tty.found; // the line discipline, and characters without effect in raw mode
    tty.asked.c_iflag = wanted.input_flags;
    tty.asked.c_oflag = 0;
    tty.asked.c_cflag = wanted.control_flags;
    tty.asked.c_lflag = 0;
    tty.asked.c_ispeed = tty.asked.c_ospeed = wanted.rate;
    tty.asked.c_cc[VMIN] = 1;
    tty.asked.c_cc[VTIME] = 0;
    tty.asked.c_cc[VSTART] = xon;
    tty.asked.c_cc[VSTOP] = xoff;
    tty.changed = ::ioctl(tty.fd, TCSETS2, &tty.asked) == 0;
    return tty.changed && ::ioctl(tty.fd, TCGETS2, &tty.answered) == 0;
}

/// False where anything is in the way; `tty` is then to be undone.
bool open_with(OpenTty& tty, const Wanted& wanted) noexcept {
    struct stat status{};
    // Opening another kind of file can have effects: a FIFO blocks, a watchdog starts.
    if (::stat(wanted.path, &status) != 0 || !S_ISCHR(status.st_mode)) {
        return false;
    }
    tty.fd = ::open(wanted.path, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (tty.fd < 0 || ::ioctl(tty.fd, TCGETS2, &tty.found) != 0 || ::fstat(tty.fd, &status) != 0) {
        return false;
    }
    tty.has_wire = !is_pty(status.st_rdev);
    return lock(tty, wanted.exclusive) && configure(tty, wanted);
}

Ref bytes_of(const KernelTermios& settings) noexcept {
    return Ref(
        PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&settings), sizeof(settings)));
}

PyObject* result_of(const OpenTty& tty) noexcept {
    const Ref found = bytes_of(tty.found);
    const Ref asked = bytes_of(tty.asked);
    const bool accepted = std::memcmp(&tty.asked, &tty.answered, sizeof(tty.asked)) == 0;
    const Ref answered = accepted ? Ref::borrow(asked.get()) : bytes_of(tty.answered);
    if (!found || !asked || !answered) {
        return nullptr;
    }
    return Py_BuildValue("(iOOOO)", tty.fd, tty.has_wire ? Py_True : Py_False, found.get(),
                         asked.get(), answered.get());
}

PyObject* open_tty(PyObject* /*module*/, PyObject* arguments) noexcept {
    Wanted wanted;
    PyObject* path = nullptr;
    int exclusive = 0;
    if (!PyArg_ParseTuple(arguments, "O&IIIp:open_tty", &PyUnicode_FSConverter, &path,
                          &wanted.input_flags, &wanted.control_flags, &wanted.rate, &exclusive)) {
        return nullptr;
    }
    const Ref holds_path(path);
    wanted.path = PyBytes_AS_STRING(path);
    wanted.exclusive = exclusive != 0;
    OpenTty tty;
    bool opened = false;
    Py_BEGIN_ALLOW_THREADS;
    opened = open_with(tty, wanted);
    if (!opened) {
        tty.undo();
    }
    Py_END_ALLOW_THREADS;
    if (!opened) {
        Py_RETURN_NONE;
    }
    PyObject* result = result_of(tty);
    if (result == nullptr) {
        tty.undo();
    }
    return result;
}

/// Which steps of a closing have failed, and why.
struct Failures {
    int errors[3] = {0, 0, 0};
    int count = 0;

    void note(int result) noexcept {
        if (result < 0) {
            errors[count++] = errno;
        }
    }
};

/// Whether no other program that takes the lock has the tty open.
bool is_alone(int fd, bool exclusive) noexcept {
    return exclusive || ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

/// If a failing device refuses one step, the next ones still have to be done.
Failures close_with(int fd, const KernelTermios& settings, bool exclusive) noexcept {
    Failures failures;
    // Only if there is any: on a pty a discard also removes bytes that count as sent and that the
    // other end has not read yet.
    int unsent = 0;
    const int counted = ::ioctl(fd, TIOCOUTQ, &unsent);
    failures.note(counted != 0 || unsent == 0 ? counted : ::ioctl(fd, TCFLSH, TCOFLUSH));
    if (is_alone(fd, exclusive)) {
        failures.note(::ioctl(fd, TCSETS2, &settings));
    }
    const int released = exclusive ? ::ioctl(fd, TIOCNXCL) : 0;
    failures.note(released);
    // A forked child shares the lock, so closing is not enough.
    if (::flock(fd, LOCK_UN) != 0 && released == 0) {
        failures.note(-1);
    }
    ::close(fd);
    return failures;
}

PyObject* close_tty(PyObject* /*module*/, PyObject* arguments) noexcept {
    int fd = -1;
    PyObject* settings = nullptr;
    int exclusive = 0;
    if (!PyArg_ParseTuple(arguments, "iSp:close_tty", &fd, &settings, &exclusive)) {
        return nullptr;
    }
    KernelTermios restored{};
    if (PyBytes_GET_SIZE(settings) != sizeof(restored)) {
        return PyErr_Format(PyExc_ValueError, "the settings must have %zu bytes, not %zd",
                            sizeof(restored), PyBytes_GET_SIZE(settings));
    }
    std::memcpy(&restored, PyBytes_AS_STRING(settings), sizeof(restored));
    Failures failures;
    Py_BEGIN_ALLOW_THREADS;
    failures = close_with(fd, restored, exclusive != 0);
    Py_END_ALLOW_THREADS;
    Ref errors(PyTuple_New(failures.count));
    for (int place = 0; errors && place < failures.count; ++place) {
        PyObject* error = PyLong_FromLong(failures.errors[place]);
        if (error == nullptr) {
            return nullptr;
        }
        PyTuple_SET_ITEM(errors.get(), place, error);
    }
    return errors.release();
}

PyObject* count_input(PyObject* /*module*/, PyObject* argument) noexcept {
    const int fd = PyObject_AsFileDescriptor(argument);
    int count = 0;
    if (fd < 0) {
        return nullptr;
    }
    if (::ioctl(fd, FIONREAD, &count) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return PyLong_FromLong(count);
}

PyMethodDef methods[] = {
    {"open_tty", &open_tty, METH_VARARGS,
     "open_tty(path, input_flags, control_flags, rate, exclusive): (fd, has_wire, settings found, "
     "asked for, answered), or None where anything is in the way."},
    {"close_tty", &close_tty, METH_VARARGS,
     "close_tty(fd, settings, exclusive): discard, restore, unlock and close; the errno of each "
     "step that failed."},
    {"count_input", &count_input, METH_O, "The bytes that can be read of a descriptor at once."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_tty_opening(PyObject* module) {
    return PyModule_AddFunctions(module, methods) == 0;
}

} // namespace penstock::python
