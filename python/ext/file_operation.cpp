#include "file_operation.hpp"

#include "coroutine_protocol.hpp"
#include "file_coroutine.hpp"
#include "file_flight.hpp"

#include <cerrno>
#include <new>

namespace penstock::python {

namespace {

using Stage = FileOperationObject::Stage;

FileOperationObject* self_of(PyObject* object) noexcept {
    return FileOperationObject::of(object);
}

PyObject* operation_repr(PyObject* self) {
    const FileOperationObject* operation = self_of(self);
    if (operation->subject != nullptr) {
        return PyUnicode_FromFormat("<file operation %s of %R at %p>", operation->call->name,
                                    operation->subject, self);
    }
    return PyUnicode_FromFormat("<file operation %s on descriptor %d at %p>", operation->call->name,
                                operation->fd, self);
}

PyObject* get_name(PyObject* self, void* /*unused*/) {
    return PyUnicode_FromString(self_of(self)->call->name);
}

PyObject* get_running(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->running);
}

PyObject* get_suspended(PyObject* self, void* /*unused*/) {
    const Stage stage = self_of(self)->stage;
    return PyBool_FromLong(stage != Stage::created && stage != Stage::finished);
}

PyObject* get_in_flight(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->in_flight);
}

int operation_traverse(PyObject* self, visitproc visit, void* arg) {
    FileOperationObject* operation = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(operation->engine);
    Py_VISIT(operation->subject);
    Py_VISIT(operation->other_subject);
    Py_VISIT(operation->target);
    Py_VISIT(operation->delegate);
    Py_VISIT(operation->settled);
    Py_VISIT(operation->view.owner());
    return visit_task(operation->task, visit, arg);
}

int operation_clear(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    finish(operation);
    if (!operation->in_flight) {
        release_buffers(operation);
    }
    Py_CLEAR(operation->settled);
    return 0;
}

void operation_finalize(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    if (operation->stage == Stage::created) {
        operation->stage = Stage::finished;
        warn_never_awaited(self, operation->call->name);
    }
}

void operation_dealloc(PyObject* self) {
    FileOperationObject* operation = self_of(self);
    const bool finalized = operation->stage == Stage::created;
    if (finalized && PyObject_CallFinalizerFromDealloc(self) < 0) {
        return; // somebody kept it
    }
    PyObject_GC_UnTrack(self);
    finish(operation);
    release_buffers(operation);
    Py_CLEAR(operation->settled);
    FileEngineObject* engine = operation->engine;
    PyTypeObject* type = Py_TYPE(self);
    operation->request.~FileRequest();
    if (!finalized && engine->io != nullptr && engine->spare_count < FileEngineObject::max_spare) {
        operation->next = engine->spare;
        engine->spare = operation;
        ++engine->spare_count;
    } else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(engine);
    Py_DECREF(type);
}

PyGetSetDef operation_attributes[] = {
    {"__name__", &get_name, nullptr, nullptr, nullptr},
    {"__qualname__", &get_name, nullptr, nullptr, nullptr},
    {"cr_running", &get_running, nullptr, nullptr, nullptr},
    {"cr_suspended", &get_suspended, nullptr, nullptr, nullptr},
    {"get_loop", &loop_getter_of_file_operation, nullptr, nullptr, nullptr},
    {"in_flight", &get_in_flight, nullptr, "Whether the engine works on it.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot operation_slots[] = {
    {Py_tp_doc, const_cast<char*>("A file operation, to be awaited once.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(&operation_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&operation_finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(&operation_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&operation_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(&operation_repr)},
    {Py_am_await, reinterpret_cast<void*>(&await_itself)},
    {Py_am_send, reinterpret_cast<void*>(&send_to_file_operation)},
    {Py_tp_iter, reinterpret_cast<void*>(&await_itself)},
    {Py_tp_iternext, reinterpret_cast<void*>(&next_of_file_operation)},
    {Py_tp_methods, file_operation_methods},
    {Py_tp_getset, operation_attributes},
    {Py_tp_getattro, reinterpret_cast<void*>(&file_operation_attribute)},
    {Py_tp_setattro, reinterpret_cast<void*>(&set_file_operation_attribute)},
    {0, nullptr},
};

PyType_Spec operation_spec = {
    .name = "penstock._core.FileOperation",
    .basicsize = sizeof(FileOperationObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
             Py_TPFLAGS_IMMUTABLETYPE,
    .slots = operation_slots,
};

FileOperationObject* allocate(FileEngineObject* engine) noexcept {
    PyTypeObject* type = engine->state->file_operation_type;
    FileOperationObject* operation = engine->spare;
    if (operation == nullptr) {
        return PyObject_GC_New(FileOperationObject, type);
    }
    engine->spare = operation->next;
    --engine->spare_count;
    PyObject_Init(as_object(operation), type);
    return operation;
}

} // namespace

FileOperationObject* make_file_operation(FileEngineObject* engine, const FileCall& call) noexcept {
    FileOperationObject* operation = allocate(engine);
    if (operation == nullptr) {
        return nullptr;
    }
    new (&operation->request) FileRequest(&on_complete, operation);
    operation->call = &call;
    operation->engine = engine;
    Py_INCREF(engine);
    operation->previous = nullptr;
    operation->next = nullptr;
    operation->subject = nullptr;
    operation->other_subject = nullptr;
    operation->path = nullptr;
    operation->other_path = nullptr;
    operation->target = nullptr;
    operation->task = {};
    operation->delegate = nullptr;
    operation->settled = nullptr;
    new (&operation->view) BufferView;
    operation->extra = nullptr;
    operation->memory = nullptr;
    operation->size = 0;
    operation->done = 0;
    operation->offset = 0;
    operation->result = 0;
    operation->alignment = 1;
    operation->fd = -1;
    operation->flags = 0;
    operation->mode = 0;
    operation->other_fd = -1;
    operation->error = 0;
    operation->stage = Stage::created;
    operation->running = false;
    operation->in_flight = false;
    operation->abandoned = false;
    operation->value_taken = false;
    operation->started = false;
    operation->may_block_briefly = false;
    operation->patient = false;
    operation->held = false;
    PyObject_GC_Track(as_object(operation));
    return operation;
}

void raise_file_error(const FileOperationObject* operation) noexcept {
    errno = operation->error;
    if (operation->error == ENOMEM && operation->subject == nullptr) {
        PyErr_NoMemory();
    } else if (operation->error == EOWNERDEAD) { // no file gives that: see `io::FileEngine`
        PyErr_SetString(
            PyExc_RuntimeError,
            "the files of this event loop belong to the parent process and do not work in "
            "a child of fork(); run a loop of the child's own");
    } else {
        PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, operation->subject,
                                              operation->other_subject);
    }
}

void release_spare_operations(FileEngineObject* engine) noexcept {
    while (FileOperationObject* operation = engine->spare) {
        engine->spare = operation->next;
        PyObject_GC_Del(operation);
    }
    engine->spare_count = 0;
}

void release_buffers(FileOperationObject* operation) noexcept {
    operation->value_taken = true;
    Py_CLEAR(operation->target);
    operation->view.release();
    delete std::exchange(operation->extra, nullptr);
    Py_CLEAR(operation->subject);
    Py_CLEAR(operation->other_subject);
    Py_CLEAR(operation->path);
    Py_CLEAR(operation->other_path);
}

void finish(FileOperationObject* operation) noexcept {
    const bool unwanted = operation->stage == Stage::complete && !operation->value_taken;
    if (operation->stage == Stage::paused && operation->engine->loop != nullptr) {
        --operation->engine->paused;
    }
    operation->stage = Stage::finished;
    release(operation->task);
    Py_CLEAR(operation->delegate);
    if (operation->in_flight) {
        operation->abandoned = true;
        if (!operation->started) {
            cut_short(operation);
        }
        return;
    }
    if (unwanted && operation->error == 0) {
        operation->abandoned = true;
        if (operation->call->discard == nullptr) {
            return; // `when_settled` may ask for it
        }
        operation->call->discard(operation);
    }
    release_buffers(operation);
}

void settle(FileOperationObject* operation) noexcept {
    const Ref callback(std::exchange(operation->settled, nullptr));
    if (!callback) {
        return;
    }
    Ref value;
    if (operation->abandoned && operation->error == 0 && operation->call->value != nullptr &&
        operation->call->discard == nullptr && !std::exchange(operation->value_taken, true)) {
        value = Ref(operation->call->value(operation));
        if (!value) {
            PyErr_WriteUnraisable(callback.get());
        }
    }
    if (!Ref(PyObject_CallOneArg(callback.get(), value ? value.get() : Py_None))) {
        PyErr_WriteUnraisable(callback.get());
    }
}

bool add_file_operation_type(PyObject* module, ModuleState* state) {
    state->file_operation_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &operation_spec, nullptr));
    return state->file_operation_type != nullptr &&
           PyModule_AddType(module, state->file_operation_type) == 0;
}

} // namespace penstock::python
