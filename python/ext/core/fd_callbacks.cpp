#include "core/fd_callbacks.hpp"

#include "core/loop.hpp"
#include "net/plain_socket.hpp"

#include <cerrno>
#include <climits>

#include <fcntl.h>
#include <sys/socket.h>

namespace penstock::python {

namespace {

FdCallbacks* find(LoopObject* loop, int fd) noexcept {
    const auto index = static_cast<std::size_t>(fd);
    return index < loop->fd_callbacks->size() ? (*loop->fd_callbacks)[index].get() : nullptr;
}

/// The table grows only for an open descriptor: a wrong number, which a program got from elsewhere,
/// could otherwise cost gigabytes.
FdCallbacks* find_or_make(LoopObject* loop, int fd) noexcept {
    try {
        const auto index = static_cast<std::size_t>(fd);
        if (index >= loop->fd_callbacks->size()) {
            if (::fcntl(fd, F_GETFD) < 0) {
                PyErr_SetFromErrno(PyExc_OSError);
                return nullptr;
            }
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

/// Looks a closed socket up by the object that the user registered: its fileno() is -1.
int descriptor_registered_for(LoopObject* loop, PyObject* file_object) noexcept {
    for (std::size_t fd = 0; fd < loop->fd_callbacks->size(); ++fd) {
        const FdCallbacks* callbacks = (*loop->fd_callbacks)[fd].get();
        if (callbacks != nullptr && callbacks->file_object == file_object) {
            return static_cast<int>(fd);
        }
    }
    return -1;
}

/// The number of an int, or of what int() makes of `fileno()`: the rule of the selectors module.
/// Null with an exception set, ValueError where the object has no number.
Ref number_of(PyObject* file_object) noexcept {
    if (PyLong_Check(file_object)) {
        return Ref::borrow(file_object);
    }
    const Ref given(PyObject_CallMethod(file_object, "fileno", nullptr));
    Ref number(given ? PyNumber_Long(given.get()) : nullptr);
    if (!number && (PyErr_ExceptionMatches(PyExc_AttributeError) != 0 ||
                    PyErr_ExceptionMatches(PyExc_TypeError) != 0 ||
                    PyErr_ExceptionMatches(PyExc_ValueError) != 0)) {
        PyErr_Format(PyExc_ValueError, "Invalid file object: %R", file_object);
    }
    return number;
}

void invoke_if_set(HandleObject* handle) noexcept {
    if (handle != nullptr && !handle->cancelled) {
        invoke(handle);
    }
}

/// Wakes the task that has waited longest. False when no task waits.
bool wake_first(FdCallbacks& callbacks, Direction direction,
                void (&wake_one)(DescriptorWaiterObject*) noexcept = wake) noexcept {
    DescriptorWaiterObject* waiter = callbacks.side(direction).first_waiter;
    if (waiter == nullptr) {
        return false;
    }
    callbacks.side(direction).first_waiter = std::exchange(waiter->next, nullptr);
    waiter->place = nullptr;
    wake_one(waiter);
    Py_DECREF(waiter);
    return true;
}

/// The callback of one direction, unless it was set after the event had been fetched. As in
/// asyncio, the event does not concern it: whoever has set it may have read what was there, and a
/// `recv` on a blocking descriptor would stop the loop. What is still ready is reported by the next
/// wait.
HandleObject* handle_for_event(const FdCallbacks& callbacks, Direction direction) noexcept {
    const FdCallbacks::Side& side = callbacks.side(direction);
    return side.handle_set_after != callbacks.loop->io->poller().waits() ? side.handle : nullptr;
}

/// The callback and the task that were registered for one direction when an event arrived. A
/// callback or task of the other direction may replace them and close the descriptor, whose number
/// then belongs to another file. The event does not concern the new ones. (It would make a connect
/// in progress look connected.)
class ReadyWatchers {
public:
    ReadyWatchers(const FdCallbacks& callbacks, Direction direction) noexcept
        : direction_(direction),
          handle_(Ref::borrow(as_object(handle_for_event(callbacks, direction)))),
          waiter_(Ref::borrow(as_object(callbacks.side(direction).first_waiter))) {}

    /// Calls the callback and wakes the task. False when there was neither.
    bool serve(FdCallbacks& callbacks) const noexcept {
        invoke_if_set(reinterpret_cast<HandleObject*>(handle_.get()));
        const bool waits =
            waiter_ && as_object(callbacks.side(direction_).first_waiter) == waiter_.get();
        return (waits && wake(callbacks)) || handle_;
    }

private:
    [[nodiscard]] bool wake(FdCallbacks& callbacks) const noexcept {
        DirectSteps& steps = callbacks.direct_steps;
        return steps.allowed() ? steps.timed([&] { return wake_first(callbacks, direction_); })
                               : wake_first(callbacks, direction_, wake_later);
    }

    Direction direction_;
    Ref handle_;
    Ref waiter_;
};

/// Sets the interest. Removes a descriptor that the poller refuses.
void set_interest(FdCallbacks& callbacks, std::uint32_t interest) noexcept {
    if ((interest & io::readable) == 0) {
        callbacks.drained = false;
    }
    if (callbacks.fd < 0 || interest == callbacks.interest) {
        return;
    }
    io::Poller& poller = callbacks.loop->io->poller();
    if (interest == 0 || poller.update(callbacks, interest)) {
        poller.remove(callbacks); // its user has closed it, if the update failed
    }
}

/// Registers `fd`, or changes its interest.
///
/// `replaced`: a watcher takes the place of one that is still there, so the program may have closed
/// the other's descriptor without removing it, and then got its number for another file. The kernel
/// knows. If nothing is open under that number, nothing changes, as in asyncio.
std::error_code watch(FdCallbacks& callbacks, int fd, std::uint32_t interest, bool replaced) {
    io::Poller& poller = callbacks.loop->io->poller();
    if (callbacks.fd < 0) {
        return poller.add(callbacks, fd, interest);
    }
    if (!replaced) {
        return poller.update(callbacks, interest);
    }
    std::error_code error = poller.confirm(callbacks, interest);
    if (error.value() == EBADF && interest == callbacks.interest) {
        error.clear();
    }
    return error;
}

PyObject* target_of(PyObject* weak_reference) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* target = nullptr;
    PyWeakref_GetRef(weak_reference, &target);
    Py_XDECREF(target); // only compared with an object that the caller owns
    return target;
#else
    return PyWeakref_GetObject(weak_reference);
#endif
}

bool registered_for(const FdCallbacks& callbacks, PyObject* socket) noexcept {
    return callbacks.fd >= 0 && callbacks.socket != nullptr &&
           target_of(callbacks.socket) == socket;
}

/// Drops a registration that is only kept from an earlier wait: the number may belong to another
/// file now.
void drop_idle_registration(FdCallbacks& callbacks) noexcept {
    if (callbacks.fd >= 0 && interest_of(callbacks) == 0) {
        callbacks.loop->io->poller().forget(callbacks);
        callbacks.drained = false;
    }
}

bool register_for(FdCallbacks& callbacks, PyObject* socket) noexcept {
    drop_idle_registration(callbacks);
    PyObject* weak_reference = PyWeakref_NewRef(socket, nullptr);
    if (weak_reference == nullptr) {
        return false;
    }
    Py_XSETREF(callbacks.socket, weak_reference);
    callbacks.streaming = socket_kind(callbacks.loop->state, socket) == SOCK_STREAM;
    return true;
}

void enqueue(FdCallbacks& callbacks, Direction direction, DescriptorWaiterObject* waiter) noexcept {
    DescriptorWaiterObject** end = &(callbacks.side(direction).first_waiter);
    while (*end != nullptr) {
        end = &(*end)->next;
    }
    *end = waiter;
    Py_INCREF(waiter);
    waiter->place = &callbacks;
    waiter->direction = direction;
}

void abandon_all(FdCallbacks& callbacks, Direction direction) noexcept {
    while (DescriptorWaiterObject* waiter = callbacks.side(direction).first_waiter) {
        abandon(waiter);
    }
}

int traverse_side(const FdCallbacks::Side& side, visitproc visit, void* arg) noexcept {
    if (side.handle != nullptr) {
        if (const int result = traverse_owned(side.handle, visit, arg)) {
            return result;
        }
    }
    for (DescriptorWaiterObject* waiter = side.first_waiter; waiter != nullptr;
         waiter = waiter->next) {
        Py_VISIT(waiter);
    }
    return 0;
}

} // namespace

void FdCallbacks::on_ready_event(io::Watch& watch, std::uint32_t events) {
    auto& callbacks = static_cast<FdCallbacks&>(watch);
    // A hang-up or an error wakes both directions, as in asyncio's selector loop. Each learns the
    // reason from its system call.
    constexpr std::uint32_t trouble = io::hung_up | io::failed;
    std::uint32_t kept = callbacks.interest & io::readable;
    const ReadyWatchers readers(callbacks, Direction::read);
    const ReadyWatchers writers(callbacks, Direction::write);
    if ((events & (io::readable | trouble)) != 0 && !readers.serve(callbacks)) {
        kept = 0;
    }
    if ((events & (io::writable | trouble)) != 0 && callbacks.loop->pending_exception == nullptr) {
        writers.serve(callbacks);
    }
    set_interest(callbacks, interest_of(callbacks) | (kept & callbacks.interest));
}

std::uint32_t interest_of(const FdCallbacks& callbacks) noexcept {
    const auto used = [](const FdCallbacks::Side& side) {
        return side.handle != nullptr || side.first_waiter != nullptr;
    };
    return (used(callbacks.reading) ? io::readable : 0U) |
           (used(callbacks.writing) ? io::writable : 0U);
}

int descriptor_of(LoopObject* loop, PyObject* file_object) noexcept {
    const Ref number = number_of(file_object);
    int overflow = 0;
    const long fd = number ? PyLong_AsLongAndOverflow(number.get(), &overflow) : -1;
    if (overflow > 0 || fd > INT_MAX) {
        PyErr_SetString(PyExc_OverflowError, "signed integer is greater than maximum");
        return -1;
    }
    if (fd >= 0) {
        return static_cast<int>(fd);
    }
    if (!number && PyErr_ExceptionMatches(PyExc_ValueError) == 0) {
        return -1;
    }
    const int registered = descriptor_registered_for(loop, file_object);
    if (registered >= 0) {
        PyErr_Clear();
    } else if (number) {
        PyErr_Format(PyExc_ValueError, "Invalid file descriptor: %S", number.get());
    }
    return registered;
}

PyObject* set_fd_callback(LoopObject* loop, Direction direction, PyObject* const* arguments,
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
    // The last call that may run Python code (fileno() is another). It checks that the loop is
    // still open.
    HandleObject* handle = make_handle(loop, loop->state->handle_type, arguments[1], arguments + 2,
                                       count - 2, nullptr);
    if (handle == nullptr) {
        return nullptr;
    }
    drop_idle_registration(*callbacks);
    const std::uint32_t interest = interest_of(*callbacks) | readiness_of(direction);
    const bool replaced = callbacks->side(direction).handle != nullptr;
    if (const std::error_code error = watch(*callbacks, fd, interest, replaced)) {
        Py_DECREF(handle);
        errno = error.value();
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    FdCallbacks::Side& side = callbacks->side(direction);
    HandleObject* previous =
        std::exchange(side.handle, reinterpret_cast<HandleObject*>(Py_NewRef(as_object(handle))));
    side.handle_set_after = loop->io->poller().waits();
    if (previous != nullptr) {
        cancel(previous);
        Py_DECREF(previous);
    }
    if (!PyLong_Check(arguments[0])) {
        Py_XSETREF(callbacks->file_object, Py_NewRef(arguments[0]));
    }
    return as_object(handle);
}

int remove_fd_callback(LoopObject* loop, Direction direction, PyObject* file_object) noexcept {
    if (loop->closed) {
        return 0;
    }
    const int fd = descriptor_of(loop, file_object);
    if (fd < 0) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError) == 0) {
            return -1;
        }
        PyErr_Clear(); // as in asyncio: nothing can be registered for such a number
        return 0;
    }
    FdCallbacks* callbacks = find(loop, fd);
    if (callbacks == nullptr || callbacks->side(direction).handle == nullptr) {
        return 0;
    }
    HandleObject* handle = std::exchange(callbacks->side(direction).handle, nullptr);
    const std::uint32_t interest = interest_of(*callbacks);
    set_interest(*callbacks, interest);
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
        abandon_all(*callbacks, Direction::read);
        abandon_all(*callbacks, Direction::write);
        for (FdCallbacks::Side* side : {&callbacks->reading, &callbacks->writing}) {
            if (HandleObject* handle = std::exchange(side->handle, nullptr)) {
                cancel(handle);
                Py_DECREF(handle);
            }
        }
        Py_CLEAR(callbacks->file_object);
        Py_CLEAR(callbacks->socket);
    }
}

bool begin_wait(LoopObject* loop, Direction direction, const SocketDescriptor& socket,
                DescriptorWaiterObject* waiter) noexcept {
    FdCallbacks* callbacks = find_or_make(loop, socket.fd);
    if (callbacks == nullptr) {
        return false;
    }
    const bool another = !registered_for(*callbacks, socket.socket);
    if ((another && !register_for(*callbacks, socket.socket)) ||
        !check_open(loop)) { // the allocation of a weak reference may run the garbage collector
        return false;
    }
    const std::uint32_t interest =
        callbacks->interest | interest_of(*callbacks) | readiness_of(direction);
    if (const std::error_code error = watch(*callbacks, socket.fd, interest, another)) {
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
    DescriptorWaiterObject** position = &(callbacks->side(waiter->direction).first_waiter);
    while (*position != waiter) {
        position = &(*position)->next;
    }
    *position = std::exchange(waiter->next, nullptr);
    if (callbacks->loop->io != nullptr) {
        set_interest(*callbacks, interest_of(*callbacks));
    }
    Py_DECREF(waiter);
}

void wake_all(LoopObject* loop, Direction direction, const SocketDescriptor& socket) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && registered_for(*callbacks, socket.socket)) {
        while (wake_first(*callbacks, direction, wake_later)) {
        }
    }
}

bool known_drained(LoopObject* loop, const SocketDescriptor& socket) noexcept {
    const FdCallbacks* callbacks = socket.fd >= 0 ? find(loop, socket.fd) : nullptr;
    return callbacks != nullptr && callbacks->drained && registered_for(*callbacks, socket.socket);
}

void note_read(LoopObject* loop, const SocketDescriptor& socket, bool drained) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && registered_for(*callbacks, socket.socket)) {
        callbacks->drained =
            drained && callbacks->streaming && (callbacks->interest & io::readable) != 0;
    }
}

void note_end(LoopObject* loop, const SocketDescriptor& socket) noexcept {
    FdCallbacks* callbacks = find(loop, socket.fd);
    if (callbacks != nullptr && registered_for(*callbacks, socket.socket)) {
        set_interest(*callbacks, interest_of(*callbacks));
    }
}

int traverse_fd_callbacks(LoopObject* loop, visitproc visit, void* arg) noexcept {
    if (loop->fd_callbacks == nullptr) {
        return 0;
    }
    for (const auto& callbacks : *loop->fd_callbacks) {
        if (callbacks) {
            for (const FdCallbacks::Side* side : {&callbacks->reading, &callbacks->writing}) {
                if (const int result = traverse_side(*side, visit, arg)) {
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
