#include "module.hpp"

#include <cstdarg>

namespace penstock::python::uring {

namespace {

constexpr std::array<const char*, name_count> name_texts{
#define PENSTOCK_NAME(name) #name,
#include "cached_objects.def"
};

PyStructSequence_Field message_fields[] = {
    {"value", "The number that the other ring sent."},
    {nullptr, nullptr},
};

PyStructSequence_Desc message_description = {
    .name = "penstock._uring.Message",
    .doc = "The user_data of a completion that another ring has sent.",
    .fields = message_fields,
    .n_in_sequence = 1,
};

int execute(PyObject* module) {
    ModuleState* state = state_of_module(module);
    for (std::size_t i = 0; i < name_count; ++i) {
        state->names[i] = PyUnicode_InternFromString(name_texts[i]);
        if (state->names[i] == nullptr) {
            return -1;
        }
    }
    state->message_type = PyStructSequence_NewType(&message_description);
    const bool done = state->message_type != nullptr &&
                      PyModule_AddType(module, state->message_type) == 0 &&
                      add_ring_type(module, state) && add_buffer_pool_types(module, state) &&
                      add_buffer_ring_type(module, state);
    return done ? 0 : -1;
}

int traverse(PyObject* module, visitproc visit, void* arg) {
    ModuleState* state = state_of_module(module);
#define PENSTOCK_TYPE(member) Py_VISIT(state->member);
#define PENSTOCK_OBJECT(member) Py_VISIT(state->member);
#include "cached_objects.def"
    return 0;
}

int clear(PyObject* module) {
    ModuleState* state = state_of_module(module);
#define PENSTOCK_TYPE(member) Py_CLEAR(state->member);
#define PENSTOCK_OBJECT(member) Py_CLEAR(state->member);
#include "cached_objects.def"
    for (PyObject*& name : state->names) {
        Py_CLEAR(name);
    }
    return 0;
}

void free_module(void* module) {
    clear(static_cast<PyObject*>(module));
}

PyMethodDef functions[] = {
    {"probe_kernel", &probe_kernel, METH_NOARGS, "What this kernel and this process may use."},
    {"read_cached_file", &read_cached_file, METH_O,
     "A regular file's bytes if all of it is cached; otherwise a negative errno, EAGAIN if the\n"
     "ring must read the file."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(&execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
    {0, nullptr},
};

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "penstock._uring",
    .m_doc = "The native half of penstock.uring.",
    .m_size = sizeof(ModuleState),
    .m_methods = functions,
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

PyObject* raise_error(ModuleState* state, int error, const char* format, ...) noexcept {
    if (state->error_type == nullptr) {
        const Ref errors(PyImport_ImportModule("penstock.uring._errors"));
        if (!errors) {
            return nullptr;
        }
        state->error_type = PyObject_GetAttrString(errors.get(), "UringError");
        if (state->error_type == nullptr) {
            return nullptr;
        }
    }
    va_list arguments;
    va_start(arguments, format);
    const Ref text(PyUnicode_FromFormatV(format, arguments));
    va_end(arguments);
    if (!text) {
        return nullptr;
    }
    const Ref raised(PyObject_CallFunction(state->error_type, "iO", error, text.get()));
    if (raised) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised.get())), raised.get());
    }
    return nullptr;
}

} // namespace penstock::python::uring

PyMODINIT_FUNC PyInit__uring() {
    return PyModuleDef_Init(&penstock::python::uring::definition);
}
