// Functions about a path whose answer is mostly in the kernel's caches.

#include "awaitable/delegating_awaitable.hpp"
#include "files/cached_questions.hpp"
#include "files/running_engine.hpp"

#include <cstddef>

#include <structmember.h>

namespace penstock::python {

namespace {

/// An asynchronous function over a coroutine function of Python, which is called only where the
/// caches have no answer, and for arguments that are not the usual ones.
struct AnsweredFunctionObject {
    PyObject ob_base;
    vectorcallfunc call;
    ModuleState* state;
    const CachedQuestion* question;
    PyObject* slow;       ///< owned; the coroutine function
    PyObject* attributes; ///< owned; `__dict__`, or null
    PyObject* weak_references;
};

AnsweredFunctionObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<AnsweredFunctionObject*>(object);
}

// ---- the coroutine
// --------------------------------------------------------------------------------

/// The call of such a function. It asks when it is awaited.
struct AnswerObject : DelegatingAwaitable<AnswerObject> {
    static constexpr bool warns_if_never_awaited = true;
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_answer;

    PyObject ob_base;
    AnsweredFunctionObject* function; ///< owned, as all that follow; null at the end
    PyObject* values[CachedQuestion::most_arguments]; ///< or null
    PyObject* delegate;                               ///< the coroutine that is awaited, or null
    AwaitStage stage;

    using NativeAwaitable::of;

    [[nodiscard]] PyObject* owner() const noexcept { return nullptr; }
    [[nodiscard]] const char* name() const noexcept {
        return function != nullptr ? function->question->name : "answer";
    }
    [[nodiscard]] PyObject* awaited() const noexcept { return delegate; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

private:
    bool ask(PyObject** answer) noexcept;
};

/// Asks the caches; the answer is null if they have none. False with an exception set.
bool AnswerObject::ask(PyObject** answer) noexcept {
    const Ref engine = running_engine(function->state);
    Ref found(engine ? function->question->ask(engine.get(), values) : nullptr);
    // The slow way raises what is wrong with the arguments, or makes an answer of it.
    if (!found && PyErr_Occurred() != nullptr) {
        if (PyErr_ExceptionMatches(PyExc_Exception) == 0) {
            return false;
        }
        PyErr_Clear();
    }
    *answer = found && found.get() != Py_None ? found.release() : nullptr;
    return true;
}

PySendResult AnswerObject::advance(bool first, PyObject* value, PyObject** result) noexcept {
    if (first) {
        if (!ask(result)) {
            return PYGEN_ERROR;
        }
        if (*result != nullptr) {
            return PYGEN_RETURN;
        }
        delegate =
            PyObject_Vectorcall(function->slow, values, function->question->arguments, nullptr);
        if (delegate == nullptr) {
            return PYGEN_ERROR;
        }
    }
    const PySendResult sent = PyIter_Send(delegate, value, result);
    if (sent != PYGEN_NEXT) {
        Py_CLEAR(delegate);
    }
    return sent;
}

void AnswerObject::release() noexcept {
    Py_CLEAR(delegate);
    for (PyObject*& value : values) {
        Py_CLEAR(value);
    }
    Py_CLEAR(function);
}

int AnswerObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(delegate);
    for (PyObject* value : values) {
        Py_VISIT(value);
    }
    Py_VISIT(function);
    return 0;
}

// ---- the function
// ---------------------------------------------------------------------------------

PyObject* call(PyObject* self, PyObject* const* values, std::size_t count, PyObject* keywords) {
    AnsweredFunctionObject* function = self_of(self);
    if (keywords != nullptr ||
        static_cast<std::size_t>(PyVectorcall_NARGS(count)) != function->question->arguments) {
        return PyObject_Vectorcall(function->slow, values, count, keywords);
    }
    ModuleState* state = function->state;
    AnswerObject* answer = AnswerObject::allocate(state, state->answer_type);
    if (answer == nullptr) {
        return nullptr;
    }
    answer->function = self_of(Py_NewRef(self));
    for (std::size_t i = 0; i < CachedQuestion::most_arguments; ++i) {
        answer->values[i] = i < function->question->arguments ? Py_NewRef(values[i]) : nullptr;
    }
    answer->delegate = nullptr;
    answer->stage = AwaitStage::created;
    PyObject_GC_Track(as_object(answer));
    return as_object(answer);
}

PyObject* function_new(PyTypeObject* type, PyObject* arguments, PyObject* /*keywords*/) {
    PyObject* slow = nullptr;
    const char* name = nullptr;
    if (PyArg_ParseTuple(arguments, "Os:AnsweredFunction", &slow, &name) == 0) {
        return nullptr;
    }
    const CachedQuestion* question = find_cached_question(name);
    if (question == nullptr) {
        return PyErr_Format(PyExc_ValueError, "%s is not a question to the caches", name);
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) {
        self_of(self)->call = &call;
        self_of(self)->state = state_of(type);
        self_of(self)->question = question;
        self_of(self)->slow = Py_NewRef(slow);
    }
    return self;
}

/// By its name, as functions are pickled and copied.
PyObject* reduce(PyObject* self, PyObject* /*unused*/) {
    return PyObject_GetAttrString(self, "__qualname__");
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self_of(self)->slow);
    Py_VISIT(self_of(self)->attributes);
    return 0;
}

/// Keeps the coroutine function, which calls use without asking. A cycle is through the attributes.
int function_clear(PyObject* self) {
    Py_CLEAR(self_of(self)->attributes);
    return 0;
}

void function_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (self_of(self)->weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    function_clear(self);
    Py_CLEAR(self_of(self)->slow);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef function_methods[] = {
    {"__reduce__", &reduce, METH_NOARGS, "The function's name."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef function_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(AnsweredFunctionObject, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(AnsweredFunctionObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(AnsweredFunctionObject, weak_references), READONLY,
     nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyGetSetDef function_attributes[] = {
    {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot function_slots[] = {
    {Py_tp_doc, const_cast<char*>("AnsweredFunction(function, question, /)\n--\n\n"
                                  "A coroutine function that is called only where the kernel's "
                                  "caches do not answer the question.")},
    {Py_tp_new, reinterpret_cast<void*>(&function_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&function_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&function_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&function_clear)},
    {Py_tp_call, reinterpret_cast<void*>(&PyVectorcall_Call)},
    {Py_tp_methods, function_methods},
    {Py_tp_members, function_members},
    {Py_tp_getset, function_attributes},
    {0, nullptr},
};

PyType_Spec function_spec = {
    .name = "penstock._core.AnsweredFunction",
    .basicsize = sizeof(AnsweredFunctionObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = function_slots,
};

} // namespace

bool add_answered_function_types(PyObject* module, ModuleState* state) {
    state->answer_type = AnswerObject::add_type(module, "penstock._core.Answer",
                                                "A question about a path, to be awaited.");
    if (state->answer_type == nullptr) {
        return false;
    }
    const Ref type(PyType_FromModuleAndSpec(module, &function_spec, nullptr));
    return type && PyModule_AddType(module, reinterpret_cast<PyTypeObject*>(type.get())) == 0;
}

} // namespace penstock::python
