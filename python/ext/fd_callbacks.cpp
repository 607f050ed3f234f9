#include "fd_callbacks.hpp"

#include "loop.hpp"
#include "plain_socket.hpp"

#include <cerrno>

#include <sys/socket.h>

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
        invoke(handle);
    }
}

/// Wakes whoever has waited longest, in one way or the other; false when nobody waits.
bool wake_first(FdCallbacks& callbacks, const Direction& direction,
                void (&wake_one)(DescriptorWaiterObject*) noexcept = wake) noexcept {
    DescriptorWaiterObject* waiter = callbacks.*direction.queue;
    if (waiter == nullptr) {
        return false;
    }
    callbacks.*direction.queue = std::exchange(waiter->next, nullptr);
    waiter->place = nullptr;
    wake_one(waiter);
    Py_DECREF(waiter);
    return true;
}

/// Who was there on one side when an event came. The other side's callback or task may replace them, and
/// close the descriptor whose number then is another file's: the event is none of the newcomers'. (A
/// connect in progress that is woken by it would take itself for done.)
class Present {
public:
    Present(const FdCallbacks& callbacks, const Direction& direction) noexcept
        : direction_(direction), handle_(Ref::borrow(as_object(callbacks.*direction.slot))),
          waiter_(Ref::borrow(as_object(callbacks.*direction.queue))) {}

    /// Tells them; false when nobody was there.
    bool serve(FdCallbacks& callbacks) const noexcept {
        invoke_if_set(reinterpret_cast<HandleObject*>(handle_.get()));
        const bool waits = waiter_ && as_object(callbacks.*direction_.queue) == waiter_.get();
        return (waits && wake_first(callbacks, direction_)) || handle_;
    }

private:
    const Direction& direction_;
    Ref handle_;
    Ref waiter_;
};

/// Asks for `interest` and nothing else; a descriptor that cannot be asked is let go.
void settle(FdCallbacks& callbacks, std::uint32_t interest) noexcept {
    if ((interest & io::readable) == 0) {
        callbacks.drained = false;
    }
    if (callbacks.fd < 0 || interest == callbacks.interest) {
        return;
    }
    io::Poller& poller = callbacks.loop->io->poller();
    if (interest == 0 || poller.update(callbacks, interest)) {
        poller.remove(callbacks); // closed by its user, where the update failed
    }
}

PyObject* target_of(PyObject* weak_reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* target = nullptr;
    PyWeakref_GetRef(weak_reference, &target);
    Py_XDECREF(target); // to be compared with an object that the caller holds
    return target;
#else
    return PyWeakref_GetObject(weak_reference);
#endif
}

bool kept_for(const FdCallbacks& callbacks, PyObject* socket) noexcept {
    return callbacks.fd >= 0 && callbacks.socket != nullptr &&
           target_of(callbacks.socket) == socket;
}

/// Forgets what is only kept from an earlier wait: the number may be another file's by now.
void forget_kept(FdCallbacks& callbacks) noexcept {
    if (callbacks.fd >= 0 && interest_of(callbacks) == 0) {
        callbacks.loop->io->poller().forget(callbacks);
        callbacks.drained = false;
    }
}

bool keep_for(FdCallbacks& callbacks, PyObject* socket) noexcept {
    forget_kept(callbacks);
    PyObject* weak_reference = PyWeakref_NewRef(socket, nullptr);
    if (weak_reference == nullptr) {
        return false;
    }
    Py_XSETREF(callbacks.socket, weak_reference);
    callbacks.streaming = socket_kind(callbacks.loop->state, socket) == SOCK_STREAM;
    return true;
}

void enqueue(FdCallbacks& callbacks, const Direction& direction,
             DescriptorWaiterObject* waiter) noexcept {
    DescriptorWaiterObject** end = &(callbacks.*direction.queue);
    while (*end != nullptr) {
        end = &(*end)->next;
    }
    *end = waiter;
    Py_INCREF(waiter);
    waiter->place = &callbacks;
    waiter->direction = &direction;
}

void abandon_all(FdCallbacks& callbacks, const Direction& direction) noexcept {
    while (DescriptorWaiterObject* waiter = callbacks.*direction.queue) {
        abandon(waiter);
    }
}

int traverse_direction(const FdCallbacks& callbacks, const Direction& direction, visitproc visit,
                       void* arg) noexcept {
    HandleObject* handle = callbacks.*direction.slot;
    if (handle != nullptr) {
        if (const int result = traverse_owned(handle, visit, arg)) {
            return result;
        }
    }
    for (DescriptorWaiterObject* waiter = callbacks.*direction.queue; waiter != nullptr;
         waiter = waiter->next) {
        Py_VISIT(waiter);
    }
    return 0;
}

} // namespace

void FdCallbacks::on_ready_event(io::Watch& watch, std::uint32_t events) {
    auto& callbacks = static_cast<FdCallbacks&>(watch);
    // A hang-up or an error wakes both sides, as asyncio's selector does: each finds out by trying.
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    std::uint32_t kept = callbacks.interest & io::readable;
    const Present readers(callbacks, reading);
    const Present writers(callbacks, writing);
    if ((events & (io::readable | trouble)) != 0 && !readers.serve(callbacks)) {
        kept = 0;
    }
    if ((events & (io::writable | trouble)) != 0 && callbacks.loop->pending_exception == nullptr) {
        writers.serve(callbacks);
    }
    settle(callbacks, interest_of(callbacks) | (kept & callbacks.interest));
}

std::uint32_t interest_of(const FdCallbacks& callbacks) noexcept {
    return (callbacks.reader != nullptr || callbacks.first_reading != nullptr ? io::readable : 0U) |
           (callbacks.writer != nullptr || callbacks.first_writing != nullptr ? io::writable : 0U);
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
    // The last that runs Python code (fileno() was too), and it finds out whether the loop is open still.
    HandleObject* handle = make_handle(loop, loop->state->handle_type, arguments[1], arguments + 2,
                                       count - 2, nullptr);
    if (handle == nullptr) {
        return nullptr;
    }
    forget_kept(*callbacks);
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
    settle(*callbacks, interest);
    if (interest == 0) {
        Py_CLEAR(callbacks->file_object);
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
        abandon_all(*callbacks, reading);
        abandon_all(*callbacks, writing);
        for (HandleObject* FdCallbacks::* slot : {&FdCallbacks::reader, &FdCallbacks::writer}) {
            if (HandleObject* handle = std::exchange(callbacks.get()->*slot, nullptr)) {
                cancel(handle);
                Py_DECREF(handle);
            }
        }
        Py_CLEAR(callbacks->file_object);
        Py_CLEAR(callbacks->socket);
    }
}

bool begin_wait(LoopObject* loop, const Direction& direction, const SocketDescriptor& socket,
                DescriptorWaiterObject* waiter) noexcept {
    FdCallbacks* callbacks = find_or_make(loop, socket.fd);
    if (callbacks == nullptr ||
        (!kept_for(*callbacks, socket.socket) && !keep_for(*callbacks, socket.socket)) ||
        !check_open(loop)) { // a weak reference is an allocation that may collect garbage
        return false;
    }
    const std::uint32_t interest =
        callbacks->interest | interest_of(*callbacks) | direction.readiness;
    const std::error_code error = callbacks->fd < 0
                                      ? loop->io->poller().add(*callbacks, socket.fd, interest)
                                      : loop->io->poller().update(*callbacks, interest);
    if (error) {
        errno = error.value();
        PyErr_SetFromErrno(PyExc_OSError);
        return false;
    }
    enqueue(*callbacks, direction, waiter);
    return true;
}

void end_wait(DescriptorWaiterObject* waiter) noexcept {
    FdCallbacks* callbacks = std::exchange(waiter->place, nullptr);
    if (callbacks == nullptr) {
        return;
    }
    DescriptorWaiterObject** position = &(callbacks->*waiter->direction->queue);
    while (*position != waiter) {
        position = &(*position)->next;
    }
    *position = std::exchange(waiter->next, nullptr);
    if (callbacks->loop->io != nullptr) {
        settle(*callbacks, interest_of(*callbacks));
    }
    Py_DECREF(waiter);
}

void wake_all(LoopObject* loop, const Direction& direction,
              const SocketDescriptor& socket) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && kept_for(*callbacks, socket.socket)) {
        while (wake_first(*callbacks, direction, wake_soon)) {
        }
    }
}

bool known_drained(LoopObject* loop, const SocketDescriptor& socket) noexcept {
    const FdCallbacks* callbacks = socket.fd >= 0 ? find(loop, socket.fd) : nullptr;
    return callbacks != nullptr && callbacks->drained && kept_for(*callbacks, socket.socket);
}

void note_read(LoopObject* loop, const SocketDescriptor& socket, bool drained) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && kept_for(*callbacks, socket.socket)) {
        callbacks->drained =
            drained && callbacks->streaming && (callbacks->interest & io::readable) != 0;
    }
}

void note_end(LoopObject* loop, const SocketDescriptor& socket) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && kept_for(*callbacks, socket.socket)) {
        settle(*callbacks, interest_of(*callbacks));
    }
}

int traverse_fd_callbacks(LoopObject* loop, visitproc visit, void* arg) noexcept {
    if (loop->fd_callbacks == nullptr) {
        return 0;
    }
    for (const auto& callbacks : *loop->fd_callbacks) {
        if (callbacks) {
            for (const Direction* direction : {&reading, &writing}) {
                if (const int result = traverse_direction(*callbacks, *direction, visit, arg)) {
                    return result;
                }
            }
            Py_VISIT(callbacks->file_object);
            Py_VISIT(callbacks->socket);
        }
    }
    return 0;
}

} // namespace penstock::python
