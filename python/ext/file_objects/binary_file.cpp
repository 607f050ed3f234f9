// The type of binary files, and what their methods do at once.

#include "file_objects/binary_buffer.hpp"
#include "file_objects/file_classes.hpp"
#include "file_objects/file_types.hpp"
#include "file_objects/file_waits.hpp"
#include "file_objects/positioned_transfers.hpp"
#include "file_objects/seeking.hpp"
#include "file_objects/truncation.hpp"
#include "files/file_submission.hpp"

#include "awaitable/ready_value.hpp"
#include "shared/cached_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include <structmember.h>
#include <unistd.h>

namespace penstock::python {

namespace {

BinaryFileObject* self_of(PyObject* object) noexcept {
    return reinterpret_cast<BinaryFileObject*>(object);
}

// ---- attempts
// -------------------------------------------------------------------------------------

AtOnce attempt_read(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    if (size == -2 || !is_readable(file)) {
        return AtOnce::slow;
    }
    if (size < 0) {
        return read_rest_from_cache(file, max_cached_file - 1, result);
    }
    std::string_view data = buffered(file);
    if (!suffices(file, static_cast<std::size_t>(size))) {
        if (data.empty() && size >= file->buffer_size) {
            return read_past_buffer(file, size, result);
        }
        if (size >= file->buffer_size || !fill_from_cache(file, size)) {
            return AtOnce::slow;
        }
        data = buffered(file);
    }
    return at_once_of(take_buffered(file, data.substr(0, static_cast<std::size_t>(size))), result);
}

AtOnce read_line(BinaryFileObject* file, PyObject** result) noexcept {
    if (!is_readable(file)) {
        return AtOnce::slow;
    }
    std::string_view data = buffered(file);
    std::size_t size = line_size(data);
    if (size == 0) {
        if (!fill_from_cache(file, 0)) {
            return AtOnce::slow;
        }
        data = buffered(file);
        size = line_size(data);
        if (size == 0) {
            // The last line has no end. A longer one than is read ahead takes another way.
            if (data.size() >= static_cast<std::size_t>(file->buffer_size)) {
                return AtOnce::slow;
            }
            size = data.size();
        }
    }
    return at_once_of(take_buffered(file, data.substr(0, size)), result);
}

/// With at most one request, and with none after a read-ahead.
AtOnce attempt_read1(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    const Py_ssize_t size = size_argument(given.first);
    if (size == -2 || given.first == Py_None || !is_readable(file)) {
        return AtOnce::slow;
    }
    std::string_view data = buffered(file);
    if (data.empty() && size != 0) {
        if (!fill_from_cache(file, std::max<Py_ssize_t>(size, 0))) {
            return AtOnce::slow;
        }
        data = buffered(file);
    }
    const std::size_t most = size < 0 ? data.size() : static_cast<std::size_t>(size);
    return at_once_of(take_buffered(file, data.substr(0, most)), result);
}

AtOnce attempt_readline(FileObject* self, CallArguments given, PyObject** result) {
    return size_argument(given.first) == -1 ? read_line(binary_of(self), result) : AtOnce::slow;
}

AtOnce attempt_next(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    const AtOnce outcome = read_line(binary_of(self), result);
    return outcome == AtOnce::done ? end_iteration_at_nothing(result) : outcome;
}

AtOnce attempt_write(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (file->fd < 0 || file->writable == 0 || !PyBytes_CheckExact(given.first)) {
        return AtOnce::slow;
    }
    const AtOnce outcome = write_at_once(file, given.first);
    return outcome == AtOnce::done
               ? at_once_of(PyLong_FromSsize_t(PyBytes_GET_SIZE(given.first)), result)
               : outcome;
}

AtOnce attempt_flush(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (file->fd < 0 || !sees_written(file)) {
        return AtOnce::slow;
    }
    *result = Py_NewRef(Py_None);
    return AtOnce::done;
}

AtOnce attempt_tell(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    const BinaryFileObject* file = binary_of(self);
    if (file->fd < 0 || file->seekable == 0 || has_open_position(file)) {
        return AtOnce::slow;
    }
    return at_once_of(PyLong_FromLongLong(file->position), result);
}

AtOnce attempt_seek(FileObject* self, CallArguments given, PyObject** result) {
    SeekTarget target = {};
    long long position = 0;
    if (!read_target(given, target)) {
        return AtOnce::slow;
    }
    const AtOnce moved = move_position(binary_of(self), target, position);
    return moved == AtOnce::done ? at_once_of(PyLong_FromLongLong(position), result) : moved;
}

AtOnce attempt_readinto(FileObject* self, CallArguments given, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (given.first == nullptr || !is_readable(file)) {
        return AtOnce::slow;
    }
    Py_buffer buffer;
    if (PyObject_GetBuffer(given.first, &buffer, PyBUF_WRITABLE) != 0) {
        PyErr_Clear();
        return AtOnce::slow;
    }
    const Py_ssize_t count = fill_target(file, static_cast<char*>(buffer.buf), buffer.len);
    PyBuffer_Release(&buffer);
    if (count < 0) {
        return AtOnce::slow;
    }
    file->position += count;
    return at_once_of(PyLong_FromSsize_t(count), result);
}

AtOnce attempt_peek(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    if (!is_readable(file)) {
        return AtOnce::slow;
    }
    std::string_view data = buffered(file);
    if (data.empty()) {
        if (!fill_from_cache(file, static_cast<Py_ssize_t>(file->buffer_size))) {
            return AtOnce::slow;
        }
        data = buffered(file);
    }
    if (file->position == file->ahead_at) {
        *result = Py_NewRef(file->ahead);
        return AtOnce::done;
    }
    return at_once_of(PyBytes_FromStringAndSize(data.data(), static_cast<Py_ssize_t>(data.size())),
                      result);
}

/// Closes a local file to which nothing was written, so that closing has nothing to wait for.
AtOnce attempt_close(FileObject* self, CallArguments /*unused*/, PyObject** result) {
    BinaryFileObject* file = binary_of(self);
    FileEngineObject* engine = direct_engine(file);
    if (file->fd < 0 || engine == nullptr || file->writable != 0 || file->local == 0 ||
        file->owns_fd == 0 || file->unwritten_size != 0 || is_in_use(engine, file->fd)) {
        return AtOnce::slow;
    }
    const int fd = std::exchange(file->fd, -1);
    drop_read_ahead(file);
    engine->slice_credit -= 4096;
    if (::close(fd) != 0 && errno != EINTR) {
        PyErr_SetFromErrno(PyExc_OSError);
        return AtOnce::failed;
    }
    *result = Py_NewRef(Py_None);
    return AtOnce::done;
}

// ---- methods
// --------------------------------------------------------------------------------------

const FileMethod read_method = {
    .name = "read",
    .qualified_name = "BinaryFile.read",
    .attempt = &attempt_read,
    .slow = &ModuleState::name_read_in_turn,
    .wait = &wait_for_read,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod read1_method = {
    .name = "read1",
    .qualified_name = "BinaryFile.read1",
    .attempt = &attempt_read1,
    .slow = &ModuleState::name_read1_in_turn,
    .wait = &wait_for_read1,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod readline_method = {
    .name = "readline",
    .qualified_name = "BinaryFile.readline",
    .attempt = &attempt_readline,
    .slow = &ModuleState::name_readline_in_turn,
    .wait = &wait_for_line,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod next_method = {
    .name = "__anext__",
    .qualified_name = "BinaryFile.__anext__",
    .attempt = &attempt_next,
    .slow = &ModuleState::name_next_line_in_turn,
    .arguments = 0,
    .wait = &wait_for_next_line,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod write_method = {
    .name = "write",
    .qualified_name = "BinaryFile.write",
    .attempt = &attempt_write,
    .slow = &ModuleState::name_write_in_turn,
    .wait = &wait_for_write,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod flush_method = {
    .name = "flush",
    .qualified_name = "BinaryFile.flush",
    .attempt = &attempt_flush,
    .slow = &ModuleState::name_flush_in_turn,
    .arguments = 0,
    .wait = &wait_for_flush,
};

const FileMethod tell_method = {
    .name = "tell",
    .qualified_name = "BinaryFile.tell",
    .attempt = &attempt_tell,
    .slow = &ModuleState::name_tell_in_turn,
    .arguments = 0,
    .wait = &wait_for_tell,
};

const FileMethod seek_method = {
    .name = "seek",
    .qualified_name = "BinaryFile.seek",
    .attempt = &attempt_seek,
    .slow = &ModuleState::name_seek_in_turn,
    .arguments = 2,
    .wait = &wait_for_seek,
};

const FileMethod readinto_method = {
    .name = "readinto",
    .qualified_name = "BinaryFile.readinto",
    .attempt = &attempt_readinto,
    .slow = &ModuleState::name_readinto_in_turn,
    .wait = &wait_for_readinto,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod peek_method = {
    .name = "peek",
    .qualified_name = "BinaryFile.peek",
    .attempt = &attempt_peek,
    .slow = &ModuleState::name_peek_in_turn,
    .arguments = 0,
    .wait = &wait_for_peek,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod truncate_method = {
    .name = "truncate",
    .qualified_name = "BinaryFile.truncate",
    .attempt = &attempt_truncate,
    .slow = &ModuleState::name_truncate_in_turn,
    .wait = &wait_for_truncate,
    .most_waits = 2, // the first for what was buffered
};

const FileMethod close_method = {
    .name = "close",
    .qualified_name = "BinaryFile.close",
    .attempt = &attempt_close,
    .slow = &ModuleState::name_close_in_order,
    .takes_turn = false,
    .arguments = 0,
};

constexpr const char* size_name = "size";

template <const FileMethod& method, const char* const& keyword>
PyObject* call_with_option(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                           PyObject* keywords) {
    return call_file_method(file_of(self), method, keyword, arguments, count, keywords);
}

template <const FileMethod& method> PyObject* call_without(PyObject* self, PyObject* /*unused*/) {
    return make_file_step(file_of(self), method);
}

PyObject* call_write(PyObject* self, PyObject* data) {
    return make_file_step(file_of(self), write_method, {data});
}

/// This method does not take None for a size, so a call without a size passes -1.
PyObject* call_read1(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* keywords) {
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    if (count + named != 0) {
        return call_file_method(file_of(self), read1_method, size_name, arguments, count, keywords);
    }
    const Ref all(PyLong_FromLong(-1));
    return all ? make_file_step(file_of(self), read1_method, {all.get()}) : nullptr;
}

PyObject* call_readinto(PyObject* self, PyObject* buffer) {
    return make_file_step(file_of(self), readinto_method, {buffer});
}

PyObject* seek(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    return call_seek(self, seek_method, arguments, count, keywords);
}

/// A buffered line needs no coroutine, and not the turn, if nobody has it.
PyObject* next_line(PyObject* self) {
    BinaryFileObject* file = self_of(self);
    bool yields = false;
    if (!file->base.turn_taken && file->fd >= 0) {
        const std::string_view data = buffered(file);
        if (const std::size_t size = line_size(data)) {
            yields = must_yield(&file->base);
            if (!yields) {
                return make_ready_value(file->base.state,
                                        take_buffered(file, data.substr(0, size)));
            }
        }
    }
    return make_file_step(&file->base, next_method, {}, yields);
}

// ---- the object
// -----------------------------------------------------------------------------------

PyObject* get_backend(PyObject* self, void* /*unused*/) {
    PyObject* backend = self_of(self)->backend;
    return Py_NewRef(backend != nullptr ? backend : Py_None);
}

int set_backend(PyObject* self, PyObject* value, void* /*unused*/) {
    BinaryFileObject* file = self_of(self);
    const bool native = value != nullptr && Py_IS_TYPE(value, file->base.state->file_engine_type);
    file->engine = native ? reinterpret_cast<FileEngineObject*>(value) : nullptr;
    Py_XSETREF(file->backend, Py_XNewRef(value));
    return 0;
}

PyObject* binary_new(PyTypeObject* type, PyObject* /*arguments*/, PyObject* /*keywords*/) {
    ModuleState* state = state_of(type);
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) {
        return nullptr;
    }
    BinaryFileObject* file = self_of(self);
    file->base.state = state;
    file->base.binary = file;
    file->ahead = Py_NewRef(state->empty_bytes);
    file->alignment = 1;
    file->fd = -1;
    return self;
}

/// Reports and closes a file that the program has not closed.
void binary_finalize(PyObject* self) {
    if (self_of(self)->fd < 0) {
        return;
    }
    Ref exception = take_exception();
    if (!Ref(PyObject_CallMethodNoArgs(self, self_of(self)->base.state->name_report_unclosed))) {
        PyErr_WriteUnraisable(self);
    }
    if (exception) {
        raise_exception(std::move(exception));
    }
}

int binary_traverse(PyObject* self, visitproc visit, void* arg) {
    const BinaryFileObject* file = self_of(self);
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(file->base.waiting);
    Py_VISIT(file->backend);
    Py_VISIT(file->name);
    Py_VISIT(file->mode);
    Py_VISIT(file->current);
    Py_VISIT(file->ahead);
    Py_VISIT(file->unwritten);
    return 0;
}

int binary_clear(PyObject* self) {
    BinaryFileObject* file = self_of(self);
    file->engine = nullptr;
    Py_CLEAR(file->base.waiting);
    Py_CLEAR(file->backend);
    Py_CLEAR(file->name);
    Py_CLEAR(file->mode);
    Py_CLEAR(file->current);
    Py_CLEAR(file->ahead);
    Py_CLEAR(file->unwritten);
    return 0;
}

void binary_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (self_of(self)->base.weak_references != nullptr) {
        PyObject_ClearWeakRefs(self);
    }
    binary_clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef binary_methods[] = {
    {"read", as_function(&call_with_option<read_method, size_name>), METH_FASTCALL | METH_KEYWORDS,
     "read($self, size=-1)\n--\n\n"
     "Read ``size`` bytes, or the rest of the file.\n\n"
     "The result is shorter only at the end of the file, and empty there."},
    {"read1", as_function(&call_read1), METH_FASTCALL | METH_KEYWORDS,
     "read1($self, size=-1)\n--\n\n"
     "Read up to ``size`` bytes with at most one request; with none after a read-ahead."},
    {"readline", as_function(&call_with_option<readline_method, size_name>),
     METH_FASTCALL | METH_KEYWORDS,
     "readline($self, size=-1)\n--\n\n"
     "Read a line with its end, at most ``size`` long; empty at the end of the file.\n\n"
     "Lines that were read ahead are returned without a system call."},
    {"write", &call_write, METH_O,
     "write($self, data, /)\n--\n\n"
     "Write all of ``data``; returns its length.\n\n"
     "Buffered data are in the file after ``flush`` or ``close``."},
    {"flush", &call_without<flush_method>, METH_NOARGS,
     "flush($self)\n--\n\nPass the buffered data to the kernel."},
    {"truncate", as_function(&call_with_option<truncate_method, size_name>),
     METH_FASTCALL | METH_KEYWORDS,
     "truncate($self, size=None)\n--\n\n"
     "Make the file ``size`` bytes long, by default as long as the position; returns the size.\n\n"
     "The position does not change. OSError if ``size`` is negative, or the kernel refuses it."},
    {"tell", &call_without<tell_method>, METH_NOARGS, "tell($self)\n--\n\nReturn the position."},
    {"seek", as_function(&seek), METH_FASTCALL | METH_KEYWORDS,
     "seek($self, offset, whence=0)\n--\n\n"
     "Move the position, relative to the beginning, to itself or to the end; returns it."},
    {"readinto", &call_readinto, METH_O,
     "readinto($self, buffer, /)\n--\n\n"
     "Read into a buffer until it is full or the file ends; returns the number of bytes.\n\n"
     "Large reads fill the buffer directly. It must not be used meanwhile. After a cancelled\n"
     "await it must not be used until the file's next call has ended."},
    {"peek", as_function(&call_with_option<peek_method, size_name>), METH_FASTCALL | METH_KEYWORDS,
     "peek($self, size=0)\n--\n\n"
     "Return the buffered data, reading once if there are none; the position stays."},
    {"pread", as_function(&call_pread), METH_FASTCALL | METH_KEYWORDS, pread_doc},
    {"pread_many", as_function(&call_pread_many), METH_FASTCALL | METH_KEYWORDS, pread_many_doc},
    {"pwrite", as_function(&call_pwrite), METH_FASTCALL | METH_KEYWORDS, pwrite_doc},
    {"close", &call_without<close_method>, METH_NOARGS,
     "close($self)\n--\n\n"
     "Flush and close; waits for the operations in flight. Does nothing the second time.\n\n"
     "The descriptor is closed in any case. If flushing fails, the error is raised. If the await\n"
     "is cancelled, the buffered data are still written."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef binary_attributes[] = {
    {"_backend", &get_backend, &set_backend, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

#define PENSTOCK_MEMBER(name, type, member)                                                        \
    {"_" name, type, offsetof(BinaryFileObject, member), 0, nullptr}

PyMemberDef binary_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FileObject, weak_references), READONLY, nullptr},
    {"_turn_taken", T_BOOL, offsetof(FileObject, turn_taken), 0, nullptr},
    {"_turn_waiting", T_OBJECT, offsetof(FileObject, waiting), 0, nullptr},
    PENSTOCK_MEMBER("name", T_OBJECT, name),
    PENSTOCK_MEMBER("mode", T_OBJECT, mode),
    PENSTOCK_MEMBER("current", T_OBJECT, current),
    PENSTOCK_MEMBER("ahead", T_OBJECT, ahead),
    PENSTOCK_MEMBER("unwritten", T_OBJECT, unwritten),
    PENSTOCK_MEMBER("position", T_LONGLONG, position),
    PENSTOCK_MEMBER("ahead_at", T_LONGLONG, ahead_at),
    PENSTOCK_MEMBER("next_read_ahead", T_LONGLONG, next_read_ahead),
    PENSTOCK_MEMBER("unwritten_at", T_LONGLONG, unwritten_at),
    PENSTOCK_MEMBER("unwritten_size", T_LONGLONG, unwritten_size),
    PENSTOCK_MEMBER("buffer_size", T_LONGLONG, buffer_size),
    PENSTOCK_MEMBER("alignment", T_LONGLONG, alignment),
    PENSTOCK_MEMBER("known_size", T_LONGLONG, known_size),
    PENSTOCK_MEMBER("fd", T_INT, fd),
    PENSTOCK_MEMBER("readable", T_BOOL, readable),
    PENSTOCK_MEMBER("writable", T_BOOL, writable),
    PENSTOCK_MEMBER("appending", T_BOOL, appending),
    PENSTOCK_MEMBER("owns_fd", T_BOOL, owns_fd),
    PENSTOCK_MEMBER("regular", T_BOOL, regular),
    PENSTOCK_MEMBER("seekable", T_BOOL, seekable),
    PENSTOCK_MEMBER("cached", T_BOOL, cached),
    PENSTOCK_MEMBER("plain", T_BOOL, plain),
    PENSTOCK_MEMBER("writing_out", T_BOOL, writing_out),
    {nullptr, 0, 0, 0, nullptr},
};

#undef PENSTOCK_MEMBER

PyType_Slot binary_slots[] = {
    {Py_tp_doc, const_cast<char*>("The native part of penstock.files.BinaryFile.")},
    {Py_tp_new, reinterpret_cast<void*>(&binary_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(&binary_dealloc)},
    {Py_tp_finalize, reinterpret_cast<void*>(&binary_finalize)},
    {Py_tp_traverse, reinterpret_cast<void*>(&binary_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(&binary_clear)},
    {Py_tp_methods, binary_methods},
    {Py_tp_members, binary_members},
    {Py_tp_getset, binary_attributes},
    {Py_am_anext, reinterpret_cast<void*>(&next_line)},
    {0, nullptr},
};

PyType_Spec binary_spec = {
    .name = "penstock._core.BinaryFileCore",
    .basicsize = sizeof(BinaryFileObject),
    .itemsize = 0,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE,
    .slots = binary_slots,
};

} // namespace

PyObject* make_peek(BinaryFileObject* file) noexcept {
    return make_file_step(&file->base, peek_method);
}

PyObject* make_flush(BinaryFileObject* file) noexcept {
    return make_file_step(&file->base, flush_method);
}

PyObject* make_binary_file(ModuleState* state, const OpenedFile& opened) noexcept {
    auto* type = reinterpret_cast<PyTypeObject*>(state->binary_file_class);
    PyObject* self = binary_new(type, nullptr, nullptr);
    if (self == nullptr) {
        return nullptr;
    }
    BinaryFileObject* file = self_of(self);
    file->engine = opened.engine;
    file->backend = Py_NewRef(as_object(opened.engine));
    file->name = Py_NewRef(opened.name);
    file->mode = Py_NewRef(opened.mode);
    file->buffer_size = std::max(state->file_buffer_size, opened.block_size);
    file->next_read_ahead = file->buffer_size;
    file->known_size = opened.size;
    file->fd = opened.fd;
    file->readable = 1;
    file->owns_fd = 1;
    file->regular = 1;
    file->seekable = 1;
    file->cached = 1;
    file->local = 1;
    file->plain = 1;
    return self;
}

bool add_binary_file_type(PyObject* module, ModuleState* state) {
    state->binary_file_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &binary_spec, nullptr));
    return state->binary_file_type != nullptr &&
           PyModule_AddType(module, state->binary_file_type) == 0;
}

} // namespace penstock::python
