#pragma once

#include "awaitable/native_awaitable.hpp"
#include "file_objects/file_object.hpp"

namespace penstock::python {

/// The outcome of an attempt to do a method's work at once.
enum class AtOnce : unsigned char {
    done,   ///< the result is there
    slow,   ///< nothing was changed: the method must wait
    failed, ///< with an exception set
};

/// The arguments of a method's call; null for those that it does not have.
struct CallArguments {
    PyObject* first = nullptr;
    PyObject* second = nullptr;
};

/// What a call waits for where its attempt was slow.
struct FileWait {
    /// Owned. Null: the coroutine method must do it, unless an exception is set.
    PyObject* awaitable = nullptr;

    /// Takes what was awaited, of which `asked` was asked for. `AtOnce::slow`: the call is
    /// attempted again.
    AtOnce (*take)(FileObject* file, CallArguments given, PyObject* answer, long long asked,
                   PyObject** result) = nullptr;

    long long asked = 0;

    /// True: it is an operation that uses the file's position or buffer. The turn does not end
    /// before the engine has released it, see `end_operation`.
    bool in_turn = false;

    /// True: it may bring a part of what the call lacks, which waits again then.
    bool in_parts = false;
};

/// A method of a file that may complete at once.
struct FileMethod {
    const char* name;
    const char* qualified_name;

    /// Does the work from memory or from the page cache. The turn is taken.
    AtOnce (*attempt)(FileObject* file, CallArguments given, PyObject** result);

    /// The name of the coroutine method that does the rest. Where `takes_turn`, it is called with
    /// the turn taken, and gives it up at its end.
    PyObject* ModuleState::* slow;

    /// False: the coroutine method takes the turn itself; there is an attempt only if it is free.
    bool takes_turn = true;

    /// How many arguments the coroutine method takes; None stands for one that is not given.
    unsigned char arguments = 1;

    /// False: the turn is neither needed nor taken; any number of such calls may be in flight.
    bool uses_turn = true;

    /// Begins to wait for what the attempt lacks, where one operation brings it. Null: it is left
    /// to the coroutine method.
    FileWait (*wait)(FileObject* file, CallArguments given) = nullptr;

    /// How often a call waits so before it is left to the coroutine method. Waits for parts are not
    /// counted.
    unsigned char most_waits = 1;
};

/// The call of a file's method: a coroutine, which begins when it is awaited.
///
/// It needs no frame and no iteration of the loop where the attempt succeeds. It then still
/// observes the loop's time slices: it yields to other tasks as an operation of the engine does,
/// with the turn taken, so that the order of calls stays.
struct FileStepObject : NativeAwaitable<FileStepObject> {
    static constexpr bool warns_if_never_awaited = true;
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_file_step;

    enum class Phase : unsigned char {
        begun,
        queued,    ///< waits for the turn, in the delegate
        has_turn,  ///< which this object must give up
        yielding,  ///< to other tasks, in the delegate; has the turn
        waiting,   ///< for the delegate's answer; has the turn
        operating, ///< the same; the delegate is the file's `current` operation
        delegated, ///< to the coroutine method, which has the turn
    };

    PyObject ob_base;
    FileObject* file; ///< owned, as all that follow; null at the end
    const FileMethod* method;
    CallArguments given; ///< the references in it
    PyObject* delegate;  ///< what is awaited instead, or null
    FileWait wait;       ///< of the phases `waiting` and `operating`; its awaitable is `delegate`
    AwaitStage stage;
    Phase phase;
    unsigned char waits; ///< how often it has waited, but for parts
    bool yields_first;   ///< the clock was asked before: other tasks must run

    using NativeAwaitable::of;

    [[nodiscard]] PyObject* owner() const noexcept { return nullptr; }
    [[nodiscard]] const char* name() const noexcept { return method->name; }
    [[nodiscard]] const char* qualified_name() const noexcept { return method->qualified_name; }
    [[nodiscard]] PyObject* awaited() const noexcept { return delegate; }
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept;
    static PyObject* close(PyObject* self, PyObject* unused) noexcept;

private:
    PySendResult attempt(PyObject** result) noexcept;
    PySendResult begin_wait() noexcept;
    PySendResult take_answer(PyObject* answer, PyObject** result) noexcept;
    bool begin_delegate(Phase next, PyObject* coroutine) noexcept;
};

/// A call of `method`; null with an exception set. `yields_first`: other tasks run before it.
PyObject* make_file_step(FileObject* file, const FileMethod& method, CallArguments given = {},
                         bool yields_first = false) noexcept;

/// A call of `method` with one optional argument, which may be passed by the name `keyword`.
PyObject* call_file_method(FileObject* file, const FileMethod& method, const char* keyword,
                           PyObject* const* arguments, Py_ssize_t count,
                           PyObject* keywords) noexcept;

/// Takes a call's arguments for two parameters, of which `required` must be given, each by its
/// place or by its name. False with an exception set; `given` borrows.
bool take_arguments(const char* method, const char* const (&names)[2], Py_ssize_t required,
                    PyObject* const* arguments, Py_ssize_t count, PyObject* keywords,
                    CallArguments& given) noexcept;

/// The size that a method was given: -1 for none, None and -1; -2 for what only Python code can
/// convert or refuse.
Py_ssize_t size_argument(PyObject* argument) noexcept;

/// Whether a call that needs no device may go on without asking for the time, which is asked after
/// `calls_between_checks` of them, and after each system call.
inline bool may_continue(FileObject* file) noexcept {
    if (file->unchecked_calls >= calls_between_checks - 1) {
        return false;
    }
    ++file->unchecked_calls;
    return true;
}

/// Whether the task's time slice is over.
bool is_slice_over(FileObject* file) noexcept;

/// Whether other tasks must run before a call that needs no device.
inline bool must_yield(FileObject* file) noexcept {
    return !may_continue(file) && is_slice_over(file);
}

/// Whether the file's engine can be used without a detour: on Penstock's loop, asyncio's and
/// uvloop. On trio every operation of the engine is a checkpoint.
inline FileEngineObject* direct_engine(const BinaryFileObject* file) noexcept {
    FileEngineObject* engine = file->engine;
    return engine != nullptr && engine->loop != nullptr && engine->io != nullptr && !engine->closing
               ? engine
               : nullptr;
}

} // namespace penstock::python
