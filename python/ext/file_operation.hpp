#pragma once

#include "buffer_view.hpp"
#include "file_engine.hpp"
#include "waiting_task.hpp"

#include <cstdint>
#include <memory>

#include <penstock/io/file_engine.hpp>
#include <sys/stat.h>

namespace penstock::python {

struct FileOperationObject;

/// How a try to do an operation at once ended.
enum class Attempt : unsigned char {
    done,    ///< its result, or its error, is in the operation
    blocked, ///< the engine must do it
    failed,  ///< with an exception set
};

/// What one kind of file operation differs in from the others.
struct FileCall {
    const char* name;

    /// Does it without waiting for a device, if that is possible; null when it never is.
    Attempt (*attempt)(FileOperationObject* operation) = nullptr;

    /// Fills in the request for the engine: what is left to do after a part was done at once.
    void (*prepare)(FileOperationObject* operation);

    /// The result; null with an exception set. Null: None.
    PyObject* (*value)(FileOperationObject* operation) = nullptr;

    /// Nobody wants the result: gives back what it stands for. Null: nothing.
    void (*discard)(FileOperationObject* operation) = nullptr;

    /// Whether it may wait for something that never happens: see `may_never_end` of an operation.
    bool may_never_end = false;

    /// Whether it must be the last one on its descriptor.
    bool ends_descriptor = false;
};

/// The engine's half of an operation.
struct FileRequest : io::FileOperation {
    FileRequest(OnComplete function, FileOperationObject* operation) noexcept
        : FileOperation(function), owner(operation) {}

    FileOperationObject* owner;
};

/// Work that a kind of operation needs beside the common fields; ends with the operation.
struct FileExtra {
    FileExtra() = default;
    FileExtra(const FileExtra&) = delete;
    FileExtra& operator=(const FileExtra&) = delete;
    virtual ~FileExtra() = default;
};

/// The awaitable of a file operation: a coroutine object in all but its type, so that create_task,
/// gather and wait_for take it; and what its task is given to wait for.
///
/// Nothing happens before it is first awaited or `start`ed, and it can be awaited once. What can be
/// done without waiting for a device completes without an iteration of the loop. For the rest, the
/// engine's completion steps the waiting task directly.
///
/// While the engine works on it the engine holds a reference: a task that is cancelled goes on at
/// once, and the operation with its buffer lives until the kernel's final word. A result that then
/// nobody wants is given back: a descriptor is closed.
struct FileOperationObject {
    enum class Stage : unsigned char {
        created,
        paused,   ///< gave others a turn before its first try
        waiting,  ///< for the engine
        complete, ///< its result is not fetched yet
        finished,
    };

    PyObject ob_base;
    FileRequest request;
    const FileCall* call;
    FileEngineObject* engine;      ///< owned, as all objects that follow
    FileOperationObject* previous; ///< among those in flight
    FileOperationObject* next;     ///< the same, or the next spare one
    PyObject* subject;             ///< the path for error messages, or null
    PyObject* other_subject;       ///< rename's and link's second
    PyObject* path;                ///< bytes of `subject`
    PyObject* other_path;          ///< bytes of `other_subject`
    PyObject* target;              ///< bytes being read into; data being written; a callable
    PyObject* delegate;            ///< on trio: the coroutine that waits
    PyObject*
        settled; ///< called with a result that nobody awaited, or None, once it is not in flight
    WaitingTask task;
    BufferView view; ///< of a buffer that is read into or written
    FileExtra* extra;
    char* memory; ///< where bytes go to or come from
    std::int64_t size;
    std::int64_t done; ///< of `size`
    std::int64_t offset;
    std::int64_t result;    ///< the engine's answer, if it is not an error
    std::int64_t alignment; ///< of memory, offset and size; 1 but for direct transfers
    int fd;
    int flags;
    std::uint32_t mode;
    int other_fd; ///< copy_range's target
    int error;    ///< errno
    Stage stage;
    bool running;
    bool in_flight;
    bool abandoned;   ///< nobody awaits it any more
    bool value_taken; ///< its result was handed out, or what it is made of is gone
    bool started;     ///< by `start`: goes on when its await is cancelled
    bool may_block_briefly;
    bool patient; ///< opens what is no regular file
    bool held;    ///< a closing that waits until nothing else uses its descriptor

    static FileOperationObject* of(io::FileOperation& request) noexcept {
        return static_cast<FileRequest&>(request).owner;
    }

    static FileOperationObject* of(PyObject* object) noexcept {
        return reinterpret_cast<FileOperationObject*>(object);
    }
};

/// A new operation, not yet begun; null with an exception set.
FileOperationObject* make_file_operation(FileEngineObject* engine, const FileCall& call) noexcept;

/// Raises the operation's errno as OSError, with the names of its files.
void raise_file_error(const FileOperationObject* operation) noexcept;

/// Empties an engine's store of reusable operations.
void release_spare_operations(FileEngineObject* engine) noexcept;

// Between file_operation.cpp (the object), file_flight.cpp (the engine's side) and
// file_coroutine.cpp (the task's side):

/// Lets go of the buffers and paths that the engine used, once it is done with them.
void release_buffers(FileOperationObject* operation) noexcept;

/// Ends it for whoever awaited it. The engine, if it still works on it, keeps what it needs.
void finish(FileOperationObject* operation) noexcept;

/// Tells whoever wanted to know that the operation is not in flight any more; and its result, when
/// its task could not be told and nobody has had it yet.
void settle(FileOperationObject* operation) noexcept;

} // namespace penstock::python
