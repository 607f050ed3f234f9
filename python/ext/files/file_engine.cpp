#include "files/file_engine.hpp"

#include "files/dirty_page_budget.hpp"
#include "files/file_operation.hpp"
#include "files/file_submission.hpp"

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <penstock/io/files/choose_file_engine.hpp>

namespace penstock::python {

namespace {

/// The engine for Penstock's loop, or for another loop. Another loop does not announce that it is
/// about to block, so a ring would cost a system call for each operation.
io::FileEngineChoice choose_engine(bool on_penstock) {
    if (on_penstock) {
        return io::choose_file_engine();
    }
    (void)io::file_engine_preference(); // an invalid one is an error on any loop
    return {.engine = io::make_worker_engine(),
            .reason = "worker threads, as on every loop other than Penstock's"};
}

FileEngineObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<FileEngineObject*>(object);
}

/// A new engine that is not watched yet; null with an exception set.
FileEngineObject* make_engine(ModuleState* state, bool on_penstock) noexcept {
    auto* engine = PyObject_GC_New(FileEngineObject, state->file_engine_type);
    if (engine == nullptr) {
        return nullptr;
    }
    engine->state = state;
    engine->io = nullptr;
    engine->reason = nullptr;
    engine->penstock = nullptr;
    engine->loop = nullptr;
    engine->checkpoint = nullptr;
    engine->wait = nullptr;
    engine->later = nullptr;
    engine->raised = nullptr;
    new (&engine->in_flight) FileOperations;
    new (&engine->yielded) FileOperations;
    engine->spare = nullptr;
    engine->dirty_pages = nullptr;
    engine->in_flight_count = 0;
    engine->deferred_close_count = 0;
    engine->spare_count = 0;
    engine->deliveries = 0;
    engine->slice_credit = 0;
    new (&engine->clock_reading) io::TimeSlice(callbacks_slice);
    engine->slice_end = 0;
    engine->paused = 0;
    engine->gathering = 0;
    engine->closing = false;
    engine->steps_later = false;
    PyObject_GC_Track(as_object(engine));
    try {
        engine->dirty_pages = new DirtyPageBudget;
        io::FileEngineChoice choice = choose_engine(on_penstock);
        engine->reason = new std::string(std::move(choice.reason));
        engine->io = choice.engine.release();
        return engine;
    } catch (const std::system_error& error) {
        const Ref arguments(Py_BuildValue("is", error.code().value(), error.what()));
        if (arguments) {
            PyErr_SetObject(PyExc_OSError, arguments.get());
        }
    } catch (const std::invalid_argument& error) {
        PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    Py_DECREF(engine);
    return nullptr;
}

FileEngineObject* make_penstock_engine(LoopObject* loop) noexcept {
    if (!check_open(loop)) {
        return nullptr;
    }
    FileEngineObject* engine = make_engine(loop->state, true);
    if (engine == nullptr) {
        return nullptr;
    }
    engine->penstock = loop;
    engine->loop = Py_NewRef(as_object(loop));
    if (const std::error_code refused = loop->io->attach(*engine->io)) {
        errno = refused.value();
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(engine);
        return nullptr;
    }
    return engine;
}

PyObject* engine_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"loop", "later", "checkpoint", "wait", nullptr};
    PyObject* loop = nullptr;
    PyObject* later = nullptr;
    PyObject* checkpoint = Py_None;
    PyObject* wait = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "OO|OO:FileEngine",
                                     const_cast<char**>(names), &loop, &later, &checkpoint,
                                     &wait)) {
        return nullptr;
    }
    ModuleState* state = state_of(type);
    if (loop == Py_None && (checkpoint == Py_None || wait == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "FileEngine needs a loop, or a checkpoint and a wait");
        return nullptr;
    }
    FileEngineObject* engine = make_engine(state, false);
    if (engine != nullptr) {
        engine->loop = loop != Py_None ? Py_NewRef(loop) : nullptr;
        engine->later = Py_NewRef(later);
        engine->checkpoint = Py_NewRef(checkpoint);
        engine->wait = Py_NewRef(wait);
    }
    return as_object(engine);
}

int engine_traverse(PyObject* self, visitproc visit, void* arg) {
    FileEngineObject* engine = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(engine->loop);
    Py_VISIT(engine->later);
    Py_VISIT(engine->checkpoint);
    Py_VISIT(engine->wait);
    Py_VISIT(engine->raised);
    return 0;
}

int engine_clear(PyObject* self) {
    FileEngineObject* engine = self_of(self);
    close_file_engine(engine);
    Py_CLEAR(engine->loop);
    Py_CLEAR(engine->later);
    Py_CLEAR(engine->checkpoint);
    Py_CLEAR(engine->wait);
    Py_CLEAR(engine->raised);
    return 0;
}

void engine_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    FileEngineObject* engine = self_of(self);
    engine_clear(self);
    delete engine->dirty_pages;
    delete engine->reason;
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

PyObject* get_name(PyObject* self, void* /*unused*/) {
    const FileEngineObject* engine = self_of(self);
    if (!check_open(self_of(self))) {
        return nullptr;
    }
    const std::string_view name = engine->io->name();
    return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}

PyObject* get_reason(PyObject* self, void* /*unused*/) {
    const FileEngineObject* engine = self_of(self);
    const int refusal = engine->io != nullptr ? engine->io->ring_refusal() : 0;
    if (refusal != 0) {
        return PyUnicode_FromFormat(
            "worker threads: the kernel has refused io_uring since the loop's start (%s)",
            strerrorname_np(refusal));
    }
    return PyUnicode_FromString(self_of(self)->reason->c_str());
}

PyObject* get_closed(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->io == nullptr);
}

PyObject* get_in_flight(PyObject* self, void* /*unused*/) {
    return PyLong_FromSize_t(self_of(self)->in_flight_count);
}

PyObject* get_in_child(PyObject* self, void* /*unused*/) {
    const FileEngineObject* engine = self_of(self);
    return PyBool_FromLong(engine->io != nullptr && engine->io->in_child());
}

PyGetSetDef engine_attributes[] = {
    {"name", &get_name, nullptr, "'uring' or 'threads'.", nullptr},
    {"reason", &get_reason, nullptr, "Why it is this engine, in one line.", nullptr},
    {"closed", &get_closed, nullptr, nullptr, nullptr},
    {"in_child", &get_in_child, nullptr, "Whether this process was forked from the engine's.",
     nullptr},
    {"in_flight", &get_in_flight, nullptr, "The number of operations in flight.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot engine_slots[] = {
    {Py_tp_doc, const_cast<char*>("FileEngine(loop, later, checkpoint=None, wait=None)\n--\n\n"
                                  "The file engine of one running loop.")},
    {Py_tp_new, reinterpret_cast<void*>(&engine_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&engine_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&engine_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&engine_clear)},
    {Py_tp_methods, file_engine_methods},
    {Py_tp_getset, engine_attributes},
    {0, nullptr},
};

PyType_Spec engine_spec = {
    .name = "penstock._core.FileEngine",
    .basicsize = sizeof(FileEngineObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = engine_slots,
};

/// Waits until the kernel has completed all that is in flight. In a forked child nothing completes:
/// kernel and worker threads use the parent's memory.
void drain(FileEngineObject* engine) noexcept {
    if (engine->io->in_child()) {
        while (FileOperationObject* operation = engine->in_flight.front()) {
            on_complete(operation->request, -EOWNERDEAD);
        }
        return;
    }
    for (FileOperationObject* operation = engine->in_flight.front(); operation != nullptr;
         operation = FileOperations::after(*operation)) {
        if (may_never_end(operation)) {
            engine->io->cancel(operation->request);
        }
    }
    start_deferred_closes(engine); // what has yielded does not begin any more
    while (engine->in_flight_count > 0) {
        Py_BEGIN_ALLOW_THREADS engine->io->wait();
        Py_END_ALLOW_THREADS engine->io->process();
    }
}

} // namespace

bool check_open(FileEngineObject* engine) noexcept {
    if (engine->io != nullptr && !engine->closing) {
        return true;
    }
    PyErr_SetString(PyExc_RuntimeError,
                    "the event loop that this file operation belongs to has ended");
    return false;
}

FileEngineObject* file_engine_of(LoopObject* loop) noexcept {
    if (loop->file_engine == nullptr) {
        loop->file_engine = make_penstock_engine(loop);
    }
    return loop->file_engine;
}

void close_file_engine(FileEngineObject* engine) noexcept {
    if (engine->io == nullptr || engine->closing) {
        return;
    }
    Ref exception = take_exception();
    engine->closing = true;
    drain(engine);
    if (engine->penstock != nullptr && engine->penstock->io != nullptr) {
        engine->penstock->io->detach_files();
    }
    delete std::exchange(engine->io, nullptr);
    release_spare_operations(engine);
    if (exception) {
        raise_exception(std::move(exception));
    }
}

bool add_file_engine_type(PyObject* module, ModuleState* state) {
    const Ref os(PyImport_ImportModule("os"));
    state->stat_result_type = os ? PyObject_GetAttrString(os.get(), "stat_result") : nullptr;
    if (state->stat_result_type == nullptr) {
        return false;
    }
    state->file_engine_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &engine_spec, nullptr));
    return state->file_engine_type != nullptr &&
           PyModule_AddType(module, state->file_engine_type) == 0;
}

} // namespace penstock::python
