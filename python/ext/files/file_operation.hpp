#pragma once

#include "awaitable/native_awaitable.hpp"
#include "files/file_engine.hpp"
#include "shared/buffer_view.hpp"

#include <cstdint>
#include <memory>

#include <penstock/io/files/file_engine.hpp>
#include <sys/stat.h>

namespace penstock::python {

struct FileOperationObject;

/// The outcome of an attempt to perform an operation at once.
enum class Attempt : unsigned char {
    done,    ///< the operation holds its result or its error
    blocked, ///< the engine must do it
    failed,  ///< with an exception set
};

/// One kind of file operation: what distinguishes it from the others.
struct FileCall {
    const char* name;

    /// Performs it without waiting for a device, if possible. Null: this is never possible.
    Attempt (*attempt)(FileOperationObject* operation) = nullptr;

    /// Fills in the engine's request with the rest of the work after the attempt.
    void (*prepare)(FileOperationObject* operation);

    /// Makes the result; returns null with an exception set. Null: the result is None.
    PyObject* (*value)(FileOperationObject* operation) = nullptr;

    /// Undoes a result that no task takes, such as an open descriptor. Null: nothing to undo.
    void (*discard)(FileOperationObject* operation) = nullptr;

    /// Whether it may wait for something that never happens; see `may_never_end`.
    bool may_never_end = false;

    /// Whether it must be the last operation on its descriptor.
    bool ends_descriptor = false;
};

/// The part of an operation that the engine works on.
struct FileRequest : io::FileOperation {
    FileRequest(OnComplete function, FileOperationObject* operation) noexcept
        : FileOperation(function), owner(operation) {}

    FileOperationObject* owner;
};

/// Data of one kind of operation beside the common fields; destroyed with its buffers.
struct FileExtra {
    FileExtra() = default;
    FileExtra(const FileExtra&) = delete;
    FileExtra& operator=(const FileExtra&) = delete;
    virtual ~FileExtra() = default;
};

/// The awaitable of a file operation: a coroutine, and the future that its task blocks on.
///
/// Nothing happens before it is awaited or `start`ed. An operation that needs no device completes
/// without an iteration of the loop. Otherwise the engine's completion steps the waiting task
/// directly.
///
/// Terms: a task that is cancelled, or closes the operation, *detaches* it and continues at once.
/// The engine is asked to cancel the request (`request_cancel`), which may still *complete*. While
/// it is in flight the engine holds a reference, so the operation lives with its buffers until the
/// kernel has finished with them; then they are *released*. The result of a detached operation is
/// discarded: a descriptor is closed.
struct FileOperationObject : NativeAwaitable<FileOperationObject> {
    static constexpr bool warns_if_never_awaited = true;

    /// The progress of the work; `stage` is the progress of the await.
    enum class Progress : unsigned char {
        not_begun,
        yielded,  ///< yielded to other tasks before its first attempt
        waiting,  ///< in flight
        complete, ///< its result can be taken
        ended,    ///< its task has taken the result, or is detached
    };

    PyObject ob_base;
    FileRequest request;
    const FileCall* call;
    FileEngineObject* engine;                      ///< owned, as all objects that follow
    io::ListHook<FileOperationObject> flight_hook; ///< among those in flight, or those to reuse
    PyObject* subject;                             ///< the path for error messages, or null
    PyObject* other_subject;                       ///< rename's and link's second
    PyObject* path;                                ///< bytes of `subject`
    PyObject* other_path;                          ///< bytes of `other_subject`
    PyObject* target;           ///< the bytes to read into; the data to write; a callable
    PyObject* delegate;         ///< owned; on trio: the coroutine that waits instead
    PyObject* release_callback; ///< see `call_release_callback`; or null
    WaitingTask task;
    BufferView view; ///< the buffer to read into or to write
    FileExtra* extra;
    char* memory; ///< the address to read to or to write from
    std::int64_t size;
    std::int64_t done; ///< of `size`; also of a transfer that has failed, once it is released
    std::int64_t offset;
    std::int64_t result;    ///< of the engine's completion, if it is not an error
    std::int64_t alignment; ///< of memory, offset and size; 1 except with O_DIRECT
    int fd;
    int flags;
    std::uint32_t mode;
    int other_fd; ///< copy_range's target
    int error;    ///< errno
    AwaitStage stage;
    Progress progress;
    bool in_flight;
    bool detached;      ///< no task awaits it any more
    bool value_taken;   ///< its result was taken, or its buffers are released
    bool started;       ///< by start(): a cancelled await does not cancel the request
    bool end_requested; ///< before it has begun: it never does
    bool may_block_briefly;
    bool may_block_indefinitely; ///< opens a file that is not a regular one
    bool close_deferred;         ///< a close that is not yet submitted: others use its descriptor
    bool holds_descriptor;       ///< it is in the engine's list of those that have yielded

    static FileOperationObject* of(io::FileOperation& request) noexcept {
        return static_cast<FileRequest&>(request).owner;
    }

    using NativeAwaitable::of;

    [[nodiscard]] ModuleState* state() const noexcept { return engine->state; }
    [[nodiscard]] PyObject* owner() const noexcept { return as_object(engine); }
    [[nodiscard]] Ref owning_loop() const noexcept {
        return Ref::borrow(engine->loop != nullptr ? engine->loop : Py_None);
    }
    [[nodiscard]] const char* name() const noexcept { return call->name; }
    [[nodiscard]] bool is_done() const noexcept {
        return progress != Progress::waiting || task.cancelled;
    }
    bool wake_soon() noexcept;
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;

    static PyObject* throw_into(PyObject* self, PyObject* const* arguments,
                                Py_ssize_t count) noexcept;
    static PyObject* close(PyObject* self, PyObject* unused) noexcept;
    static PyObject* cancel(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                            PyObject* keywords) noexcept;
    static int tp_clear(PyObject* self) noexcept;
    static void tp_dealloc(PyObject* self) noexcept;
    static std::array<PyMethodDef, 3> own_methods() noexcept;
    static std::array<PyGetSetDef, 2> own_attributes() noexcept;
    static std::array<PyType_Slot, 1> own_slots() noexcept;
};

/// A new operation that has not begun; null with an exception set.
FileOperationObject* make_file_operation(FileEngineObject* engine, const FileCall& call) noexcept;

/// Drops an operation that was not made whole, without a warning that it was never awaited. Returns
/// null; the exception stays raised.
PyObject* refuse_operation(FileOperationObject* operation) noexcept;

/// Raises the operation's errno as OSError with the names of its files.
void raise_file_error(const FileOperationObject* operation) noexcept;

/// Frees an engine's spare operations.
void release_spare_operations(FileEngineObject* engine) noexcept;

// Shared by file_operation.cpp (the object), file_submission.cpp (the engine's side) and
// file_awaitable.cpp (the task's side):

/// Releases the buffers and paths. The operation must not be in flight.
void release_buffers(FileOperationObject* operation) noexcept;

/// Calls the callback of when_released(), once the engine has released the operation: with the
/// result if the operation is detached and no task has taken it, otherwise with None.
void call_release_callback(FileOperationObject* operation) noexcept;

} // namespace penstock::python
