#include "awaitable/ready_value.hpp"

#include "awaitable/coroutine_protocol.hpp"

namespace penstock::python {

namespace {

/// An awaitable of a value that is already known: awaiting it needs neither a coroutine nor an
/// iteration of the loop. It can be awaited once.
///
/// Not tracked by the garbage collector: for values without references of their own, such as lines.
struct ReadyValueObject {
    PyObject ob_base;
    PyObject* value; ///< owned; null once it was awaited
};

ReadyValueObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<ReadyValueObject*>(object);
}

PyObject* ready_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    PyObject* value = nullptr;
    static const char* names[] = {"value", nullptr};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:ReadyValue", const_cast<char**>(names),
                                     &value)) {
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) {
        self_of(self)->value = Py_NewRef(value);
    }
    return self;
}

PyObject* ready_vectorcall(PyObject* type, PyObject* const* arguments, std::size_t count,
                           PyObject* keywords) {
    if (PyVectorcall_NARGS(count) != 1 || keywords != nullptr) {
        PyErr_SetString(PyExc_TypeError, "ReadyValue() takes one value");
        return nullptr;
    }
    auto* ready = PyObject_New(ReadyValueObject, reinterpret_cast<PyTypeObject*>(type));
    if (ready != nullptr) {
        ready->value = Py_NewRef(arguments[0]);
    }
    return as_object(ready);
}

PySendResult ready_send(PyObject* self, PyObject* /*value*/, PyObject** result) {
    *result = std::exchange(self_of(self)->value, nullptr);
    if (*result == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited coroutine");
        return PYGEN_ERROR;
    }
    return PYGEN_RETURN;
}

PyObject* ready_next(PyObject* self) {
    PyObject* result = nullptr;
    const PySendResult sent = ready_send(self, Py_None, &result);
    return iterator_step(self, sent, result);
}

/// Keeps the memory for the next one: a loop over lines has one at a time.
void ready_dealloc(PyObject* self) {
    Py_CLEAR(self_of(self)->value);
    PyTypeObject* type = Py_TYPE(self);
    // Null when the collector has cleared the type.
    PyObject* module = reinterpret_cast<PyHeapTypeObject*>(type)->ht_module;
    auto* state = module != nullptr ? state_of_module(module) : nullptr;
    if (state != nullptr && state->spare_ready_value == nullptr && !state->keeps_no_spares) {
        state->spare_ready_value = self;
    } else {
        PyObject_Free(self);
    }
    Py_DECREF(type);
}

PyType_Slot ready_slots[] = {
    {Py_tp_doc, const_cast<char*>("ReadyValue(value)\n--\n\nAn awaitable of a known value.")},
    {Py_tp_new, reinterpret_cast<void*>(&ready_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&ready_dealloc)},
    {Py_tp_iternext, reinterpret_cast<void*>(&ready_next)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&ready_send)},
    {0, nullptr},
};

PyType_Spec ready_spec = {
    .name = "penstock._core.ReadyValue",
    .basicsize = sizeof(ReadyValueObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ready_slots,
};

} // namespace

PyObject* make_ready_value(ModuleState* state, PyObject* value) noexcept {
    if (value == nullptr) {
        return nullptr;
    }
    PyObject* ready = std::exchange(state->spare_ready_value, nullptr);
    if (ready != nullptr) {
        PyObject_Init(ready, state->ready_value_type);
    } else {
        ready = as_object(PyObject_New(ReadyValueObject, state->ready_value_type));
    }
    if (ready == nullptr) {
        Py_DECREF(value);
        return nullptr;
    }
    self_of(ready)->value = value;
    return ready;
}

bool add_ready_value_type(PyObject* module, ModuleState* state) {
    auto* ready =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &ready_spec, nullptr));
    state->ready_value_type = ready;
    if (ready == nullptr) {
        return false;
    }
    // There is no slot for it before Python 3.14.
    ready->tp_vectorcall = &ready_vectorcall;
    return PyModule_AddType(module, ready) == 0;
}

} // namespace penstock::python
