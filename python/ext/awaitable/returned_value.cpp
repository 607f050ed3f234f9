#include "awaitable/returned_value.hpp"

namespace penstock::python {

namespace {

#if PY_VERSION_HEX >= 0x030C0000

/// Awaits do not overlap on a thread; a few spares suffice.
constexpr unsigned max_freelist_size = 8;

PyStopIterationObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<PyStopIterationObject*>(object);
}

PyTypeObject* base() noexcept {
    return reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
}

int stop_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return base()->tp_traverse(self, visit, arg);
}

/// Clears value, arguments, traceback and context.
int stop_clear(PyObject* self) {
    return base()->tp_clear(self);
}

/// A spare holds only its arguments, an unshared tuple of one, and the next spare as its `value`.
void stop_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    PyTypeObject* type = Py_TYPE(self);
    // Null when the collector has cleared the type.
    PyObject* module = reinterpret_cast<PyHeapTypeObject*>(type)->ht_module;
    auto* state =
        module != nullptr ? static_cast<ModuleState*>(PyModule_GetState(module)) : nullptr;
    PyStopIterationObject* stop = self_of(self);
    const bool kept = state != nullptr && state->stop_iteration_freelist_size < max_freelist_size;
    PyObject* arguments = kept ? std::exchange(stop->args, nullptr) : nullptr;
    if (arguments != nullptr && (Py_REFCNT(arguments) != 1 || PyTuple_GET_SIZE(arguments) != 1)) {
        Py_CLEAR(arguments);
    }
    if (arguments != nullptr) {
        const Ref value(PyTuple_GET_ITEM(arguments, 0));
        PyTuple_SET_ITEM(arguments, 0, Py_NewRef(Py_None));
    }
    stop_clear(self);
    if (kept) {
        stop->args = arguments;
        stop->value = std::exchange(state->stop_iteration_freelist, self);
        ++state->stop_iteration_freelist_size;
    } else {
        type->tp_free(self);
    }
    Py_DECREF(type);
}

/// An exception with `value` in its arguments. Null with an exception set.
PyStopIterationObject* make_stop(ModuleState* state, PyObject* value) noexcept {
    PyTypeObject* type = state->returned_value_type;
    PyObject* self = state->stop_iteration_freelist;
    if (self != nullptr) {
        state->stop_iteration_freelist = std::exchange(self_of(self)->value, nullptr);
        --state->stop_iteration_freelist_size;
        PyObject_Init(self, type);
        PyObject_GC_Track(self);
    } else {
        self = type->tp_alloc(type, 0);
        if (self == nullptr) {
            return nullptr;
        }
    }
    PyStopIterationObject* stop = self_of(self);
    if (stop->args != nullptr && Py_REFCNT(stop->args) != 1) {
        Py_CLEAR(stop->args); // shared: other code found it through the gc module
    }
    if (stop->args == nullptr) {
        stop->args = PyTuple_Pack(1, value);
        if (stop->args == nullptr) {
            Py_DECREF(self);
            return nullptr;
        }
        return stop;
    }
    PyTuple_SET_ITEM(stop->args, 0, Py_NewRef(value)); // replaces None, which is immortal
    if (PyObject_GC_IsTracked(stop->args) == 0) {
        PyObject_GC_Track(stop->args); // the collector untracks a tuple that holds only None
    }
    return stop;
}

PyType_Slot stop_slots[] = {
    {Py_tp_doc, const_cast<char*>("The result of an await, as the awaiting code receives it.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&stop_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&stop_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&stop_clear)},
    {0, nullptr},
};

PyType_Spec stop_spec = {
    .name = "penstock._core.ReturnedValue",
    .basicsize = sizeof(PyStopIterationObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = stop_slots,
};

#endif

} // namespace

void raise_plain_stop_iteration(PyObject* value) noexcept {
    // PyErr_SetObject would unpack a tuple into StopIteration's arguments, and would raise an
    // exception value itself.
    if (PyTuple_Check(value) || PyExceptionInstance_Check(value)) {
        const Ref stop(PyObject_CallOneArg(PyExc_StopIteration, value));
        if (stop) {
            PyErr_SetObject(PyExc_StopIteration, stop.get());
        }
        return;
    }
    PyErr_SetObject(PyExc_StopIteration, value);
}

#if PY_VERSION_HEX >= 0x030C0000

void raise_stop_iteration(ModuleState* state, PyObject* value) noexcept {
    if (PyStopIterationObject* stop = make_stop(state, value)) {
        stop->value = Py_NewRef(value);
        PyErr_SetRaisedException(as_object(stop));
    }
}

void empty_stop_iteration_freelist(ModuleState* state) noexcept {
    state->stop_iteration_freelist_size = max_freelist_size; // later ones are freed at once
    PyObject* spare = std::exchange(state->stop_iteration_freelist, nullptr);
    while (spare != nullptr) {
        PyObject* next = std::exchange(self_of(spare)->value, nullptr);
        Py_CLEAR(self_of(spare)->args);
        state->returned_value_type->tp_free(spare);
        spare = next;
    }
}

bool add_returned_value_type(PyObject* module, ModuleState* state) {
    state->returned_value_type = reinterpret_cast<PyTypeObject*>(
        PyType_FromModuleAndSpec(module, &stop_spec, PyExc_StopIteration));
    return state->returned_value_type != nullptr &&
           PyModule_AddType(module, state->returned_value_type) == 0;
}

#else

// Before 3.12 a raised exception is instantiated only when code inspects it, which an await does
// not.
void raise_stop_iteration(ModuleState* /*state*/, PyObject* value) noexcept {
    raise_plain_stop_iteration(value);
}

void empty_stop_iteration_freelist(ModuleState* /*state*/) noexcept {}

bool add_returned_value_type(PyObject* /*module*/, ModuleState* /*state*/) {
    return true;
}

#endif

} // namespace penstock::python
