#pragma once

#include "loop.hpp"
#include "module.hpp"

#include <cstdint>
#include <string>

#include <penstock/io/file_engine.hpp>
#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

struct FileOperationObject;
class DirtyRoom;

/// The file engine of one running loop, as Python sees it.
///
/// On Penstock's loop it belongs to the loop: completions come through the loop's poller, and the
/// loop submits once an iteration. Elsewhere Python has its descriptor watched, calls `process` when
/// it is readable and `close` at the end.
///
/// Belongs to the loop's thread.
struct FileEngineObject {
    PyObject ob_base;
    ModuleState* state;
    io::FileEngine* io;   ///< null once closed
    LoopObject* penstock; ///< borrowed: that loop owns this object; null elsewhere
    PyObject* loop;       ///< owned; the asyncio loop, or null on trio
    PyObject* later;      ///< owned; elsewhere: has a function called in the next iteration
    PyObject* checkpoint; ///< owned; on trio: makes a coroutine that gives others a turn
    PyObject* wait;       ///< owned; on trio: makes a coroutine that waits for an operation
    PyObject* raised;     ///< owned; what must leave `process`
    FileOperationObject* in_flight;
    FileOperationObject* spare;
    DirtyRoom* dirty;
    std::string* reason; ///< why it is this engine
    std::size_t in_flight_count;
    std::size_t held_count; ///< of those, closings that wait for others to end
    unsigned spare_count;
    unsigned deliveries;      ///< completions that are being told of: Python code may run in each
    std::int64_t turn_credit; ///< bytes that may be moved before the clock is looked at
    io::MonotonicTime turn_ends; ///< of the task that runs: see file_turn.hpp
    std::int64_t paused;         ///< tasks that have given way and not gone on yet
    bool closing;

    static constexpr unsigned max_spare = 64;
    static constexpr std::int64_t bytes_between_looks = std::int64_t{64} << 10;
};

/// RuntimeError when the engine is closed.
bool check_open(FileEngineObject* engine) noexcept;

/// The engine of Penstock's loop, made when it is first asked for. Borrowed; null with an exception
/// set.
FileEngineObject* file_engine_of(LoopObject* loop) noexcept;

/// Waits for all operations in flight and ends the engine. Tasks that wait for them are not resumed
/// when their loop is closed.
void close_file_engine(FileEngineObject* engine) noexcept;

/// Of the type: what Python can ask of an engine.
extern PyMethodDef file_engine_methods[];

} // namespace penstock::python
