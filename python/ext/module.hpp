#pragma once

#include "py_ref.hpp"

namespace penstock::python {

/// What one interpreter's copy of the extension knows: its types and the asyncio objects that the
/// hot paths need. There are no process globals.
struct ModuleState {
    PyTypeObject* loop_type;
    PyTypeObject* handle_type;
    PyTypeObject* timer_handle_type;
    PyTypeObject* thread_safe_handle_type; ///< null where asyncio has none
    PyTypeObject* socket_transport_type;
    PyTypeObject* tls_transport_type;
    PyTypeObject* listener_type;
    PyTypeObject* accepting_type;
    PyTypeObject* stream_reader_type;
    PyTypeObject* read_operation_type;
    PyTypeObject* asyncio_read_type;
    PyTypeObject* stream_protocol_type;
    PyTypeObject* descriptor_waiter_type;
    PyTypeObject* sock_operation_type;
    PyTypeObject* datagram_transport_type;
    PyTypeObject* serial_reader_type;
    PyTypeObject* serial_read_type;
    PyTypeObject* file_engine_type;
    PyTypeObject* file_operation_type;
    PyTypeObject* returned_value_type; ///< null before Python 3.12

    PyObject* future_type;         ///< asyncio.Future
    PyObject* task_type;           ///< asyncio.Task
    PyObject* futures_names;       ///< dictionary of asyncio.futures, see `create_future`
    PyObject* tasks_names;         ///< dictionary of asyncio.tasks, see `create_task`
    PyObject* asyncio_handle_type; ///< asyncio.Handle
    PyObject* asyncio_timer_type;  ///< asyncio.TimerHandle
    PyObject* asyncio_thread_safe_handle_type; ///< null before Python 3.14
    PyObject* buffered_protocol_type;          ///< asyncio.BufferedProtocol
    PyObject* asyncio_protocol_type;           ///< asyncio.StreamReaderProtocol
    PyObject* asyncio_reader_type;             ///< asyncio.StreamReader
    PyObject* asyncio_writer_type;             ///< asyncio.StreamWriter
    PyObject* fed_protocol_type; ///< their subclasses of penstock.loop.fed_streams, imported on
    PyObject* fed_reader_type;   ///< first use
    PyObject* cancelled_error_type;
    PyObject* invalid_state_error_type;
    PyObject* inherited_loop_type; ///< asyncio.SelectorEventLoop
    PyObject* socket_type;         ///< socket.socket
    PyObject* socket_fileno;       ///< method of its native base, unbound
    PyObject* socket_family;       ///< attributes of its native base, unbound
    PyObject* socket_kind;
    PyObject* socket_protocol;
    PyObject* rare_paths; ///< module penstock.loop.rare_paths, imported on first use

    PyObject* stat_result_type; ///< os.stat_result

    PyObject* completed;       ///< an awaitable that is always ready
    PyObject* finished_future; ///< see `argument_of_wakeup`; made on first use

    PyObject* spare_stops;     ///< owned, linked; see `raise_stop_iteration`
    unsigned spare_stop_count; ///< how many

    PyObject* ssl_memory_bio;        ///< ssl.MemoryBIO; the ssl module is imported on first use
    PyObject* ssl_again_errors;      ///< what asyncio takes for "needs more of the peer's bytes"
    PyObject* ssl_certificate_error; ///< ssl.CertificateError

    PyObject* name_future; ///< "Future"
    PyObject* name_task;   ///< "Task"
    PyObject* name_loop;
    PyObject* name_name;
    PyObject* name_context;
    PyObject* name_time;
    PyObject* name_connection_made;
    PyObject* name_connection_lost;
    PyObject* name_data_received;
    PyObject* name_eof_received;
    PyObject* name_datagram_received;
    PyObject* name_error_received;
    PyObject* name_get_buffer;
    PyObject* name_buffer_updated;
    PyObject* name_pause_writing;
    PyObject* name_resume_writing;
    PyObject* name_set_result;
    PyObject* name_set_exception;
    PyObject* name_cancelled;
    PyObject* name_call_later;
    PyObject* name_cancel;
    PyObject* name_do_handshake;
    PyObject* name_unwrap;
    PyObject* name_wrap_bio;
    PyObject* name_getpeercert;
    PyObject* name_peercert;
    PyObject* name_cipher;
    PyObject* name_compression;
    PyObject* name_ssl_object;
    PyObject* name_sslcontext;
    PyObject* name_peername;
    PyObject* name_sockname;
    PyObject* name_get_extra_info;
    PyObject* name_read;
    PyObject* name_write;
    PyObject* name_check_handshake_timeout;
    PyObject* name_check_shutdown_timeout;
    PyObject* name_attach;
    PyObject* name_detach;
    PyObject* name_future_blocking;
    PyObject* name_get_loop;
    PyObject* name_buffer; ///< and the other private attributes of asyncio.StreamReader
    PyObject* name_waiter;
    PyObject* name_limit;
    PyObject* name_paused;
    PyObject* name_transport;
    PyObject* name_eof;
    PyObject* name_exception;
    PyObject* name_reader;
    PyObject* name_protocol;
    PyObject* name_drain;
    PyObject* name_private_loop;
    PyObject* name_private_connection_lost;
    PyObject* name_resume_reading;
    PyObject* name_class;
    PyObject* keywords_loop;              ///< ("loop",)
    PyObject* keywords_loop_name_context; ///< ("loop", "name", "context")

    /// Python 3.13: `Server._attach` and `_detach` take the transport.
    bool server_takes_transport;
};

ModuleState* state_of(PyTypeObject* type) noexcept;
ModuleState* state_of_module(PyObject* module) noexcept;

/// Calls a function of `penstock.loop.rare_paths`: the rare paths (error reports, reprs) are
/// written in Python. Null with an exception set on failure.
Ref call_rare_path(ModuleState* state, const char* function, PyObject* const* arguments,
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
bool add_ioctl_thread_type(PyObject* module);
bool add_serial_abi(PyObject* module);
bool add_file_engine_type(PyObject* module, ModuleState* state);
bool add_file_operation_type(PyObject* module, ModuleState* state);
bool add_ready_value_type(PyObject* module);
bool add_returned_value_type(PyObject* module, ModuleState* state);

} // namespace penstock::python
