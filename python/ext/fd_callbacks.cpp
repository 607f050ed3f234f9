#include "fd_callbacks.hpp"

#include "loop.hpp"

#include <cerrno>

namespace penstock::python {

namespace {

FdCallbacks* find(LoopObject* loop, int fd) noexcept {
    const auto index = static_cast<std::size_t>(fd);
    return index < loop->fd_callbacks->size() ? (*loop->fd_callbacks)[index].get() : nullptr;
}

FdCallbacks* find_or_make(LoopObject* loop, int fd) noexcept {
    try {
        const auto index = static_cast<std::size_t>(fd);
        if (index >= loop->fd_callbacks->size()) {
            loop->fd_callbacks->resize(index + 1);
        }
        auto& slot = (*loop->fd_callbacks)[index];
        if (!slot) {
            slot = std::make_unique<FdCallbacks>(loop);
        }
        return slot.get();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return nullptr;
    }
}

/// A closed socket's fileno() is -1: look it up by the object that the user registered.
int descriptor_registered_for(LoopObject* loop, PyObject* file_object) noexcept {
    for (std::size_t fd = 0; fd < loop->fd_callbacks->size(); ++fd) {
        const FdCallbacks* callbacks = (*loop->fd_callbacks)[fd].get();
        if (callbacks != nullptr && callbacks->file_object == file_object) {
            return static_cast<int>(fd);
        }
    }
    return -1;
}

void invoke_if_set(HandleObject* handle) noexcept {
    if (handle != nullptr && !handle->cancelled) {
        Py_INCREF(handle);
        invoke(handle);
        Py_DECREF(handle);
    }
}

std::uint32_t interest_of(const FdCallbacks& callbacks) noexcept {
    return (callbacks.reader != nullptr ? io::readable : 0U) |
           (callbacks.writer != nullptr ? io::writable : 0U);
}

} // namespace

void FdCallbacks::on_ready_event(io::Watch& watch, std::uint32_t events) {
    auto& callbacks = static_cast<FdCallbacks&>(watch);
    // A hang-up or an error wakes both sides, as asyncio's selector does: each finds out by trying.
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    if ((events & (io::readable | trouble)) != 0) {
        invoke_if_set(callbacks.reader);
    }
    if ((events & (io::writable | trouble)) != 0 && callbacks.loop->pending_exception == nullptr) {
        invoke_if_set(callbacks.writer);
    }
}

int descriptor_of(LoopObject* loop, PyObject* file_object) noexcept {
    const int fd = PyObject_AsFileDescriptor(file_object);
    if (fd >= 0) {
        return fd;
    }
    PyErr_Clear();
    const int registered = descriptor_registered_for(loop, file_object);
    if (registered < 0) {
        PyErr_Format(PyExc_ValueError,
                     PyLong_Check(file_object) ? "Invalid file descriptor: %S"
                                               : "Invalid file object: %R",
                     file_object);
    }
    return registered;
}

PyObject* set_fd_callback(LoopObject* loop, const Direction& direction, PyObject* const* arguments,
                          Py_ssize_t count) noexcept {
    if (count < 2) {
        PyErr_SetString(PyExc_TypeError, "a file descriptor and a callback are required");
        return nullptr;
    }
    if (!check_open(loop)) {
        return nullptr;
    }
    const int fd = descriptor_of(loop, arguments[0]);
    if (fd < 0) {
        return nullptr;
    }
    FdCallbacks* callbacks = find_or_make(loop, fd);
    if (callbacks == nullptr) {
        return nullptr;
    }
    HandleObject* handle = make_handle(loop, loop->state->handle_type, arguments[1], arguments + 2,
                                       count - 2, nullptr);
    if (handle == nullptr) {
        return nullptr;
    }
    const std::uint32_t interest = interest_of(*callbacks) | direction.readiness;
    const std::error_code error = callbacks->fd < 0
                                      ? loop->io->poller().add(*callbacks, fd, interest)
                                      : loop->io->poller().update(*callbacks, interest);
    if (error) {
        Py_DECREF(handle);
        errno = error.value();
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    HandleObject* previous = callbacks->*direction.slot;
    callbacks->*direction.slot = reinterpret_cast<HandleObject*>(Py_NewRef(as_object(handle)));
    if (previous != nullptr) {
        cancel(previous);
        Py_DECREF(previous);
    }
    if (!PyLong_Check(arguments[0])) {
        Py_XSETREF(callbacks->file_object, Py_NewRef(arguments[0]));
    }
    return as_object(handle);
}

int remove_fd_callback(LoopObject* loop, const Direction& direction,
                       PyObject* file_object) noexcept {
    if (loop->closed) {
        return 0;
    }
    const int fd = descriptor_of(loop, file_object);
    if (fd < 0) {
        return -1;
    }
    FdCallbacks* callbacks = find(loop, fd);
    if (callbacks == nullptr || callbacks->*direction.slot == nullptr) {
        return 0;
    }
    HandleObject* handle = std::exchange(callbacks->*direction.slot, nullptr);
    const std::uint32_t interest = interest_of(*callbacks);
    if (interest == 0) {
        loop->io->poller().remove(*callbacks);
        Py_CLEAR(callbacks->file_object);
    } else if (loop->io->poller().update(*callbacks, interest)) {
        loop->io->poller().remove(*callbacks); // closed by its user: nothing is left to watch
    }
    cancel(handle);
    Py_DECREF(handle);
    return 1;
}

void remove_all_fd_callbacks(LoopObject* loop) noexcept {
    if (loop->fd_callbacks == nullptr) {
        return;
    }
    for (auto& callbacks : *loop->fd_callbacks) {
        if (!callbacks) {
            continue;
        }
        if (loop->io != nullptr) {
            loop->io->poller().remove(*callbacks);
        }
        for (HandleObject* FdCallbacks::* slot : {&FdCallbacks::reader, &FdCallbacks::writer}) {
            if (HandleObject* handle = std::exchange(callbacks.get()->*slot, nullptr)) {
                cancel(handle);
                Py_DECREF(handle);
            }
        }
        Py_CLEAR(callbacks->file_object);
    }
}

} // namespace penstock::python
