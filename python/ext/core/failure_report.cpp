#include "core/loop.hpp"
#include "core/memory_reserve.hpp"
#include "net/datagram_transport.hpp"
#include "net/socket_transport.hpp"
#include "tls/tls_transport.hpp"

#include <optional>

namespace penstock::python {

namespace {

/// The context in which a transport's protocol is called, or null.
PyObject* context_of(const ModuleState* state, PyObject* transport) noexcept {
    if (transport == nullptr) {
        return nullptr;
    }
    const PyTypeObject* type = Py_TYPE(transport);
    return type == state->socket_transport_type     ? transport_of(transport)->context
           : type == state->tls_transport_type      ? tls_of(transport)->context
           : type == state->datagram_transport_type ? datagram_transport_of(transport)->context
                                                    : nullptr;
}

} // namespace

void report_raised(LoopObject* loop, const char* message, PyObject* transport,
                   PyObject* protocol) noexcept {
    if (loop == nullptr) { // the connection was lost in the call that raised
        PyErr_WriteUnraisable(transport);
        return;
    }
    const Ref loop_alive = Ref::borrow(as_object(loop));
    const Ref transport_alive = Ref::borrow(transport);
    const Ref protocol_alive = Ref::borrow(protocol);
    if (exception_ends_program()) {
        interrupt_with_raised(loop);
        return;
    }
    const Ref exception = take_exception();
    const ReleasedReserve reserve(loop, exception.get());
    // asyncio calls its exception handler where the exception was raised, in that context.
    std::optional<ProtocolContext> entered;
    if (PyObject* context = context_of(loop->state, transport)) {
        entered.emplace(context);
    }
    const Ref text(PyUnicode_FromString(message));
    PyObject* arguments[] = {as_object(loop), text.get(), exception.get(),
                             transport != nullptr ? transport : Py_None,
                             protocol != nullptr ? protocol : Py_None};
    if (!text || !upcall(loop->state, "report_failure", arguments, 5)) {
        if (exception_ends_program()) {
            interrupt_with_raised(loop);
        } else {
            PyErr_WriteUnraisable(as_object(loop));
        }
    }
}

} // namespace penstock::python
