#include "module.hpp"

#include "accept_task.hpp"
#include "plain_socket.hpp"
#include "returned_value.hpp"

#include <array>

namespace penstock::python {

namespace {

struct InternedName {
    PyObject* ModuleState::* slot;
    const char* text;
};

constexpr std::array interned_names{
    InternedName{&ModuleState::name_future, "Future"},
    InternedName{&ModuleState::name_task, "Task"},
    InternedName{&ModuleState::name_loop, "loop"},
    InternedName{&ModuleState::name_name, "name"},
    InternedName{&ModuleState::name_context, "context"},
    InternedName{&ModuleState::name_time, "time"},
    InternedName{&ModuleState::name_connection_made, "connection_made"},
    InternedName{&ModuleState::name_connection_lost, "connection_lost"},
    InternedName{&ModuleState::name_data_received, "data_received"},
    InternedName{&ModuleState::name_eof_received, "eof_received"},
    InternedName{&ModuleState::name_datagram_received, "datagram_received"},
    InternedName{&ModuleState::name_error_received, "error_received"},
    InternedName{&ModuleState::name_get_buffer, "get_buffer"},
    InternedName{&ModuleState::name_buffer_updated, "buffer_updated"},
    InternedName{&ModuleState::name_pause_writing, "pause_writing"},
    InternedName{&ModuleState::name_resume_writing, "resume_writing"},
    InternedName{&ModuleState::name_set_result, "set_result"},
    InternedName{&ModuleState::name_set_exception, "set_exception"},
    InternedName{&ModuleState::name_cancelled, "cancelled"},
    InternedName{&ModuleState::name_call_later, "call_later"},
    InternedName{&ModuleState::name_cancel, "cancel"},
    InternedName{&ModuleState::name_do_handshake, "do_handshake"},
    InternedName{&ModuleState::name_unwrap, "unwrap"},
    InternedName{&ModuleState::name_wrap_bio, "wrap_bio"},
    InternedName{&ModuleState::name_getpeercert, "getpeercert"},
    InternedName{&ModuleState::name_peercert, "peercert"},
    InternedName{&ModuleState::name_cipher, "cipher"},
    InternedName{&ModuleState::name_compression, "compression"},
    InternedName{&ModuleState::name_ssl_object, "ssl_object"},
    InternedName{&ModuleState::name_sslcontext, "sslcontext"},
    InternedName{&ModuleState::name_peername, "peername"},
    InternedName{&ModuleState::name_sockname, "sockname"},
    InternedName{&ModuleState::name_get_extra_info, "get_extra_info"},
    InternedName{&ModuleState::name_read, "read"},
    InternedName{&ModuleState::name_write, "write"},
    InternedName{&ModuleState::name_check_handshake_timeout, "_check_handshake_timeout"},
    InternedName{&ModuleState::name_check_shutdown_timeout, "_check_shutdown_timeout"},
    InternedName{&ModuleState::name_attach, "_attach"},
    InternedName{&ModuleState::name_detach, "_detach"},
    InternedName{&ModuleState::name_future_blocking, "_asyncio_future_blocking"},
    InternedName{&ModuleState::name_get_loop, "get_loop"},
    InternedName{&ModuleState::name_buffer, "_buffer"},
    InternedName{&ModuleState::name_waiter, "_waiter"},
    InternedName{&ModuleState::name_limit, "_limit"},
    InternedName{&ModuleState::name_paused, "_paused"},
    InternedName{&ModuleState::name_transport, "_transport"},
    InternedName{&ModuleState::name_eof, "_eof"},
    InternedName{&ModuleState::name_exception, "_exception"},
    InternedName{&ModuleState::name_reader, "_reader"},
    InternedName{&ModuleState::name_protocol, "_protocol"},
    InternedName{&ModuleState::name_drain, "drain"},
    InternedName{&ModuleState::name_private_loop, "_loop"},
    InternedName{&ModuleState::name_private_connection_lost, "_connection_lost"},
    InternedName{&ModuleState::name_resume_reading, "resume_reading"},
    InternedName{&ModuleState::name_class, "__class__"},
};

constexpr std::array owned_objects{
    &ModuleState::future_type,
    &ModuleState::task_type,
    &ModuleState::futures_names,
    &ModuleState::tasks_names,
    &ModuleState::asyncio_handle_type,
    &ModuleState::asyncio_timer_type,
    &ModuleState::asyncio_thread_safe_handle_type,
    &ModuleState::buffered_protocol_type,
    &ModuleState::asyncio_protocol_type,
    &ModuleState::asyncio_reader_type,
    &ModuleState::asyncio_writer_type,
    &ModuleState::fed_protocol_type,
    &ModuleState::fed_reader_type,
    &ModuleState::cancelled_error_type,
    &ModuleState::invalid_state_error_type,
    &ModuleState::inherited_loop_type,
    &ModuleState::socket_type,
    &ModuleState::socket_fileno,
    &ModuleState::socket_family,
    &ModuleState::socket_kind,
    &ModuleState::socket_protocol,
    &ModuleState::rare_paths,
    &ModuleState::stat_result_type,
    &ModuleState::completed,
    &ModuleState::finished_future,
    &ModuleState::ssl_memory_bio,
    &ModuleState::ssl_again_errors,
    &ModuleState::ssl_certificate_error,
    &ModuleState::keywords_loop,
    &ModuleState::keywords_loop_name_context,
};

constexpr std::array owned_types{
    &ModuleState::loop_type,
    &ModuleState::handle_type,
    &ModuleState::timer_handle_type,
    &ModuleState::thread_safe_handle_type,
    &ModuleState::socket_transport_type,
    &ModuleState::tls_transport_type,
    &ModuleState::listener_type,
    &ModuleState::accepting_type,
    &ModuleState::stream_reader_type,
    &ModuleState::read_operation_type,
    &ModuleState::asyncio_read_type,
    &ModuleState::stream_protocol_type,
    &ModuleState::descriptor_waiter_type,
    &ModuleState::sock_operation_type,
    &ModuleState::datagram_transport_type,
    &ModuleState::serial_reader_type,
    &ModuleState::serial_read_type,
    &ModuleState::file_engine_type,
    &ModuleState::file_operation_type,
    &ModuleState::returned_value_type,
};

bool intern_names(ModuleState* state) {
    for (const InternedName& name : interned_names) {
        state->*name.slot = PyUnicode_InternFromString(name.text);
        if (state->*name.slot == nullptr) {
            return false;
        }
    }
    state->keywords_loop = PyTuple_Pack(1, state->name_loop);
    state->keywords_loop_name_context =
        PyTuple_Pack(3, state->name_loop, state->name_name, state->name_context);
    return state->keywords_loop != nullptr && state->keywords_loop_name_context != nullptr;
}

/// The dictionary of a submodule, in which a program may put something else in a name's place.
PyObject* names_of(PyObject* package, const char* submodule) {
    const Ref module(PyObject_GetAttrString(package, submodule));
    return module ? Py_XNewRef(PyModule_GetDict(module.get())) : nullptr;
}

bool import_thread_safe_handle(PyObject* asyncio, ModuleState* state) {
    const Ref events(PyObject_GetAttrString(asyncio, "events"));
    if (!events) {
        return false;
    }
    state->asyncio_thread_safe_handle_type =
        PyObject_GetAttrString(events.get(), "_ThreadSafeHandle");
    if (state->asyncio_thread_safe_handle_type == nullptr) {
        if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
            return false;
        }
        PyErr_Clear();
    }
    return true;
}

bool import_asyncio(ModuleState* state) {
    const Ref asyncio(PyImport_ImportModule("asyncio"));
    if (!asyncio) {
        return false;
    }
    const struct {
        PyObject* ModuleState::* slot;
        const char* name;
    } wanted[] = {
        {&ModuleState::future_type, "Future"},
        {&ModuleState::task_type, "Task"},
        {&ModuleState::asyncio_handle_type, "Handle"},
        {&ModuleState::asyncio_timer_type, "TimerHandle"},
        {&ModuleState::buffered_protocol_type, "BufferedProtocol"},
        {&ModuleState::asyncio_protocol_type, "StreamReaderProtocol"},
        {&ModuleState::asyncio_reader_type, "StreamReader"},
        {&ModuleState::asyncio_writer_type, "StreamWriter"},
        {&ModuleState::cancelled_error_type, "CancelledError"},
        {&ModuleState::invalid_state_error_type, "InvalidStateError"},
        {&ModuleState::inherited_loop_type, "SelectorEventLoop"},
    };
    for (const auto& [slot, name] : wanted) {
        state->*slot = PyObject_GetAttrString(asyncio.get(), name);
        if (state->*slot == nullptr) {
            return false;
        }
    }
    state->server_takes_transport = PY_VERSION_HEX >= 0x030D0000;
    state->futures_names = names_of(asyncio.get(), "futures");
    state->tasks_names = names_of(asyncio.get(), "tasks");
    return state->futures_names != nullptr && state->tasks_names != nullptr &&
           import_thread_safe_handle(asyncio.get(), state);
}

int execute(PyObject* module) {
    ModuleState* state = state_of_module(module);
    const bool done =
        intern_names(state) && import_asyncio(state) && import_plain_socket(state) &&
        add_handle_types(module, state) && add_thread_safe_handle_type(module, state) &&
        add_loop_type(module, state) && add_socket_transport_type(module, state) &&
        add_tls_transport_type(module, state) && add_listener_type(module, state) &&
        add_accepting_type(module, state) && add_stream_reader_type(module, state) &&
        add_read_operation_type(module, state) && add_asyncio_read_types(module, state) &&
        add_asyncio_drain_type(module) && add_stream_protocol_types(module, state) &&
        add_descriptor_waiter_type(module, state) && add_sock_operation_type(module, state) &&
        add_datagram_transport_type(module, state) && add_serial_reader_types(module, state) &&
        add_ioctl_thread_type(module) && add_serial_abi(module) &&
        add_file_engine_type(module, state) && add_file_operation_type(module, state) &&
        add_ready_value_type(module) && add_returned_value_type(module, state);
    return done ? 0 : -1;
}

int traverse(PyObject* module, visitproc visit, void* arg) {
    ModuleState* state = state_of_module(module);
    for (auto slot : owned_objects) {
        Py_VISIT(state->*slot);
    }
    for (auto slot : owned_types) {
        Py_VISIT(state->*slot);
    }
    return 0;
}

int clear(PyObject* module) {
    ModuleState* state = state_of_module(module);
    release_spare_stops(state);
    for (auto slot : owned_objects) {
        Py_CLEAR(state->*slot);
    }
    for (auto slot : owned_types) {
        Py_CLEAR(state->*slot);
    }
    for (const InternedName& name : interned_names) {
        Py_CLEAR(state->*name.slot);
    }
    return 0;
}

void free_module(void* module) {
    clear(static_cast<PyObject*>(module));
}

// No Py_mod_gil: a free-threaded interpreter turns the GIL on when it imports this module. Ready queue, timers,
// transports and futures are guarded by nothing else.
PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(&execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "penstock._core",
    .m_doc = "The native half of penstock.Loop.",
    .m_size = sizeof(ModuleState),
    .m_methods = nullptr,
    .m_slots = slots,
    .m_traverse = &traverse,
    .m_clear = &clear,
    .m_free = &free_module,
};

} // namespace

ModuleState* state_of_module(PyObject* module) noexcept {
    return static_cast<ModuleState*>(PyModule_GetState(module));
}

ModuleState* state_of(PyTypeObject* type) noexcept {
    PyObject* module = PyType_GetModuleByDef(type, &definition);
    return module != nullptr ? state_of_module(module) : nullptr;
}

Ref call_rare_path(ModuleState* state, const char* function, PyObject* const* arguments,
                   std::size_t count) noexcept {
    if (state->rare_paths == nullptr) {
        state->rare_paths = PyImport_ImportModule("penstock.loop.rare_paths");
        if (state->rare_paths == nullptr) {
            return Ref();
        }
    }
    const Ref callable(PyObject_GetAttrString(state->rare_paths, function));
    if (!callable) {
        return Ref();
    }
    return Ref(PyObject_Vectorcall(callable.get(), arguments, count, nullptr));
}

} // namespace penstock::python

PyMODINIT_FUNC PyInit__core() {
    return PyModuleDef_Init(&penstock::python::definition);
}
