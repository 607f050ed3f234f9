#pragma once

#include "awaitable/native_awaitable.hpp"

#include <cstddef>

namespace penstock::python {

struct ReadOperationObject;

/// The reader of `penstock.open_connection` and `penstock.start_server`: asyncio.StreamReader's
/// interface, fed natively.
struct StreamReaderObject {
    PyObject ob_base;
    PyObject* loop;
    PyObject* transport;          ///< null before set_transport, and where it cannot be paused
    PyObject* exception;          ///< null, or what every read raises
    ReadOperationObject* waiting; ///< owned; the one read that waits for data
    PyObject* weak_references;
    char* memory; ///< from PyMem_Malloc; holds the unread bytes
    std::size_t capacity;
    /// In `memory`; while `borrows`, in the buffer of the running `feed_from_dispatcher`.
    const char* data;
    std::size_t size;
    std::size_t limit;
    bool borrows; ///< `data` is not in `memory`
    bool eof;
    bool paused;
};

/// One read, readexactly, readuntil or readline: a coroutine, and the future that its task blocks
/// on. It completes at once when the data is available. Otherwise the arrival of the data resumes
/// the waiting task directly, without the ready queue.
struct ReadOperationObject : NativeAwaitable<ReadOperationObject> {
    static constexpr PyObject* ModuleState::* spare = &ModuleState::spare_read_operation;

    enum class Kind : unsigned char { some, all, exactly, until, line, next_line };

    PyObject ob_base;
    StreamReaderObject* reader; ///< owned
    PyObject* separators;       ///< tuple of bytes, shortest first; null for a newline
    WaitingTask task;
    Py_ssize_t count;
    std::size_t scanned; ///< bytes at the front in which no separator begins
    Kind kind;
    AwaitStage stage;

    [[nodiscard]] PyObject* owner() const noexcept { return as_object(reader); }
    [[nodiscard]] Ref owning_loop() const noexcept { return Ref::borrow(reader->loop); }
    [[nodiscard]] const char* name() const noexcept;
    [[nodiscard]] bool is_done() const noexcept {
        return stage != AwaitStage::suspended || task.cancelled;
    }
    bool wake_soon() noexcept;
    PySendResult advance(bool first, PyObject* value, PyObject** result) noexcept;
    void release() noexcept;
    int visit(visitproc visit, void* arg) const noexcept;
};

/// Feeds received bytes from the dispatcher, where no task runs: the waiting task runs before this
/// returns. False with an exception set.
bool feed_from_dispatcher(StreamReaderObject* reader, const char* data, std::size_t size) noexcept;

/// The same from anywhere: the waiting task runs in the next iteration.
bool feed_later(StreamReaderObject* reader, const char* data, std::size_t size) noexcept;

// Shared by stream_reader.cpp (the buffer) and stream_read_awaitable.cpp (its reads):

/// A coroutine for one read. Null with an exception set.
PyObject* make_read(StreamReaderObject* reader, ReadOperationObject::Kind kind, Py_ssize_t count,
                    PyObject* separators) noexcept;

/// Whether the waiting operation would complete now.
bool would_complete(ReadOperationObject* operation) noexcept;

/// Steps the waiting task now. False with an exception set.
bool resume(ReadOperationObject* operation) noexcept;

/// Removes the first `count` bytes; may resume a paused transport. False with an exception set.
bool consume(StreamReaderObject* reader, std::size_t count) noexcept;

/// Resumes a paused transport. False with an exception set.
bool resume_transport(StreamReaderObject* reader) noexcept;

inline StreamReaderObject* reader_of(PyObject* object) noexcept {
    return reinterpret_cast<StreamReaderObject*>(object);
}

} // namespace penstock::python
