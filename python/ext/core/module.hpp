#pragma once

#include "shared/py_ref.hpp"

namespace penstock::python {

struct LoopObject;

/// What one interpreter's copy of the extension keeps: its types, and the objects of asyncio and
/// the standard library that the hot paths need. The members are listed in cached_objects.def.
/// There are no process globals, but for files/mapped_ranges.hpp.
struct ModuleState {
#define PENSTOCK_TYPE(member) PyTypeObject* member;
#define PENSTOCK_ASYNCIO(member, name) PyObject* member;
#define PENSTOCK_OBJECT(member) PyObject* member;
#define PENSTOCK_NAME(member, text) PyObject* name_##member;
#include "core/cached_objects.def"

    /// Memory of an awaitable that was freed, for the next one of its type; or null. See
    /// `NativeAwaitable::allocate`.
    PyObject* spare_sock_operation;
    PyObject* spare_descriptor_waiter;
    PyObject* spare_read_operation;
    PyObject* spare_asyncio_read;
    PyObject* spare_http_request;
    PyObject* spare_http_wait;
    PyObject* spare_file_step;
    PyObject* spare_answer;
    LoopObject* file_loop;      ///< borrowed; the loop that made the last file operation, or null
    long long file_buffer_size; ///< of files without a size of their own; see set_file_classes
    bool keeps_no_spares;       ///< the module is being cleared

    PyObject* stop_iteration_freelist; ///< linked; see `raise_stop_iteration`
    unsigned stop_iteration_freelist_size;

    /// Python 3.13: `Server._attach` and `_detach` take the transport.
    bool server_takes_transport;
};

ModuleState* state_of(PyTypeObject* type) noexcept;
ModuleState* state_of_module(PyObject* module) noexcept;

/// Calls a function of `penstock.loop._upcalls`: what is so rare that it is written in Python
/// (socket objects, errors of streams, reports, reprs). Null with an exception set.
Ref upcall(ModuleState* state, const char* function, PyObject* const* arguments,
           std::size_t count) noexcept;

bool add_handle_types(PyObject* module, ModuleState* state);
bool add_thread_safe_handle_type(PyObject* module, ModuleState* state);
bool add_loop_type(PyObject* module, ModuleState* state);
bool add_socket_transport_type(PyObject* module, ModuleState* state);
bool add_tls_transport_type(PyObject* module, ModuleState* state);
bool add_listener_type(PyObject* module, ModuleState* state);
bool add_stream_reader_type(PyObject* module, ModuleState* state);
bool add_read_operation_type(PyObject* module, ModuleState* state);
bool add_asyncio_read_types(PyObject* module, ModuleState* state);
bool add_asyncio_drain_type(PyObject* module);
bool add_stream_protocol_types(PyObject* module, ModuleState* state);
bool add_descriptor_waiter_type(PyObject* module, ModuleState* state);
bool add_sock_operation_type(PyObject* module, ModuleState* state);
bool add_datagram_transport_type(PyObject* module, ModuleState* state);
bool add_serial_reader_types(PyObject* module, ModuleState* state);
bool add_serial_exchange_type(PyObject* module, ModuleState* state);
bool add_ioctl_thread_type(PyObject* module);
bool add_serial_abi(PyObject* module);
bool add_tty_opening(PyObject* module);
bool add_file_engine_type(PyObject* module, ModuleState* state);
bool add_file_operation_type(PyObject* module, ModuleState* state);
bool add_websocket_connection_type(PyObject* module, ModuleState* state);
bool add_websocket_receive_type(PyObject* module, ModuleState* state);
bool add_http_messages(PyObject* module);
bool add_http_server_type(PyObject* module);
bool add_http_connection_type(PyObject* module, ModuleState* state);
bool add_http_wait_type(PyObject* module, ModuleState* state);
bool add_http_request_types(PyObject* module, ModuleState* state);
bool add_log_search(PyObject* module);
bool add_folder_listing(PyObject* module);
bool add_cached_questions(PyObject* module);
bool add_answered_function_types(PyObject* module, ModuleState* state);
bool add_folder_scan(PyObject* module, ModuleState* state);
bool add_mapped_file_type(PyObject* module);
bool add_ready_value_type(PyObject* module, ModuleState* state);
bool add_returned_value_type(PyObject* module, ModuleState* state);

} // namespace penstock::python
