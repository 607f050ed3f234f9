#pragma once

#include "core/loop.hpp"
#include "core/named_arguments.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>

#include <penstock/io/poller.hpp>

namespace penstock::python {

// The Python side that all kinds of transport share. transport_life.hpp has the common part of
// their life cycles, and the reason why there is no common base.

/// Puts a transport into the loop's list of open transports of its kind, which then owns a
/// reference.
template <typename Transport>
void link_to_loop(OpenTransports<Transport>& list, Transport* transport) noexcept {
    list.push_front(*transport);
    transport->listed = true;
    Py_INCREF(transport);
}

/// Removes it from the list, and drops the list's reference. The caller must own a reference. Does
/// nothing for a transport in no list.
template <typename Transport>
void unlink_from_loop(OpenTransports<Transport>& list, Transport* transport) noexcept {
    if (transport->listed) {
        list.remove(*transport);
        transport->listed = false;
        Py_DECREF(transport);
    }
}

/// Drops all transports of a list: the loop is closed.
template <typename Transport>
void release_list(LoopObject* loop, OpenTransports<Transport>& list) noexcept {
    while (Transport* transport = list.front()) {
        if (loop->io != nullptr) {
            loop->io->poller().remove(transport->watch);
        }
        unlink_from_loop(list, transport);
    }
}

template <typename Transport>
int traverse_list(const OpenTransports<Transport>& list, visitproc visit, void* arg) {
    for (Transport* transport = list.front(); transport != nullptr;
         transport = list.after(*transport)) {
        Py_VISIT(transport);
    }
    return 0;
}

/// Methods and attributes that are the same for every kind, for the tables of their types.
template <typename Transport> struct TransportMethods {
    static Transport* of(PyObject* self) noexcept { return reinterpret_cast<Transport*>(self); }

    static PyObject* is_closing(PyObject* self, PyObject* /*unused*/) {
        return PyBool_FromLong(of(self)->closing);
    }

    static PyObject* is_reading(PyObject* self, PyObject* /*unused*/) {
        return PyBool_FromLong(!of(self)->closing && !of(self)->paused);
    }

    static PyObject* get_write_buffer_limits(PyObject* self, PyObject* /*unused*/) {
        return of(self)->water_marks.as_tuple();
    }

    static PyObject* get_protocol(PyObject* self, PyObject* /*unused*/) {
        PyObject* protocol = of(self)->protocol;
        return Py_NewRef(protocol != nullptr ? protocol : Py_None);
    }

    static PyObject* protocol_attribute(PyObject* self, void* /*unused*/) {
        return get_protocol(self, nullptr);
    }

    static PyObject* loop_attribute(PyObject* self, void* /*unused*/) {
        LoopObject* loop = of(self)->loop;
        return Py_NewRef(loop != nullptr ? as_object(loop) : Py_None);
    }

    static PyObject* protocol_paused(PyObject* self, void* /*unused*/) {
        return PyBool_FromLong(of(self)->protocol_paused);
    }

    /// The repr. `waiting`: the number of bytes that have not been sent.
    static PyObject* describe(PyObject* self, const char* type, std::size_t waiting) {
        const Transport* transport = of(self);
        const char* state = transport->fd < 0 ? " closed" : transport->closing ? " closing" : "";
        const std::uint32_t interest = transport->watch.interest;
        return PyUnicode_FromFormat("<%s%s fd=%d read=%s write=<%s, bufsize=%zu>>", type, state,
                                    transport->fd,
                                    (interest & io::readable) != 0 ? "polling" : "idle",
                                    (interest & io::writable) != 0 ? "polling" : "idle", waiting);
    }

    /// Replaces BaseTransport.__init__, which would reset the `_extra` that __new__ has set.
    static int keep_init(PyObject* /*self*/, PyObject* /*arguments*/, PyObject* /*keywords*/) {
        return 0;
    }

    /// `Close` closes the descriptor without calling the protocol.
    template <void (*Close)(Transport*) noexcept> static void finalize(PyObject* self) {
        Transport* transport = of(self);
        if (transport->fd < 0) {
            return;
        }
        Ref exception = take_exception();
        if (PyErr_ResourceWarning(self, 1, "unclosed transport %R", self) != 0) {
            PyErr_WriteUnraisable(self);
        }
        if (transport->loop != nullptr && transport->loop->io != nullptr) {
            transport->loop->io->poller().remove(transport->watch);
        }
        Close(transport);
        if (exception) {
            raise_exception(std::move(exception));
        }
    }

    /// `Clear` is the type's tp_clear.
    template <int (*Clear)(PyObject*)> static void deallocate(PyObject* self) {
        if (PyObject_CallFinalizerFromDealloc(self) < 0) {
            return; // resurrected
        }
        Transport* transport = of(self);
        PyObject_GC_UnTrack(self);
        if (transport->weak_references != nullptr) {
            PyObject_ClearWeakRefs(self);
        }
        Clear(self);
        Py_CLEAR(transport->loop);
        Py_CLEAR(transport->socket);
        delete std::exchange(transport->queue, nullptr);
        PyTypeObject* type = Py_TYPE(self);
        type->tp_free(self);
        Py_DECREF(type);
    }
};

/// False with AttributeError set for an object that is not a protocol, most likely from a factory
/// that returns nothing.
bool check_protocol(const ModuleState* state, PyObject* protocol) noexcept;

/// Completes the future that waits for the transport (may be null).
void finish_waiter(LoopObject* loop, Ref waiter, PyObject* transport) noexcept;

/// The arguments of get_extra_info(name, default=None).
struct InfoRequest {
    PyObject* name;
    PyObject* fallback;

    /// False with TypeError set.
    bool parse(PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) noexcept;
};

} // namespace penstock::python
