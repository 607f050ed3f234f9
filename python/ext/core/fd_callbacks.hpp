#pragma once

#include "awaitable/descriptor_waiter.hpp"
#include "awaitable/direct_steps.hpp"
#include "core/handle.hpp"

#include <penstock/io/poller.hpp>

namespace penstock::python {

/// The readiness that a watcher of a descriptor waits for.
enum class Direction : unsigned char { read, write };

/// The watchers of one descriptor: the callbacks of `add_reader` and `add_writer`, and the tasks
/// that wait in `sock_recv` and similar methods, in order of arrival.
///
/// After a task's wait its socket stays registered, so that its next wait costs no system call. An
/// event without a watcher ends the registration. A program closes sockets without notice to the
/// loop, and the kernel reuses their numbers. So a kept registration is valid for one socket object
/// only.
struct FdCallbacks : io::Watch {
    explicit FdCallbacks(LoopObject* owner) noexcept : Watch(&on_ready_event), loop(owner) {}

    static void on_ready_event(io::Watch& watch, std::uint32_t events);

    struct Side {
        HandleObject* handle = nullptr;                 ///< owned; of add_reader or add_writer
        DescriptorWaiterObject* first_waiter = nullptr; ///< a queue that owns its members
        std::uint32_t handle_set_after = 0; ///< the number of the poller's wait before it was set
    };

    [[nodiscard]] Side& side(Direction direction) noexcept {
        return direction == Direction::read ? reading : writing;
    }
    [[nodiscard]] const Side& side(Direction direction) const noexcept {
        return direction == Direction::read ? reading : writing;
    }

    LoopObject* loop; ///< borrowed: the loop owns this struct
    Side reading;
    Side writing;
    PyObject* file_object = nullptr; ///< owned; the object that the user registered, if not an int
    PyObject* socket = nullptr;      ///< owned weak reference: the socket that was waited for last
    bool streaming = false;          ///< that socket is a stream socket
    bool drained = false;            ///< its last read emptied it, and it is still registered
    DirectSteps direct_steps;        ///< of the tasks that wait
};

[[nodiscard]] constexpr std::uint32_t readiness_of(Direction direction) noexcept {
    return direction == Direction::read ? io::readable : io::writable;
}

/// Returns the descriptor number of an int, or of an object whose `fileno()` int() accepts. -1 with
/// ValueError set, OverflowError for a number above every descriptor, or what `fileno()` raises.
int descriptor_of(LoopObject* loop, PyObject* file_object) noexcept;

/// Sets a callback. Cancels and replaces the one that was set. Returns the handle, a new reference,
/// or null with an exception set.
PyObject* set_fd_callback(LoopObject* loop, Direction direction, PyObject* const* arguments,
                          Py_ssize_t count) noexcept;

/// Removes a callback. Returns 1 if there was one, 0 if not, -1 with an exception set.
int remove_fd_callback(LoopObject* loop, Direction direction, PyObject* file_object) noexcept;

/// A socket.socket object, or another weakly referenceable object for a descriptor, and its current
/// descriptor.
struct SocketDescriptor {
    PyObject* socket;
    int fd;
};

/// Registers `waiter`, which is woken once. False with an exception set.
bool begin_wait(LoopObject* loop, Direction direction, const SocketDescriptor& socket,
                DescriptorWaiterObject* waiter) noexcept;

/// Removes a waiter from its queue before it is woken. Does nothing for one in no queue.
void end_wait(DescriptorWaiterObject* waiter) noexcept;

/// Wakes all tasks that wait for a socket in one direction: the socket is being closed.
void wake_all(LoopObject* loop, Direction direction, const SocketDescriptor& socket) noexcept;

/// Whether the socket's last read returned all available data and the poller reports when there is
/// more. A read now would most likely only return EAGAIN.
bool known_drained(LoopObject* loop, const SocketDescriptor& socket) noexcept;

/// Records the outcome of a read.
void note_read(LoopObject* loop, const SocketDescriptor& socket, bool drained) noexcept;

/// Drops a kept registration: the stream has ended or failed, and no later wait needs it.
void note_end(LoopObject* loop, const SocketDescriptor& socket) noexcept;

/// The interest of the callbacks and waiting tasks.
std::uint32_t interest_of(const FdCallbacks& callbacks) noexcept;

/// Removes all callbacks and waiters: the loop is being closed.
void remove_all_fd_callbacks(LoopObject* loop) noexcept;

/// For the traversal of the loop.
int traverse_fd_callbacks(LoopObject* loop, visitproc visit, void* arg) noexcept;

} // namespace penstock::python
