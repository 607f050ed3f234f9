// Opening a file: the object that `penstock.files.open` returns, and its coroutine.

#include "awaitable/delegating_awaitable.hpp"
#include "file_objects/file_classes.hpp"
#include "file_objects/file_step.hpp"
#include "file_objects/file_types.hpp"
#include "files/file_calls.hpp"
#include "files/file_time_slice.hpp"
#include "files/running_engine.hpp"
#include "files/system_path.hpp"
#include "shared/cached_opening.hpp"

#include <cerrno>
#include <cstddef>

#include <structmember.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// The base of `penstock.files.Opening`.
///
/// Either `open_slowly` makes a coroutine that opens the file. Or the arguments are the usual ones,
/// to read a file by its path; then the page cache is tried first.
struct OpeningObject {
    PyObject ob_base;
    ModuleState* state;
    PyObject* open_slowly; ///< owned, as all that follow; null for the usual arguments
    PyObject* path;        ///< as it was given, after __fspath__
    PyObject* mode;
    PyObject* encoding; ///< null for a binary file
    PyObject* file;     ///< which __aenter__ has opened
};

OpeningObject* opening_of(PyObject* object) noexcept {
    return reinterpret_cast<OpeningObject*>(object);
}

// ---- the coroutine
// --------------------------------------------------------------------------------

/// Opens a file, when it is awaited.
struct OpenStepObject : DelegatingAwaitable<OpenStepObject> {
    static constexpr bool warns_if_never_awaited = true;

    enum class Phase : unsigned char { begun, yielding, delegated };

    PyObject ob_base;
    OpeningObject* opening;   ///< owned; null at the end
    PyObject* delegate;       ///< owned; the coroutine that is awaited instead, or null
    FileEngineObject* engine; ///< owned, or null
    AwaitStage stage;
    Phase phase;
    bool enters; ///< the opening keeps the file, to close it

    using NativeAwaitable::of;

    [[nodiscard]] PyObject* owner() const noexcept { return nullptr; }
    [[nodiscard]] const char* name() const noexcept { return "open"; }
    [[nodiscard]] PyObject* awaited() const noexcept { return delegate; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

private:
    AtOnce attempt(PyObject** result) noexcept;
    bool begin_slowly() noexcept;
};

/// Opens the file from the caches. `AtOnce::slow`: the engine must do it.
AtOnce OpenStepObject::attempt(PyObject** result) noexcept {
    ModuleState* module = opening->state;
    const SystemPath path(opening->path);
    if (!path) {
        return AtOnce::failed;
    }
    constexpr std::int64_t cost_of_opening = 12288;
    engine->slice_credit -= cost_of_opening;
    const CachedFile found = open_regular_from_cache(path.text(), O_RDONLY);
    if (found.fd == -EAGAIN) {
        return AtOnce::slow;
    }
    if (found.fd < 0) {
        errno = -found.fd;
        PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, opening->path);
        return AtOnce::failed;
    }
    OwnedDescriptor descriptor(found.fd);
    if (::fcntl(found.fd, F_SETFL, 0) != 0) {
        return AtOnce::slow;
    }
    Ref file(make_binary_file(module, {.engine = engine,
                                       .name = opening->path,
                                       .mode = opening->mode,
                                       .fd = found.fd,
                                       .size = found.size,
                                       .block_size = found.block_size}));
    if (!file) {
        return AtOnce::failed;
    }
    (void)descriptor.release();
    if (opening->encoding != nullptr) {
        file = Ref(make_text_file(module, file.get(), opening->mode, opening->encoding));
    }
    *result = file.release();
    return *result != nullptr ? AtOnce::done : AtOnce::failed;
}

bool OpenStepObject::begin_slowly() noexcept {
    phase = Phase::delegated;
    if (opening->open_slowly != nullptr) {
        delegate = PyObject_CallNoArgs(opening->open_slowly);
    } else {
        PyObject* encoding = opening->encoding != nullptr ? opening->encoding : Py_None;
        delegate = PyObject_CallFunctionObjArgs(opening->state->open_usual, opening->path,
                                                opening->mode, encoding, nullptr);
    }
    return delegate != nullptr;
}

PySendResult OpenStepObject::advance(bool first, PyObject* value, PyObject** result) noexcept {
    if (first && opening->open_slowly == nullptr) {
        engine = reinterpret_cast<FileEngineObject*>(running_engine(opening->state).release());
        if (engine == nullptr && PyErr_Occurred() != nullptr) {
            return PYGEN_ERROR;
        }
        if (engine != nullptr && !check_open(engine)) {
            return PYGEN_ERROR;
        }
    }
    PySendResult sent = PYGEN_NEXT;
    if (first && engine != nullptr && should_yield(engine)) {
        phase = Phase::yielding;
        delegate = as_object(make_file_operation(engine, yield_call));
        if (delegate == nullptr) {
            return PYGEN_ERROR;
        }
    }
    if (phase == Phase::yielding) {
        sent = PyIter_Send(delegate, value, result);
        if (sent == PYGEN_NEXT) {
            return sent;
        }
        Py_CLEAR(delegate);
        if (sent == PYGEN_ERROR) {
            return sent;
        }
        Py_CLEAR(*result);
        value = Py_None;
        phase = Phase::begun;
    }
    if (phase == Phase::begun) {
        switch (engine != nullptr ? attempt(result) : AtOnce::slow) {
        case AtOnce::done:
            sent = PYGEN_RETURN;
            break;
        case AtOnce::failed:
            return PYGEN_ERROR;
        case AtOnce::slow:
            if (!begin_slowly()) {
                return PYGEN_ERROR;
            }
            sent = PYGEN_NEXT;
            break;
        }
    }
    if (phase == Phase::delegated) {
        sent = PyIter_Send(delegate, value, result);
        if (sent != PYGEN_NEXT) {
            Py_CLEAR(delegate);
        }
    }
    if (sent == PYGEN_RETURN && enters) {
        Py_XSETREF(opening->file, Py_NewRef(*result));
    }
    return sent;
}

void OpenStepObject::release() noexcept {
    Py_CLEAR(delegate);
    Py_CLEAR(engine);
    Py_CLEAR(opening);
}

int OpenStepObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(opening);
    Py_VISIT(delegate);
    Py_VISIT(engine);
    return 0;
}

PyObject* make_open_step(OpeningObject* opening, bool enters) noexcept {
    auto* step = OpenStepObject::allocate(opening->state, opening->state->open_step_type);
    if (step == nullptr) {
        return nullptr;
    }
    step->opening = opening;
    Py_INCREF(opening);
    step->delegate = nullptr;
    step->engine = nullptr;
    step->stage = AwaitStage::created;
    step->phase = OpenStepObject::Phase::begun;
    step->enters = enters;
    PyObject_GC_Track(as_object(step));
    return as_object(step);
}

// ---- the object
// -----------------------------------------------------------------------------------

PyObject* opening_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"open_file", nullptr};
    PyObject* open_slowly = nullptr;
    if (PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Opening", const_cast<char**>(names),
                                    &open_slowly) == 0) {
        return nullptr;
    }
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) {
        opening_of(self)->state = state_of(type);
        opening_of(self)->open_slowly = Py_NewRef(open_slowly);
    }
    return self;
}

PyObject* await_opening(PyObject* self) {
    return make_open_step(opening_of(self), false);
}

PyObject* enter(PyObject* self, PyObject* /*unused*/) {
    return make_open_step(opening_of(self), true);
}

PyObject* leave(PyObject* self, PyObject* const* /*exception*/, Py_ssize_t /*count*/) {
    OpeningObject* opening = opening_of(self);
    if (opening->file == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the file has not been opened");
        return nullptr;
    }
    return PyObject_CallMethodNoArgs(opening->file, opening->state->name_close);
}

int opening_traverse(PyObject* self, visitproc visit, void* arg) {
    const OpeningObject* opening = opening_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(opening->open_slowly);
    Py_VISIT(opening->path);
    Py_VISIT(opening->file);
    return 0;
}

/// Keeps the strings, which are in no cycle.
int opening_clear(PyObject* self) {
    Py_CLEAR(opening_of(self)->file);
    return 0;
}

void opening_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    OpeningObject* opening = opening_of(self);
    opening_clear(self);
    Py_CLEAR(opening->open_slowly);
    Py_CLEAR(opening->path);
    Py_CLEAR(opening->mode);
    Py_CLEAR(opening->encoding);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef opening_methods[] = {
    {"__aenter__", &enter, METH_NOARGS, "Open the file."},
    {"__aexit__", as_function(&leave), METH_FASTCALL, "Close the file."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef opening_members[] = {
    {"_file", T_OBJECT, offsetof(OpeningObject, file), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot opening_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native part of penstock.files' Opening.")},
    {Py_tp_new, reinterpret_cast<void*>(&opening_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&opening_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&opening_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&opening_clear)},
    {Py_tp_methods, opening_methods},
    {Py_tp_members, opening_members},
    {Py_am_await, reinterpret_cast<void*>(&await_opening)},
    {0, nullptr},
};

PyType_Spec opening_spec = {
    .name = "penstock._core.OpeningCore",
    .basicsize = sizeof(OpeningObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = opening_slots,
};

// ---- functions
// ------------------------------------------------------------------------------------

/// Whether the mode is "r" or "rb". Sets `binary`.
bool only_reads(PyObject* mode, bool& binary) noexcept {
    if (!PyUnicode_CheckExact(mode) || PyUnicode_KIND(mode) != PyUnicode_1BYTE_KIND) {
        return false;
    }
    const Py_ssize_t size = PyUnicode_GET_LENGTH(mode);
    const auto* letters = static_cast<const char*>(PyUnicode_DATA(mode));
    binary = size == 2 && letters[1] == 'b';
    return letters[0] == 'r' && (size == 1 || binary);
}

bool is_number(PyObject* object, long number) noexcept {
    int overflow = 0;
    return PyLong_CheckExact(object) && PyLong_AsLongAndOverflow(object, &overflow) == number &&
           overflow == 0;
}

/// Whether the arguments of `open` from `errors` on, and `buffering`, are the defaults.
bool are_defaults(PyObject* buffering, PyObject* const* further) noexcept {
    PyObject* errors = further[0];
    PyObject* newline = further[1];
    PyObject* closes = further[2];
    PyObject* opener = further[3];
    return errors == Py_None && newline == Py_None && opener == Py_None && closes == Py_True &&
           is_number(buffering, -1) && is_number(further[4], 0);
}

/// usual_opening(file, mode, buffering, encoding, errors, newline, closefd, opener, flags)
/// -> Opening, or None for other arguments. The encoding, where that is a string, is known to
/// exist.
PyObject* usual_opening(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
    ModuleState* state = state_of_module(module);
    if (count != 9) {
        return PyErr_Format(PyExc_TypeError, "usual_opening() takes 9 arguments, not %zd", count);
    }
    PyObject* file = arguments[0];
    PyObject* encoding = arguments[3];
    bool binary = false;
    if (PyLong_Check(file) || !only_reads(arguments[1], binary) ||
        !are_defaults(arguments[2], arguments + 4) || state->opening_class == nullptr ||
        (binary ? encoding != Py_None : !PyUnicode_CheckExact(encoding))) {
        Py_RETURN_NONE;
    }
    Ref path(PyOS_FSPath(file));
    if (!path) {
        return nullptr;
    }
    auto* type = reinterpret_cast<PyTypeObject*>(state->opening_class);
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) {
        return nullptr;
    }
    OpeningObject* opening = opening_of(self);
    opening->state = state;
    opening->path = path.release();
    opening->mode = Py_NewRef(arguments[1]);
    opening->encoding = binary ? nullptr : Py_NewRef(encoding);
    return self;
}

/// set_file_classes(opening, binary, text, open_usual, buffer_size)
PyObject* set_file_classes(PyObject* module, PyObject* arguments) {
    ModuleState* state = state_of_module(module);
    PyObject* opening = nullptr;
    PyObject* binary = nullptr;
    PyObject* text = nullptr;
    PyObject* open_usual = nullptr;
    long long buffer_size = 0;
    if (PyArg_ParseTuple(arguments, "O!O!O!OL:set_file_classes", &PyType_Type, &opening,
                         &PyType_Type, &binary, &PyType_Type, &text, &open_usual,
                         &buffer_size) == 0) {
        return nullptr;
    }
    const auto derives = [](PyObject* type, PyTypeObject* base) {
        return PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base) != 0;
    };
    if (!derives(opening, state->opening_type) || !derives(binary, state->binary_file_type) ||
        !derives(text, state->text_file_type)) {
        PyErr_SetString(PyExc_TypeError, "the classes must derive from those of this module");
        return nullptr;
    }
    Py_XSETREF(state->opening_class, Py_NewRef(opening));
    Py_XSETREF(state->binary_file_class, Py_NewRef(binary));
    Py_XSETREF(state->text_file_class, Py_NewRef(text));
    Py_XSETREF(state->open_usual, Py_NewRef(open_usual));
    state->file_buffer_size = buffer_size;
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"usual_opening", as_function(&usual_opening), METH_FASTCALL,
     "usual_opening(file, mode, buffering, encoding, errors, newline, closefd, opener, flags): an "
     "Opening that reads a file by its path, or None for other arguments of open()."},
    {"set_file_classes", &set_file_classes, METH_VARARGS,
     "set_file_classes(opening, binary, text, open_usual, buffer_size): the classes of files that "
     "are opened from the page cache."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

bool add_opening_types(PyObject* module, ModuleState* state) {
    state->open_step_type = OpenStepObject::add_type(module, "penstock._core.OpenStep",
                                                     "The opening of a file, to be awaited.");
    state->opening_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &opening_spec, nullptr));
    return state->open_step_type != nullptr && state->opening_type != nullptr &&
           PyModule_AddType(module, state->opening_type) == 0 &&
           PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
