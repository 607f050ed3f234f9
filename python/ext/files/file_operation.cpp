#include "files/file_operation.hpp"

#include "files/file_submission.hpp"

#include <cerrno>
#include <new>

namespace penstock::python {

namespace {

using Progress = FileOperationObject::Progress;

PyObject* operation_repr(PyObject* self) {
    const FileOperationObject* operation = FileOperationObject::of(self);
    if (operation->subject != nullptr) {
        return PyUnicode_FromFormat("<file operation %s of %R at %p>", operation->call->name,
                                    operation->subject, self);
    }
    return PyUnicode_FromFormat("<file operation %s on descriptor %d at %p>", operation->call->name,
                                operation->fd, self);
}

PyObject* get_in_flight(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(FileOperationObject::of(self)->in_flight);
}

PyObject* get_transferred(PyObject* self, void* /*unused*/) {
    return PyLong_FromLongLong(FileOperationObject::of(self)->done);
}

FileOperationObject* allocate(FileEngineObject* engine) noexcept {
    PyTypeObject* type = engine->state->file_operation_type;
    FileOperationObject* operation = engine->spare;
    if (operation == nullptr) {
        return PyObject_GC_New(FileOperationObject, type);
    }
    engine->spare = operation->flight_hook.next;
    --engine->spare_count;
    PyObject_Init(as_object(operation), type);
    return operation;
}

} // namespace

void FileOperationObject::release() noexcept {
    const bool unwanted = progress == Progress::complete && !value_taken;
    if (progress == Progress::yielded && engine->loop != nullptr) {
        --engine->paused;
    }
    progress = Progress::ended;
    if (stop_holding(this)) {
        start_deferred_closes_in_task(engine);
    }
    python::release(task);
    Py_CLEAR(delegate);
    if (in_flight) {
        detached = true;
        if (!started) {
            request_cancel(this);
        }
        return;
    }
    if (unwanted && error == 0) {
        detached = true;
        if (call->discard == nullptr) {
            return; // when_released() may still pass it on
        }
        call->discard(this);
    }
    release_buffers(this);
}

int FileOperationObject::visit(visitproc visit, void* arg) const noexcept {
    Py_VISIT(subject);
    Py_VISIT(other_subject);
    Py_VISIT(target);
    Py_VISIT(delegate);
    Py_VISIT(release_callback);
    Py_VISIT(view.owner());
    return visit_task(task, visit, arg);
}

int FileOperationObject::tp_clear(PyObject* self) noexcept {
    FileOperationObject* operation = of(self);
    finish(operation);
    if (!operation->in_flight) {
        release_buffers(operation);
    }
    Py_CLEAR(operation->release_callback);
    return 0;
}

/// Keeps the memory for the engine's next operation. An object whose finalizer ran is not reused.
void FileOperationObject::tp_dealloc(PyObject* self) noexcept {
    FileOperationObject* operation = of(self);
    const bool reusable = operation->stage != AwaitStage::created;
    if (!finalized(self)) {
        return;
    }
    PyObject_GC_UnTrack(self);
    finish(operation);
    release_buffers(operation);
    Py_CLEAR(operation->release_callback);
    FileEngineObject* engine = operation->engine;
    PyTypeObject* type = Py_TYPE(self);
    operation->request.~FileRequest();
    if (reusable && engine->io != nullptr && engine->spare_count < FileEngineObject::max_spare) {
        operation->flight_hook.next = engine->spare;
        engine->spare = operation;
        ++engine->spare_count;
    } else {
        PyObject_GC_Del(self);
    }
    Py_DECREF(engine);
    Py_DECREF(type);
}

std::array<PyGetSetDef, 2> FileOperationObject::own_attributes() noexcept {
    return {
        PyGetSetDef{"in_flight", &get_in_flight, nullptr, "Whether it is in flight.", nullptr},
        PyGetSetDef{"transferred", &get_transferred, nullptr,
                    "How many bytes it has moved, even if it has failed or was cancelled.",
                    nullptr},
    };
}

std::array<PyType_Slot, 1> FileOperationObject::own_slots() noexcept {
    return {PyType_Slot{Py_tp_repr, reinterpret_cast<void*>(&operation_repr)}};
}

FileOperationObject* make_file_operation(FileEngineObject* engine, const FileCall& call) noexcept {
    FileOperationObject* operation = allocate(engine);
    if (operation == nullptr) {
        return nullptr;
    }
    new (&operation->request) FileRequest(&on_complete, operation);
    operation->call = &call;
    operation->engine = engine;
    Py_INCREF(engine);
    operation->flight_hook = {};
    operation->subject = nullptr;
    operation->other_subject = nullptr;
    operation->path = nullptr;
    operation->other_path = nullptr;
    operation->target = nullptr;
    operation->task = {};
    operation->delegate = nullptr;
    operation->release_callback = nullptr;
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
    operation->stage = AwaitStage::created;
    operation->progress = Progress::not_begun;
    operation->in_flight = false;
    operation->detached = false;
    operation->value_taken = false;
    operation->started = false;
    operation->end_requested = false;
    operation->may_block_briefly = false;
    operation->may_block_indefinitely = false;
    operation->close_deferred = false;
    operation->holds_descriptor = false;
    PyObject_GC_Track(as_object(operation));
    return operation;
}

PyObject* refuse_operation(FileOperationObject* operation) noexcept {
    operation->stage = AwaitStage::finished;
    Ref exception = take_exception();
    Py_DECREF(operation);
    raise_exception(std::move(exception));
    return nullptr;
}

void raise_file_error(const FileOperationObject* operation) noexcept {
    errno = operation->error;
    if (operation->error == ENOMEM && operation->subject == nullptr) {
        PyErr_NoMemory();
    } else if (operation->error == EOWNERDEAD) { // from `io::FileEngine` only; no file reports it
        PyErr_SetString(
            PyExc_RuntimeError,
            "the files of this event loop belong to the parent process and do not work in "
            "a child of fork(); run a loop of the child's own");
    } else if (operation->request.found_no_thread()) {
        constexpr const char* reason =
            "no thread can be started for it; allow more processes (RLIMIT_NPROC, pids.max)";
        const Ref arguments(
            operation->subject == nullptr
                ? Py_BuildValue("is", operation->error, reason)
                : Py_BuildValue("isO", operation->error, reason, operation->subject));
        if (arguments) {
            PyErr_SetObject(PyExc_OSError, arguments.get());
        }
    } else {
        PyErr_SetFromErrnoWithFilenameObjects(PyExc_OSError, operation->subject,
                                              operation->other_subject);
    }
}

void release_spare_operations(FileEngineObject* engine) noexcept {
    while (FileOperationObject* operation = engine->spare) {
        engine->spare = operation->flight_hook.next;
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

void call_release_callback(FileOperationObject* operation) noexcept {
    const Ref callback(std::exchange(operation->release_callback, nullptr));
    if (!callback) {
        return;
    }
    Ref value;
    if (operation->detached && operation->error == 0 && operation->call->value != nullptr &&
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
    state->file_operation_type = FileOperationObject::add_type(
        module, "penstock._core.FileOperation", "A file operation, to be awaited once.");
    return state->file_operation_type != nullptr;
}

} // namespace penstock::python
