#pragma once

#include "buffer_view.hpp"
#include "descriptor_waiter.hpp"
#include "loop.hpp"

namespace penstock::python {

/// The receiving side of an open tty on Penstock's loop: what `penstock.serial` reads through there.
///
/// Borrows the descriptor; whoever owns that calls `close` before closing it. One task at a time
/// receives, which the owner sees to.
struct SerialReaderObject {
    PyObject ob_base;
    LoopObject* loop; ///< owned
    PyObject* weak_references;
    PyObject* unread;       ///< owned; bytes read for a receive that was cancelled, or null
    PyObject* closed_error; ///< owned; makes the exception of a closed port; null while it is open
    int fd;
    unsigned immediate; ///< receives that completed one after another without giving way

    /// Other tasks run at the latest after so many receives that found data waiting.
    static constexpr unsigned immediate_limit = 16;
};

/// The awaitable of `receive` and `receive_into`; it can be awaited once.
///
/// The system call comes first. Without data its task waits for readiness and reads in its own step,
/// called by the dispatcher: what is cancelled has read nothing. With data it completes at once, or,
/// when other work is ready or the limit is reached, after giving way; cancelled just then, it
/// leaves the bytes in `unread`.
struct SerialReadObject {
    enum class Stage : unsigned char { created, running, suspended, finished };

    PyObject ob_base;
    SerialReaderObject* reader;     ///< owned, as all that follows
    DescriptorWaiterObject* waiter; ///< while it waits, else null
    PyObject* held;                 ///< the result, while it gives way, else null
    BufferView view;                ///< where receive_into puts the bytes, from its call to its end
    Py_ssize_t size;                ///< of a receive
    Stage stage;
};

} // namespace penstock::python
