#pragma once

#include "awaitable/descriptor_waiter.hpp"
#include "core/loop.hpp"
#include "shared/buffer_view.hpp"

namespace penstock::python {

struct SerialExchangeObject;
struct SocketDescriptor;

/// The receiving side of an open tty on Penstock's loop, for `penstock.serial`.
///
/// Borrows the descriptor: its owner calls `close` before closing the descriptor, and has at most
/// one receiving task at a time.
struct SerialReaderObject {
    PyObject ob_base;
    LoopObject* loop; ///< owned
    PyObject* weak_references;
    PyObject* unread;       ///< owned; bytes read for a receive that was cancelled, or null
    PyObject* closed_error; ///< owned; makes the exception of a closed port; null while it is open
    HandleObject* timer;    ///< owned; of the exchanges, see `set_timer`; or null
    SerialExchangeObject* asking; ///< borrowed; the one that waits, or null
    double rings_at;              ///< the timer, on the loop's clock
    int fd;
    unsigned immediate;  ///< successive receives that completed without yielding
    io::TimeSlice slice; ///< since the task has waited or yielded

    /// Other tasks run after at most this many receives that found data waiting, and once the task
    /// has run for so many nanoseconds, however few they are.
    static constexpr unsigned immediate_limit = 16;
    static constexpr std::int64_t immediate_time = 100'000;
};

/// The key of its descriptor in the loop's registrations.
SocketDescriptor place_of(SerialReaderObject* reader) noexcept;

/// False with an exception set when the port is closed.
bool is_open(SerialReaderObject* reader) noexcept;

/// False with an exception set when the port or the loop is closed.
bool may_read(SerialReaderObject* reader) noexcept;

/// Whether a receive that has found data waiting lets other tasks run first.
bool must_yield(SerialReaderObject* reader) noexcept;

/// Whether its loop runs in this thread now. If not, the port has moved to another loop and must
/// not use it.
bool runs_here(const SerialReaderObject* reader) noexcept;

/// The awaitable of `receive` and `receive_into`.
///
/// It tries the system call first. Without data its task waits for readiness and reads in its own
/// step, called by the dispatcher: a cancelled receive has read nothing. With data it completes at
/// once, but it yields first when other work is ready or the limit is reached; a cancellation at
/// that moment puts the bytes into `unread`.
struct SerialReadObject : NativeAwaitable<SerialReadObject> {
    PyObject ob_base;
    SerialReaderObject* reader;     ///< owned, as all that follows
    DescriptorWaiterObject* waiter; ///< while it waits for data, else null
    PyObject* held;                 ///< the result, while it yields, else null
    BufferView view;                ///< receive_into's buffer, from its call to its end
    Py_ssize_t size;                ///< of a receive
    AwaitStage stage;

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(reader); }
    [[nodiscard]] PyObject* awaited() const noexcept { return as_object(waiter); }
    [[nodiscard]] const char* name() const noexcept { return view ? "receive_into" : "receive"; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;
};

} // namespace penstock::python
