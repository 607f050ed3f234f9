#pragma once

#include "descriptor_waiter.hpp"
#include "handle.hpp"

#include <penstock/io/poller.hpp>

namespace penstock::python {

/// Who is told when a descriptor is ready: the callbacks of `add_reader` and `add_writer`, and the
/// tasks that wait in `sock_recv` and its like, first come, first served.
///
/// A socket that a task has waited to read stays registered when the wait is over, so that its next
/// wait costs no system call. An event that nobody waits for ends that. Sockets are closed without a
/// word to the loop and their numbers handed out again, so what is kept counts for one socket object
/// only.
struct FdCallbacks : io::Watch {
    explicit FdCallbacks(LoopObject* owner) noexcept : Watch(&on_ready_event), loop(owner) {}

    static void on_ready_event(io::Watch& watch, std::uint32_t events);

    LoopObject* loop;               ///< borrowed: the loop owns this struct
    HandleObject* reader = nullptr; ///< owned
    HandleObject* writer = nullptr; ///< owned
    PyObject* file_object =
        nullptr; ///< owned; what the user named the descriptor by, if not an int
    DescriptorWaiterObject* first_reading = nullptr; ///< a queue that owns its members
    DescriptorWaiterObject* first_writing = nullptr;
    PyObject* socket = nullptr; ///< owned weak reference: who waited here last
    bool streaming = false;     ///< that is a stream socket
    bool drained = false;       ///< its last read took all there was, and it is still registered
};

/// One of the two sides of `FdCallbacks`.
struct Direction {
    HandleObject* FdCallbacks::* slot;
    DescriptorWaiterObject* FdCallbacks::* queue;
    std::uint32_t readiness;
};

inline constexpr Direction reading{&FdCallbacks::reader, &FdCallbacks::first_reading, io::readable};
inline constexpr Direction writing{&FdCallbacks::writer, &FdCallbacks::first_writing, io::writable};

/// The descriptor number of an int or of an object with `fileno()`; -1 with ValueError set.
int descriptor_of(LoopObject* loop, PyObject* file_object) noexcept;

/// Sets a callback, which replaces (and cancels) the one that was there. Returns the handle, a new
/// reference, or null with an exception set.
PyObject* set_fd_callback(LoopObject* loop, const Direction& direction, PyObject* const* arguments,
                          Py_ssize_t count) noexcept;

/// Takes a callback away: 1 when there was one, 0 when not, -1 with an exception set.
int remove_fd_callback(LoopObject* loop, const Direction& direction,
                       PyObject* file_object) noexcept;

/// A socket.socket object, or whatever else stands for a descriptor and can be referenced weakly, and
/// its descriptor of this moment.
struct SocketDescriptor {
    PyObject* socket;
    int fd;
};

/// Lets `waiter` wait for a socket; it is woken once. False with an exception set.
bool begin_wait(LoopObject* loop, const Direction& direction, const SocketDescriptor& socket,
                DescriptorWaiterObject* waiter) noexcept;

/// Takes a waiter out of its queue before it was woken. Safe to call for one in no queue.
void end_wait(DescriptorWaiterObject* waiter) noexcept;

/// Wakes everybody who waits for a socket on one side: it is being closed.
void wake_all(LoopObject* loop, const Direction& direction,
              const SocketDescriptor& socket) noexcept;

/// The socket's last read took all there was, and the poller tells when there is more: trying to
/// read now would most likely be a system call for nothing.
bool known_drained(LoopObject* loop, const SocketDescriptor& socket) noexcept;

/// Tells what a read from a socket has found.
void note_read(LoopObject* loop, const SocketDescriptor& socket, bool drained) noexcept;

/// The stream has ended or failed: whatever comes is of no use to a later wait.
void note_end(LoopObject* loop, const SocketDescriptor& socket) noexcept;

/// The interest that callbacks and waiting tasks have in what this watch stands for.
std::uint32_t interest_of(const FdCallbacks& callbacks) noexcept;

/// Takes all callbacks and waiters away: the loop is being closed.
void remove_all_fd_callbacks(LoopObject* loop) noexcept;

/// For the traversal of the loop.
int traverse_fd_callbacks(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
