#pragma once

#include "waiting_task.hpp"

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
    char* memory; ///< PyMem; holds what nobody has read yet
    std::size_t capacity;
    const char* data; ///< into `memory`, or into the memory of whoever is feeding right now
    std::size_t size;
    std::size_t limit;
    bool eof;
    bool paused;
};

/// One read, readexactly, readuntil or readline: a native coroutine, and the future that a task
/// waits for. It completes at once when the data is there; otherwise the arrival of the data resumes
/// the waiting task directly, without a turn through the ready queue.
struct ReadOperationObject {
    enum class Kind : unsigned char { some, all, exactly, until, line, next_line };
    enum class State : unsigned char { fresh, waiting, finished };

    PyObject ob_base;
    StreamReaderObject* reader; ///< owned
    PyObject* separators;       ///< tuple of bytes, shortest first; null for a newline
    WaitingTask task;
    Py_ssize_t count;
    std::size_t scanned; ///< bytes at the front that hold no separator's begin
    Kind kind;
    State state;
};

/// Hands received bytes to a reader, from the dispatcher, where no task runs: the task that waits for
/// them runs before this returns. False with an exception set on failure.
bool feed_from_dispatcher(StreamReaderObject* reader, const char* data, std::size_t size) noexcept;

// Between stream_reader.cpp (the buffer) and read_operation.cpp (who waits for it):

/// A coroutine for one read. Null with an exception set.
PyObject* make_read(StreamReaderObject* reader, ReadOperationObject::Kind kind, Py_ssize_t count,
                    PyObject* separators) noexcept;

/// Whether the waiting operation would complete now.
bool would_complete(ReadOperationObject* operation) noexcept;

/// Resumes the waiting task, here and now. False with an exception set.
bool resume(ReadOperationObject* operation) noexcept;

/// Lets the waiting task go on in the next iteration. False with an exception set.
bool schedule_resume(ReadOperationObject* operation) noexcept;

/// Removes the first `count` bytes; may resume a paused transport. False with an exception set.
bool consume(StreamReaderObject* reader, std::size_t count) noexcept;

/// Lets a paused transport go on. False with an exception set.
bool resume_transport(StreamReaderObject* reader) noexcept;

inline StreamReaderObject* reader_of(PyObject* object) noexcept {
    return reinterpret_cast<StreamReaderObject*>(object);
}

} // namespace penstock::python
