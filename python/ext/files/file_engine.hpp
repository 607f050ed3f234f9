#pragma once

#include "core/loop.hpp"
#include "core/module.hpp"

#include <cstdint>
#include <string>

#include <penstock/io/files/file_engine.hpp>
#include <penstock/io/intrusive_list.hpp>
#include <penstock/io/time_slice.hpp>
#include <penstock/io/timer_queue.hpp>

namespace penstock::python {

struct FileOperationObject;
class DirtyPageBudget;

/// Where an operation is linked into its engine's list.
struct FlightHook {
    template <typename Operation> auto& operator()(Operation& operation) const noexcept {
        return operation.flight_hook;
    }
};

using FileOperations = io::IntrusiveList<FileOperationObject, FlightHook{}>;

/// The Python object of one running loop's file engine.
///
/// On Penstock's loop, the loop owns it: completions come through the loop's poller, and the loop
/// submits requests once an iteration. On other loops Python code watches its descriptor, calls
/// `process` when it is readable, and `shutdown` at the end.
///
/// Used only in the loop's thread.
struct FileEngineObject {
    PyObject ob_base;
    ModuleState* state;
    io::FileEngine* io;   ///< null once closed
    LoopObject* penstock; ///< borrowed, the loop that owns this object; null on other loops
    PyObject* loop;       ///< owned; the asyncio loop, or null on trio
    PyObject* later;      ///< owned; on other loops: schedules a function for the next iteration
    PyObject* checkpoint; ///< owned; on trio: makes a coroutine that yields to other tasks
    PyObject* wait;       ///< owned; on trio: makes a coroutine that waits for an operation
    PyObject* raised;     ///< owned; the exception that `process` will raise
    FileOperations in_flight; ///< owns a reference to each
    FileOperations yielded;   ///< those that have yielded before they begin; see `hold_descriptor`
    FileOperationObject* spare;
    DirtyPageBudget* dirty_pages;
    std::string* reason; ///< why this engine was chosen
    std::size_t in_flight_count;
    std::size_t deferred_close_count; ///< of those, closes that wait for other operations
    unsigned spare_count;
    unsigned deliveries;         ///< completion callbacks on the stack, which may run Python code
    std::int64_t slice_credit;   ///< bytes that may be copied before the clock is read
    io::TimeSlice clock_reading; ///< since the last reading
    io::MonotonicTime slice_end; ///< of the running task; see file_time_slice.hpp
    std::int64_t paused;         ///< tasks that have yielded and not yet resumed
    unsigned gathering;          ///< callers that will submit all that they start, at their end
    bool closing;
    bool steps_later; ///< completions are delivered while a task runs

    static constexpr unsigned max_spare = 64;
    static constexpr std::int64_t bytes_between_clock_reads = std::int64_t{64} << 10;
};

/// RuntimeError when the engine is closed.
bool check_open(FileEngineObject* engine) noexcept;

/// The engine of Penstock's loop, made on first use. Borrowed; null with an exception set.
FileEngineObject* file_engine_of(LoopObject* loop) noexcept;

/// Waits for all operations in flight, then destroys the engine. Waiting tasks are not resumed if
/// their loop is closed.
void close_file_engine(FileEngineObject* engine) noexcept;

/// The type's methods.
extern PyMethodDef file_engine_methods[];

} // namespace penstock::python
