#pragma once

#include "loop.hpp"
#include "named_arguments.hpp"

#include <utility>

namespace penstock::python {

// What the transports have in common. They are plain structs without a common base: the first fields
// of each are the layout of the asyncio class that it derives from, and those differ.

/// Puts a transport into the loop's list of open ones of its kind, which owns a reference.
template <typename Transport> void link_to_loop(Transport*& list, Transport* transport) noexcept {
    transport->previous = nullptr;
    transport->next = list;
    if (list != nullptr) {
        list->previous = transport;
    }
    list = transport;
    transport->listed = true;
    Py_INCREF(transport);
}

/// Gives back the list's reference: the caller must hold one of its own.
template <typename Transport>
void unlink_from_loop(Transport*& list, Transport* transport) noexcept {
    if (!transport->listed) {
        return;
    }
    if (transport->previous != nullptr) {
        transport->previous->next = transport->next;
    } else {
        list = transport->next;
    }
    if (transport->next != nullptr) {
        transport->next->previous = transport->previous;
    }
    transport->listed = false;
    Py_DECREF(transport);
}

/// The loop is closed: lets go of all transports of a list.
template <typename Transport> void release_list(LoopObject* loop, Transport*& list) noexcept {
    while (Transport* transport = list) {
        if (loop->io != nullptr) {
            loop->io->poller().remove(transport->watch);
        }
        unlink_from_loop(list, transport);
    }
}

template <typename Transport> int traverse_list(Transport* list, visitproc visit, void* arg) {
    for (Transport* transport = list; transport != nullptr; transport = transport->next) {
        Py_VISIT(transport);
    }
    return 0;
}

/// Tells the future of whoever has asked for the transport (may be null) that it is there.
void finish_waiter(LoopObject* loop, Ref waiter, PyObject* transport) noexcept;

/// The arguments of get_extra_info(name, default=None).
struct InfoRequest {
    PyObject* name;
    PyObject* fallback;

    /// False with TypeError set.
    bool parse(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept;
};

} // namespace penstock::python
