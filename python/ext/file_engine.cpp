#include "file_engine.hpp"

#include "dirty_room.hpp"
#include "file_calls.hpp"
#include "file_memory.hpp"

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <penstock/io/choose_file_engine.hpp>
#include <sys/stat.h>

namespace penstock::python {

namespace {

/// The engine for Penstock's loop, or for another one, which cannot tell when it is about to block:
/// a ring would be entered for each operation.
io::FileEngineChoice choose_engine(bool on_penstock) {
    if (on_penstock) {
        return io::choose_file_engine();
    }
    (void)io::file_engine_wish(); // a wrong one is an error on any loop
    return {.engine = io::make_worker_engine(),
            .reason = "worker threads, as always on another loop than Penstock's"};
}

FileEngineObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<FileEngineObject*>(object);
}

// ---- arguments ------------------------------------------------------------------------------------

/// One method's arguments: how many it takes at least and at most, and where they are.
class Arguments {
public:
    Arguments(PyObject* const* values, Py_ssize_t count) noexcept
        : values_(values), count_(count) {}

    [[nodiscard]] bool check_count(const char* method, Py_ssize_t least, Py_ssize_t most) noexcept {
        if (count_ >= least && count_ <= most) {
            return true;
        }
        PyErr_Format(PyExc_TypeError, "%s() takes %zd to %zd arguments, not %zd", method, least,
                     most, count_);
        return false;
    }

    [[nodiscard]] bool has(Py_ssize_t index) const noexcept { return index < count_; }
    [[nodiscard]] PyObject* operator[](Py_ssize_t index) const noexcept { return values_[index]; }

    /// The integer at `index`, or `otherwise` where there is none. Sets `failed_`.
    std::int64_t integer(Py_ssize_t index, std::int64_t otherwise) noexcept {
        if (!has(index)) {
            return otherwise;
        }
        const long long value = PyLong_AsLongLong(values_[index]);
        failed_ = failed_ || (value == -1 && PyErr_Occurred() != nullptr);
        return value;
    }

    int descriptor(Py_ssize_t index) noexcept {
        const int fd = PyObject_AsFileDescriptor(values_[index]);
        failed_ = failed_ || fd < 0;
        return fd;
    }

    [[nodiscard]] bool failed() const noexcept { return failed_; }

private:
    PyObject* const* values_;
    Py_ssize_t count_;
    bool failed_ = false;
};

FileOperationObject* make(PyObject* self, const FileCall& call) noexcept {
    FileEngineObject* engine = self_of(self);
    return check_open(engine) ? make_file_operation(engine, call) : nullptr;
}

/// Drops an operation whose arguments were wrong, without a word about its not being awaited.
PyObject* refuse(FileOperationObject* operation) noexcept {
    if (operation != nullptr) {
        operation->stage = FileOperationObject::Stage::finished;
        Ref exception = take_exception();
        Py_DECREF(operation);
        raise_exception(std::move(exception));
    }
    return nullptr;
}

PyObject* finish_making(FileOperationObject* operation, const Arguments& arguments) noexcept {
    return arguments.failed() ? refuse(operation) : as_object(operation);
}

/// Keeps a path as the system wants it, and as the caller gave it for error messages.
bool set_path(PyObject* path, PyObject*& subject, PyObject*& encoded) noexcept {
    if (PyUnicode_FSConverter(path, static_cast<void*>(&encoded)) == 0) {
        encoded = nullptr;
        return false;
    }
    subject = Py_NewRef(path);
    return true;
}

// ---- operations -----------------------------------------------------------------------------------

PyObject* engine_open(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("open", 2, 3)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, open_call);
    if (operation == nullptr || !set_path(arguments[0], operation->subject, operation->path)) {
        return refuse(operation);
    }
    operation->flags = static_cast<int>(arguments.integer(1, 0));
    operation->mode = static_cast<std::uint32_t>(arguments.integer(2, 0666));
    return finish_making(operation, arguments);
}

PyObject* engine_close(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("close", 1, 2)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, close_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->may_block_briefly = arguments.integer(1, 0) != 0;
    return finish_making(operation, arguments);
}

PyObject* engine_abandon(PyObject* self, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    if (fd < 0 || !close_unwanted(self_of(self), fd)) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* engine_read(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("read", 3, 4)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, read_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->size = arguments.integer(1, 0);
    operation->offset = arguments.integer(2, -1);
    operation->alignment = arguments.integer(3, 1);
    if (arguments.failed()) {
        return refuse(operation);
    }
    if (operation->size < 0) {
        PyErr_Format(PyExc_ValueError, "cannot read %lld bytes",
                     static_cast<long long>(operation->size));
        return refuse(operation);
    }
    return allocate_bytes(operation) ? as_object(operation) : refuse(operation);
}

PyObject* engine_read_into(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("read_into", 3, 4)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, read_into_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->offset = arguments.integer(2, -1);
    operation->alignment = arguments.integer(3, 1);
    if (arguments.failed() || !export_buffer(operation, arguments[1], true)) {
        return refuse(operation);
    }
    return as_object(operation);
}

PyObject* engine_write(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("write", 3, 5)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, write_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->offset = arguments.integer(2, -1);
    operation->alignment = arguments.integer(3, 1);
    operation->may_block_briefly = arguments.integer(4, 0) != 0;
    if (arguments.failed() || !export_buffer(operation, arguments[1], false)) {
        return refuse(operation);
    }
    return as_object(operation);
}

template <const FileCall& call>
PyObject* engine_on_descriptor(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count(call.name, 1, 2)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->offset = arguments.integer(1, 0);
    return finish_making(operation, arguments);
}

template <const FileCall& call> PyObject* engine_on_path(PyObject* self, PyObject* path) {
    FileOperationObject* operation = make(self, call);
    if (operation == nullptr || !set_path(path, operation->subject, operation->path)) {
        return refuse(operation);
    }
    return as_object(operation);
}

template <const FileCall& call>
PyObject* engine_on_two_paths(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count(call.name, 2, 2)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, call);
    if (operation == nullptr || !set_path(arguments[0], operation->subject, operation->path) ||
        !set_path(arguments[1], operation->other_subject, operation->other_path)) {
        return refuse(operation);
    }
    return as_object(operation);
}

PyObject* engine_mkdir(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("mkdir", 1, 2)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, mkdir_call);
    if (operation == nullptr || !set_path(arguments[0], operation->subject, operation->path)) {
        return refuse(operation);
    }
    operation->mode = static_cast<std::uint32_t>(arguments.integer(1, 0777));
    return finish_making(operation, arguments);
}

PyObject* engine_stat(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("stat", 1, 2)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, stat_call);
    if (operation == nullptr) {
        return nullptr;
    }
    if (PyLong_Check(arguments[0])) {
        operation->fd = arguments.descriptor(0);
        operation->subject = Py_NewRef(arguments[0]);
        operation->flags = AT_EMPTY_PATH;
    } else if (!set_path(arguments[0], operation->subject, operation->path)) {
        return refuse(operation);
    } else if (arguments.integer(1, 1) == 0) {
        operation->flags = AT_SYMLINK_NOFOLLOW;
    }
    return finish_making(operation, arguments);
}

PyObject* engine_copy_range(PyObject* self, PyObject* const* values, Py_ssize_t count) {
    Arguments arguments(values, count);
    if (!arguments.check_count("copy_range", 4, 4)) {
        return nullptr;
    }
    FileOperationObject* operation = make(self, copy_range_call);
    if (operation == nullptr) {
        return nullptr;
    }
    operation->fd = arguments.descriptor(0);
    operation->other_fd = arguments.failed() ? -1 : arguments.descriptor(1);
    operation->offset = arguments.failed() ? 0 : arguments.integer(2, 0);
    constexpr std::int64_t largest_copy = std::int64_t{1} << 30;
    operation->size = arguments.failed() ? 0 : std::min(arguments.integer(3, 0), largest_copy);
    return finish_making(operation, arguments);
}

PyObject* engine_call(PyObject* self, PyObject* function) {
    FileOperationObject* operation = make(self, python_call);
    if (operation != nullptr) {
        operation->target = Py_NewRef(function);
    }
    return as_object(operation);
}

/// What an open file is, without asking a device or a server: (mode, size, preferred block size,
/// alignment of memory, alignment of offsets). The last two are 0 where the file system tells none.
PyObject* engine_describe(PyObject* /*self*/, PyObject* descriptor) {
    const int fd = PyObject_AsFileDescriptor(descriptor);
    if (fd < 0) {
        return nullptr;
    }
#ifndef STATX_DIOALIGN
    constexpr unsigned STATX_DIOALIGN = 0x2000;
#endif
    struct statx status = {};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_DIOALIGN,
                &status) != 0) {
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    // stx_dio_mem_align and stx_dio_offset_align (Linux 6.1) come after stx_mnt_id.
    const auto* alignments =
        reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const char*>(&status) + 0x98);
    const bool told = (status.stx_mask & STATX_DIOALIGN) != 0;
    return Py_BuildValue(
        "iLiII", static_cast<int>(status.stx_mode), static_cast<long long>(status.stx_size),
        static_cast<int>(status.stx_blksize), told ? alignments[0] : 0U, told ? alignments[1] : 0U);
}

// ---- completions ----------------------------------------------------------------------------------

PyObject* engine_process(PyObject* self, PyObject* /*unused*/) {
    FileEngineObject* engine = self_of(self);
    if (engine->io != nullptr) {
        engine->io->process();
    }
    if (engine->raised != nullptr) {
        raise_exception(Ref(std::exchange(engine->raised, nullptr)));
        return nullptr;
    }
    Py_RETURN_NONE;
}

PyObject* engine_fileno(PyObject* self, PyObject* /*unused*/) {
    const FileEngineObject* engine = self_of(self);
    return check_open(self_of(self)) ? PyLong_FromLong(engine->io->descriptor()) : nullptr;
}

PyObject* engine_shutdown(PyObject* self, PyObject* /*unused*/) {
    close_file_engine(self_of(self));
    Py_RETURN_NONE;
}

PyObject* get_closed(PyObject* self, void* /*unused*/) {
    return PyBool_FromLong(self_of(self)->io == nullptr);
}

PyObject* get_in_flight(PyObject* self, void* /*unused*/) {
    return PyLong_FromSize_t(self_of(self)->in_flight_count);
}

// ---- the object -----------------------------------------------------------------------------------

/// A new engine that nothing watches yet; null with an exception set.
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
    engine->in_flight = nullptr;
    engine->spare = nullptr;
    engine->dirty = nullptr;
    engine->in_flight_count = 0;
    engine->held_count = 0;
    engine->spare_count = 0;
    engine->turn_credit = FileEngineObject::turn_bytes;
    engine->closing = false;
    PyObject_GC_Track(as_object(engine));
    try {
        engine->dirty = new DirtyRoom;
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
    delete engine->dirty;
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
    return PyUnicode_FromString(self_of(self)->reason->c_str());
}

PyMethodDef engine_methods[] = {
    {"open", as_function(&engine_open), METH_FASTCALL, "open(path, flags, mode=0o666) -> int"},
    {"close", as_function(&engine_close), METH_FASTCALL,
     "close(fd, at_once=False): close a descriptor once nothing uses it."},
    {"abandon", &engine_abandon, METH_O, "Close a descriptor without anybody waiting."},
    {"read", as_function(&engine_read), METH_FASTCALL,
     "read(fd, size, offset, alignment=1) -> bytes; less than size at the end of the file only."},
    {"read_into", as_function(&engine_read_into), METH_FASTCALL,
     "read_into(fd, buffer, offset, alignment=1) -> int"},
    {"write", as_function(&engine_write), METH_FASTCALL,
     "write(fd, data, offset, alignment=1, cached=False) -> int: write all of it."},
    {"fsync", as_function(&engine_on_descriptor<fsync_call>), METH_FASTCALL, "fsync(fd)"},
    {"fdatasync", as_function(&engine_on_descriptor<fdatasync_call>), METH_FASTCALL,
     "fdatasync(fd)"},
    {"truncate", as_function(&engine_on_descriptor<truncate_call>), METH_FASTCALL,
     "truncate(fd, length)"},
    {"read_file", &engine_on_path<read_file_call>, METH_O, "read_file(path) -> bytes"},
    {"stat", as_function(&engine_stat), METH_FASTCALL,
     "stat(path_or_fd, follow_symlinks=True) -> os.stat_result"},
    {"rename", as_function(&engine_on_two_paths<rename_call>), METH_FASTCALL,
     "rename(source, target)"},
    {"replace", as_function(&engine_on_two_paths<rename_call>), METH_FASTCALL,
     "replace(source, target)"},
    {"link", as_function(&engine_on_two_paths<link_call>), METH_FASTCALL, "link(source, target)"},
    {"unlink", &engine_on_path<unlink_call>, METH_O, "unlink(path)"},
    {"rmdir", &engine_on_path<rmdir_call>, METH_O, "rmdir(path)"},
    {"mkdir", as_function(&engine_mkdir), METH_FASTCALL, "mkdir(path, mode=0o777)"},
    {"copy_range", as_function(&engine_copy_range), METH_FASTCALL,
     "copy_range(source_fd, target_fd, offset, length) -> int"},
    {"call", &engine_call, METH_O, "Call a function on a worker thread; returns its result."},
    {"describe", &engine_describe, METH_O,
     "describe(fd) -> (mode, size, block size, memory alignment, offset alignment)"},
    {"fileno", &engine_fileno, METH_NOARGS, "What is readable when `process` has work to do."},
    {"process", &engine_process, METH_NOARGS, "Take in completions."},
    {"shutdown", &engine_shutdown, METH_NOARGS, "Wait for what is in flight, and end."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef engine_attributes[] = {
    {"name", &get_name, nullptr, "'uring' or 'threads'.", nullptr},
    {"reason", &get_reason, nullptr, "Why it is this one, in one line.", nullptr},
    {"closed", &get_closed, nullptr, nullptr, nullptr},
    {"in_flight", &get_in_flight, nullptr, "How many operations it works on.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot engine_slots[] = {
    {Py_tp_doc, const_cast<char*>("FileEngine(loop, later, checkpoint=None, wait=None)\n--\n\n"
                                  "The file engine of one running loop.")},
    {Py_tp_new, reinterpret_cast<void*>(&engine_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&engine_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(&engine_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&engine_clear)},
    {Py_tp_methods, engine_methods},
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

/// Waits for the kernel's last word on all that is in flight.
void drain(FileEngineObject* engine) noexcept {
    for (FileOperationObject* operation = engine->in_flight; operation != nullptr;
         operation = operation->next) {
        if (operation->call->may_never_end) {
            engine->io->cancel(operation->request);
        }
    }
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
