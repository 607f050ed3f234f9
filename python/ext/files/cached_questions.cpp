// What is asked about paths, answered from the kernel's caches, without an operation.

#include "files/cached_questions.hpp"

#include "files/file_time_slice.hpp"
#include "files/running_engine.hpp"
#include "files/stat_result.hpp"
#include "files/system_path.hpp"
#include "shared/cached_opening.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string_view>

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace penstock::python {

namespace {

/// Whether lookups, which use the effective user, see what access(2) does, which uses the real one.
bool has_one_identity() noexcept {
    uid_t user = 0;
    uid_t effective_user = 0;
    uid_t saved_user = 0;
    gid_t group = 0;
    gid_t effective_group = 0;
    gid_t saved_group = 0;
    return ::getresuid(&user, &effective_user, &saved_user) == 0 &&
           ::getresgid(&group, &effective_group, &saved_group) == 0 && user == effective_user &&
           group == effective_group;
}

constexpr long faccessat2_number = 439;

/// 0 or an errno; EAGAIN if it would have to wait.
int access_from_cache(const char* path, int mode) noexcept {
    if (!has_one_identity()) {
        return EAGAIN;
    }
    const OwnedDescriptor found(io::open_from_cache(path, O_PATH | O_CLOEXEC));
    if (found.get() < 0) {
        const int error = -found.get();
        return error == EMFILE || error == ENFILE ? EAGAIN : error;
    }
    if (mode == F_OK) {
        return 0;
    }
    struct statx status = {};
    if (!read_local_status(found.get(), status)) {
        return EAGAIN;
    }
    if (::syscall(faccessat2_number, found.get(), "", mode, AT_EMPTY_PATH) == 0) {
        return 0;
    }
    // Before Linux 5.8, and in some sandboxes, only access(2) can say.
    return errno == EACCES || errno == EROFS ? errno : EAGAIN;
}

/// What it takes of the loop's time slice, in bytes that could be copied meanwhile: three system
/// calls.
constexpr std::int64_t cost_of_question = 8192;

/// Whether a question may be answered now. If not, the operation that the caller makes instead
/// finds that its task should yield.
bool may_answer(FileEngineObject* engine) noexcept {
    if (!should_yield(engine, cost_of_question)) {
        return true;
    }
    engine->slice_credit = 0;
    return false;
}

PyObject* none_unless_raised() noexcept {
    return PyErr_Occurred() == nullptr ? Py_NewRef(Py_None) : nullptr;
}

/// False, with an exception set, for another number of arguments.
bool check_count(Py_ssize_t count, Py_ssize_t expected) noexcept {
    if (count == expected) {
        return true;
    }
    PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", expected, count);
    return false;
}

/// Returns 0 if there is no such file, otherwise what `answer` says of the file: -1 if it would
/// have to wait. -1 also for other errors, for a descriptor, and with an exception set.
template <typename Answer>
int ask_cache(PyObject* self, PyObject* asked, PyObject* follow_symlinks, Answer answer) noexcept {
    auto* engine = reinterpret_cast<FileEngineObject*>(self);
    if (PyLong_Check(asked)) {
        return -1;
    }
    const int follows = PyObject_IsTrue(follow_symlinks);
    if (follows < 0) {
        return -1;
    }
    const SystemPath path(asked);
    if (!path) {
        return -1;
    }
    // On trio every question is a checkpoint.
    if (!check_open(engine) || engine->loop == nullptr || !may_answer(engine)) {
        return -1;
    }
    const int follow = follows != 0 ? 0 : O_NOFOLLOW;
    const OwnedDescriptor found(io::open_from_cache(path.text(), O_PATH | O_CLOEXEC | follow));
    if (found.get() < 0) {
        return found.get() == -ENOENT || found.get() == -ENOTDIR ? 0 : -1;
    }
    return answer(found);
}

/// The arguments are (path, follow_symlinks).
PyObject* status_of(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept {
    if (!check_count(count, 2)) {
        return nullptr;
    }
    struct statx status = {};
    const int found = ask_cache(self, values[0], values[1], [&](const OwnedDescriptor& file) {
        return read_local_status(file.get(), status) ? 1 : -1;
    });
    if (found > 0) {
        return make_stat_result(reinterpret_cast<FileEngineObject*>(self)->state, status);
    }
    return none_unless_raised();
}

/// The mode, or 0 without a file; what `ask_cache` says otherwise.
int ask_mode(PyObject* self, PyObject* path, PyObject* follow_symlinks) noexcept {
    return ask_cache(self, path, follow_symlinks, [](const OwnedDescriptor& found) {
        struct statx status = {};
        return read_local_status(found.get(), status) ? static_cast<int>(status.stx_mode) : -1;
    });
}

/// The arguments are (path, follow_symlinks).
PyObject* mode_of(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept {
    if (!check_count(count, 2)) {
        return nullptr;
    }
    const int mode = ask_mode(self, values[0], values[1]);
    return mode >= 0 ? PyLong_FromLong(mode) : none_unless_raised();
}

/// The argument is a path; `kind` is one of S_IFMT.
template <int kind, bool follow_symlinks>
PyObject* is_of_kind(PyObject* self, PyObject* const* values) noexcept {
    const int mode = ask_mode(self, values[0], follow_symlinks ? Py_True : Py_False);
    return mode >= 0 ? PyBool_FromLong((mode & S_IFMT) == kind ? 1 : 0) : none_unless_raised();
}

/// The arguments are (path, follow_symlinks).
PyObject* exists(PyObject* self, PyObject* const* values, Py_ssize_t count) noexcept {
    if (!check_count(count, 2)) {
        return nullptr;
    }
    const int answer =
        ask_cache(self, values[0], values[1], [](const OwnedDescriptor& /*unused*/) { return 1; });
    return answer >= 0 ? PyBool_FromLong(answer) : none_unless_raised();
}

/// The arguments are (path, mode).
PyObject* access(PyObject* self, PyObject* const* values) noexcept {
    auto* engine = reinterpret_cast<FileEngineObject*>(self);
    if (PyLong_Check(values[0])) {
        Py_RETURN_NONE; // a descriptor
    }
    if (!check_open(engine)) {
        return nullptr;
    }
    return may_answer(engine) ? engine_access_cached(self, values, 2) : Py_NewRef(Py_None);
}

/// A question whose only argument is the path, of what links lead to.
template <PyObject* (*question)(PyObject*, PyObject* const*, Py_ssize_t) noexcept>
PyObject* of_target(PyObject* self, PyObject* const* values) noexcept {
    PyObject* const all[] = {values[0], Py_True};
    return question(self, all, 2);
}

constexpr CachedQuestion questions[] = {
    {.name = "access", .arguments = 2, .ask = &access},
    {.name = "exists", .arguments = 1, .ask = &of_target<&exists>},
    {.name = "isdir", .arguments = 1, .ask = &is_of_kind<S_IFDIR, true>},
    {.name = "isfile", .arguments = 1, .ask = &is_of_kind<S_IFREG, true>},
    {.name = "islink", .arguments = 1, .ask = &is_of_kind<S_IFLNK, false>},
    {.name = "stat", .arguments = 1, .ask = &of_target<&status_of>},
};

/// A question to the running loop's engine. None also where that must be found or made.
template <PyObject* (*question)(PyObject*, PyObject* const*, Py_ssize_t) noexcept>
PyObject* ask_running(PyObject* module, PyObject* const* values, Py_ssize_t count) noexcept {
    const Ref engine = running_engine(state_of_module(module));
    return engine ? question(engine.get(), values, count) : none_unless_raised();
}

/// running_file_engine() -> FileEngine, or None where another one must be found or made
PyObject* running_file_engine(PyObject* module, PyObject* /*unused*/) {
    Ref engine = running_engine(state_of_module(module));
    return engine ? engine.release() : none_unless_raised();
}

PyMethodDef functions[] = {
    {"running_file_engine", &running_file_engine, METH_NOARGS,
     "The engine of the running loop of asyncio, or None if it has none yet."},
    {"exists_now", as_function(&ask_running<&exists>), METH_FASTCALL,
     "exists_now(path, follow_symlinks) -> bool, or None: ask the loop's engine."},
    {"mode_now", as_function(&ask_running<&mode_of>), METH_FASTCALL,
     "mode_now(path, follow_symlinks) -> int, 0 without a file, or None: ask the loop's engine."},
    {"stat_now", as_function(&ask_running<&status_of>), METH_FASTCALL,
     "stat_now(path, follow_symlinks) -> os.stat_result, or None: ask the loop's engine."},
    {nullptr, nullptr, 0, nullptr},
};

} // namespace

PyObject* engine_access_cached(PyObject* /*self*/, PyObject* const* values,
                               Py_ssize_t count) noexcept {
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError, "access_cached() takes 2 arguments, not %zd", count);
    }
    const SystemPath path(values[0]);
    if (!path) {
        return nullptr;
    }
    const long mode = PyLong_AsLong(values[1]);
    if (mode == -1 && PyErr_Occurred() != nullptr) {
        return nullptr;
    }
    const int error = access_from_cache(path.text(), static_cast<int>(mode));
    if (error == EAGAIN) {
        Py_RETURN_NONE;
    }
    return PyBool_FromLong(error == 0 ? 1 : 0);
}

const CachedQuestion* find_cached_question(const char* name) noexcept {
    const auto* found = std::ranges::find_if(questions, [&](const CachedQuestion& question) {
        return std::string_view(question.name) == name;
    });
    return found != std::end(questions) ? found : nullptr;
}

bool add_cached_questions(PyObject* module) {
    return PyModule_AddFunctions(module, functions) == 0;
}

} // namespace penstock::python
