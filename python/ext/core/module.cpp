#include "core/module.hpp"

#include "awaitable/returned_value.hpp"
#include "file_objects/file_types.hpp"
#include "net/accept_task.hpp"
#include "net/plain_socket.hpp"

namespace penstock::python {

namespace {

bool intern_names(ModuleState* state) {
#define PENSTOCK_NAME(member, text)                                                                \
    state->name_##member = PyUnicode_InternFromString(text);                                       \
    if (state->name_##member == nullptr) {                                                         \
        return false;                                                                              \
    }
#include "core/cached_objects.def"
    state->keywords_loop = PyTuple_Pack(1, state->name_loop);
    state->keywords_loop_name_context =
        PyTuple_Pack(3, state->name_loop, state->name_name, state->name_context);
    return state->keywords_loop != nullptr && state->keywords_loop_name_context != nullptr;
}

/// The dictionary of a submodule. A program may replace a class there.
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
#define PENSTOCK_ASYNCIO(member, name)                                                             \
    state->member = PyObject_GetAttrString(asyncio.get(), name);                                   \
    if (state->member == nullptr) {                                                                \
        return false;                                                                              \
    }
#include "core/cached_objects.def"
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
        add_serial_exchange_type(module, state) && add_ioctl_thread_type(module) &&
        add_serial_abi(module) && add_tty_opening(module) && add_file_engine_type(module, state) &&
        add_file_operation_type(module, state) && add_websocket_connection_type(module, state) &&
        add_websocket_receive_type(module, state) && add_http_messages(module) &&
        add_http_server_type(module) && add_http_connection_type(module, state) &&
        add_http_request_types(module, state) && add_log_search(module) &&
        add_ready_value_type(module, state) && add_returned_value_type(module, state) &&
        add_file_step_type(module, state) && add_binary_file_type(module, state) &&
        add_text_piece_type(module, state) && add_text_file_type(module, state) &&
        add_opening_types(module, state) && add_line_lists(module) && add_folder_listing(module) &&
        add_cached_questions(module) && add_answered_function_types(module, state) &&
        add_folder_scan(module, state) && add_mapped_file_type(module);
    return done ? 0 : -1;
}

int traverse(PyObject* module, visitproc visit, void* arg) {
    ModuleState* state = state_of_module(module);
#define PENSTOCK_TYPE(member) Py_VISIT(state->member);
#define PENSTOCK_ASYNCIO(member, name) Py_VISIT(state->member);
#define PENSTOCK_OBJECT(member) Py_VISIT(state->member);
#include "core/cached_objects.def"
    return 0;
}

/// Before the types are cleared, whose fields the memory is freed by.
void free_spares(ModuleState* state) noexcept {
    state->keeps_no_spares = true;
    for (PyObject** spare :
         {&state->spare_sock_operation, &state->spare_descriptor_waiter,
          &state->spare_read_operation, &state->spare_asyncio_read, &state->spare_http_request,
          &state->spare_http_wait, &state->spare_file_step, &state->spare_answer}) {
        if (*spare != nullptr) {
            PyObject_GC_Del(std::exchange(*spare, nullptr));
        }
    }
}

int clear(PyObject* module) {
    ModuleState* state = state_of_module(module);
    free_spares(state);
    empty_stop_iteration_freelist(state);
#define PENSTOCK_TYPE(member) Py_CLEAR(state->member);
#define PENSTOCK_ASYNCIO(member, name) Py_CLEAR(state->member);
#define PENSTOCK_OBJECT(member) Py_CLEAR(state->member);
#define PENSTOCK_NAME(member, text) Py_CLEAR(state->name_##member);
#include "core/cached_objects.def"
    return 0;
}

void free_module(void* module) {
    clear(static_cast<PyObject*>(module));
}

// No Py_mod_gil slot: a free-threaded interpreter enables the GIL when it imports this module. The
// GIL alone guards the ready queue, timers, transports and futures.
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

Ref upcall(ModuleState* state, const char* function, PyObject* const* arguments,
           std::size_t count) noexcept {
    if (state->upcalls == nullptr) {
        state->upcalls = PyImport_ImportModule("penstock.loop._upcalls");
        if (state->upcalls == nullptr) {
            return Ref();
        }
    }
    const Ref callable(PyObject_GetAttrString(state->upcalls, function));
    if (!callable) {
        return Ref();
    }
    return Ref(PyObject_Vectorcall(callable.get(), arguments, count, nullptr));
}

} // namespace penstock::python

PyMODINIT_FUNC PyInit__core() {
    return PyModuleDef_Init(&penstock::python::definition);
}
