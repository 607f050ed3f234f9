// Operations on paths: stat, rename, unlink, mkdir. Also calls of Python functions, and yield_now.

#include "files/file_calls.hpp"
#include "files/stat_result.hpp"
#include "shared/cached_opening.hpp"
#include "shared/ended_thread.hpp"

#include <cerrno>
#include <new>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::python {

namespace {

const char* path_of(const FileOperationObject* operation) noexcept {
    return operation->path != nullptr ? PyBytes_AS_STRING(operation->path) : "";
}

void prepare_rename(FileOperationObject* operation) {
    operation->request.to_rename(path_of(operation), PyBytes_AS_STRING(operation->other_path));
}

void prepare_link(FileOperationObject* operation) {
    operation->request.to_link(path_of(operation), PyBytes_AS_STRING(operation->other_path));
}

void prepare_unlink(FileOperationObject* operation) {
    operation->request.to_unlink(path_of(operation));
}

void prepare_rmdir(FileOperationObject* operation) {
    operation->request.to_unlink(path_of(operation), AT_REMOVEDIR);
}

void prepare_mkdir(FileOperationObject* operation) {
    operation->request.to_make_directory(path_of(operation), operation->mode);
}

// ---- status
// ---------------------------------------------------------------------------------------

struct Status : FileExtra {
    struct statx status = {};
};

void prepare_stat(FileOperationObject* operation) {
    auto* result = new Status;
    operation->extra = result;
    operation->request.to_stat(path_of(operation), result->status, operation->flags,
                               STATX_BASIC_STATS, operation->fd >= 0 ? operation->fd : AT_FDCWD);
}

/// What it takes of the loop's time slice, in bytes that could be copied meanwhile: three system
/// calls.
constexpr std::int64_t cost_of_status = 8192;

/// Asks at once if the names are cached and the file system is a local one.
Attempt attempt_stat(FileOperationObject* operation) {
    if (operation->fd >= 0) {
        return Attempt::blocked;
    }
    operation->engine->slice_credit -= cost_of_status;
    const int follow = (operation->flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
    const OwnedDescriptor found(
        io::open_from_cache(path_of(operation), O_PATH | O_CLOEXEC | follow));
    if (found.get() < 0) {
        const int error = -found.get();
        // stat(2) needs no descriptor.
        if (error == EAGAIN || error == EMFILE || error == ENFILE) {
            return Attempt::blocked;
        }
        operation->error = error;
        return Attempt::done;
    }
    auto* result = new (std::nothrow) Status;
    if (result == nullptr || !read_local_status(found.get(), result->status)) {
        delete result;
        return Attempt::blocked;
    }
    operation->extra = result;
    return Attempt::done;
}

PyObject* value_of_stat(FileOperationObject* operation) {
    return make_stat_result(operation->engine->state,
                            static_cast<Status*>(operation->extra)->status);
}

// ---- Python functions
// -----------------------------------------------------------------------------

struct PythonCall : FileExtra {
    PyInterpreterState* interpreter = nullptr;
    PyObject* result = nullptr;
    PyObject* exception = nullptr;

    ~PythonCall() override {
        Py_XDECREF(result);
        Py_XDECREF(exception);
    }
};

std::int64_t run_python(io::FileOperation& request) {
    FileOperationObject* operation = FileOperationObject::of(request);
    auto* call = static_cast<PythonCall*>(operation->extra);
    // Not PyGILState_Ensure, which supports only the main interpreter.
    hang_if_finalizing();
    PyThreadState* thread = PyThreadState_New(call->interpreter);
    if (thread == nullptr) {
        return -ENOMEM;
    }
    PyEval_RestoreThread(thread);
    call->result = PyObject_CallNoArgs(operation->target);
    if (call->result == nullptr) {
        call->exception = take_exception().release();
    }
    PyThreadState_Clear(thread);
    PyThreadState_DeleteCurrent();
    return 0;
}

void prepare_python_call(FileOperationObject* operation) {
    auto* call = new PythonCall;
    operation->extra = call;
    call->interpreter = PyInterpreterState_Get();
    operation->request.to_call(&run_python);
}

PyObject* value_of_python_call(FileOperationObject* operation) {
    auto* call = static_cast<PythonCall*>(operation->extra);
    if (call->exception != nullptr) {
        raise_exception(Ref(std::exchange(call->exception, nullptr)));
        return nullptr;
    }
    return std::exchange(call->result, nullptr);
}

} // namespace

const FileCall stat_call = {
    .name = "stat",
    .attempt = &attempt_stat,
    .prepare = &prepare_stat,
    .value = &value_of_stat,
};

const FileCall rename_call = {.name = "rename", .prepare = &prepare_rename};
const FileCall unlink_call = {.name = "unlink", .prepare = &prepare_unlink};
const FileCall link_call = {.name = "link", .prepare = &prepare_link};
const FileCall mkdir_call = {.name = "mkdir", .prepare = &prepare_mkdir};
const FileCall rmdir_call = {.name = "rmdir", .prepare = &prepare_rmdir};

const FileCall yield_call = {
    .name = "yield_now",
    .attempt = [](FileOperationObject* /*unused*/) { return Attempt::done; },
};

const FileCall python_call = {
    .name = "call",
    .prepare = &prepare_python_call,
    .value = &value_of_python_call,
};

} // namespace penstock::python
