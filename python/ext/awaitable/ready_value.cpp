#include "awaitable/ready_value.hpp"

#include "awaitable/coroutine_protocol.hpp"

namespace penstock::python {

namespace {

/// An awaitable of a value that is already known: awaiting it needs neither a coroutine nor an
/// iteration of the loop. It can be awaited once.
struct ReadyValueObject {
    PyObject ob_base;
    PyObject* value; ///< owned; null once it was awaited
};

ReadyValueObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<ReadyValueObject*>(object);
}

/// The type has no subclasses, so the search in `state_of` is not needed.
ModuleState* module_state(PyTypeObject* type) noexcept {
    return static_cast<ModuleState*>(PyType_GetModuleState(type));
}

/// A new object without a value; null with an exception set.
PyObject* allocate_ready_value(PyTypeObject* type) noexcept {
    auto* ready = PyObject_GC_New(ReadyValueObject, type);
    if (ready != nullptr) {
        ready->value = nullptr;
        PyObject_GC_Track(as_object(ready));
    }
    return as_object(ready);
}

PyObject* ready_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    PyObject* value = nullptr;
    static const char* names[] = {"value", nullptr};
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:ReadyValue", const_cast<char**>(names),
                                     &value)) {
        return nullptr;
    }
    return make_ready_value(module_state(type), Py_NewRef(value));
}

PyObject* ready_vectorcall(PyObject* type, PyObject* const* arguments, std::size_t count,
                           PyObject* keywords) {
    if (PyVectorcall_NARGS(count) != 1 || keywords != nullptr) {
        PyErr_SetString(PyExc_TypeError, "ReadyValue() takes one value");
        return nullptr;
    }
    return make_ready_value(module_state(reinterpret_cast<PyTypeObject*>(type)),
                            Py_NewRef(arguments[0]));
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

int ready_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self_of(self)->value);
    return 0;
}

int ready_clear(PyObject* self) {
    Py_CLEAR(self_of(self)->value);
    return 0;
}

void ready_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    ready_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyType_Slot ready_slots[] = {
    {Py_tp_doc, const_cast<char*>("ReadyValue(value)\n--\n\nAn awaitable of a known value.")},
    {Py_tp_new, reinterpret_cast<void*>(&ready_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&ready_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&ready_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&ready_clear)},
    {Py_tp_iternext, reinterpret_cast<void*>(&ready_next)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&ready_send)},
    {0, nullptr},
};

PyType_Spec ready_spec = {
    .name = "penstock._core.ReadyValue",
    .basicsize = sizeof(ReadyValueObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ready_slots,
};

} // namespace

PyObject* make_ready_value(ModuleState* state, PyObject* value) noexcept {
    if (value == nullptr) {
        return nullptr;
    }
    // A loop over lines has one at a time. Who still holds the last one has a line of its own, or
    // must find that it was awaited.
    PyObject* kept = state->ready_value;
    Ref ready(kept != nullptr && Py_REFCNT(kept) == 1
                  ? Py_NewRef(kept)
                  : allocate_ready_value(state->ready_value_type));
    if (!ready) {
        Py_DECREF(value);
        return nullptr;
    }
    // Not there unless the object was dropped without an await.
    const Ref before(std::exchange(self_of(ready.get())->value, value));
    return ready.release();
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
    state->ready_value = allocate_ready_value(ready);
    return state->ready_value != nullptr && PyModule_AddType(module, ready) == 0;
}

} // namespace penstock::python
