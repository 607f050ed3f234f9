#pragma once

#include "core/handle.hpp"
#include "core/module.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/io/event_loop.hpp>
#include <penstock/io/intrusive_list.hpp>

namespace penstock::python {

class AddressCache;
class DatagramBatch;
struct DatagramTransportObject;
struct FdCallbacks;
struct FileEngineObject;
class InterpreterSignals;
struct SocketTransportObject;

/// Where a transport is linked into its loop's list.
struct OpenHook {
    template <typename Transport> auto& operator()(Transport& transport) const noexcept {
        return transport.open_hook;
    }
};

template <typename Transport> using OpenTransports = io::IntrusiveList<Transport, OpenHook{}>;

/// The native base of `penstock.Loop`: ready queue, timers, watched descriptors, iterations.
///
/// Owns what its members say, until `close_native`, which ends the file engine, the watched
/// descriptors and the transports before the event loop (`io`). `io` is null from then on, which a
/// method checks before it uses it. `close_native` also runs when the garbage collector clears a
/// loop that was never closed; finalizers that it runs may call the loop once more.
///
/// A call that can run Python code may stop the loop, or close it unless it is iterating. So a
/// function reads the members again after such a call.
///
/// Thread safety: with the GIL, on the thread that runs it; `call_soon_threadsafe` on any thread.
/// The poller waits without the GIL.
struct LoopObject {
    PyObject ob_base;
    ModuleState* state;
    io::EventLoop* io; ///< null once closed
    InterpreterSignals* signals;
    std::vector<std::unique_ptr<FdCallbacks>>* fd_callbacks; ///< by descriptor number
    OpenTransports<SocketTransportObject> transports;        ///< owns a reference to each
    OpenTransports<DatagramTransportObject> datagram_transports;
    DatagramBatch* datagrams; ///< receive buffers of datagram transports; made by the first receive
    FileEngineObject* file_engine;    ///< owned; made by the first file operation
    AddressCache* senders;            ///< source addresses of datagrams; made with `datagrams`
    char* read_buffer;                ///< used by `ReadBuffer` only; null while a read uses it
    PyObject* spare_bytes;            ///< for `ReceivedBytes`, or null
    std::size_t spare_capacity;       ///< of `spare_bytes`
    std::vector<char>* record_memory; ///< for the records of a TLS transport that sends, or null
    void* reserve;                    ///< see `ReleasedReserve`, or null
    HandleObject* handle_freelist;    ///< linked through `callback`
    unsigned handle_freelist_size;
    unsigned long owner_thread; ///< the thread that made the loop, then the one that ran it last
    PyObject* thread_id;        ///< None or the running thread's id, as in BaseEventLoop
    PyObject* task_factory;
    PyObject* getter; ///< see `loop_getter`; null until used and once closed
    PyObject* current_handle;
    PyObject* first_step_context;   ///< of the task that `begin_task` makes, borrowed; else null
    PyObject* first_step;           ///< what that task has scheduled
    unsigned long long tasks_begun; ///< by `begin_task`
    HandleObject*
        thread_safe_call;         ///< the call_soon_threadsafe() callback that is running, or null
    PyObject* end_of_call_events; ///< list of events to set when it returns, or null
    PyObject* pending_exception;  ///< SystemExit or KeyboardInterrupt that leaves the run
    bool closed;
    bool iterating;        ///< an iteration is running or waiting
    bool ending;           ///< `close_native` has begun
    bool clock_overridden; ///< the program has replaced time()
    bool stopping;
    bool debug;

    static constexpr std::size_t read_buffer_size = std::size_t{256} * 1024;
    static constexpr unsigned max_freelist_handles = 1024;
};

/// How long one event may call the program's callbacks one after the other, in nanoseconds, where
/// asyncio would call one in an iteration: the datagrams of a batch, the parts of decrypted data. A
/// slow callback is then the last one of its event, and the rest follows in the next iteration.
inline constexpr std::int64_t callbacks_slice = 100'000;

/// Appends a handle to the ready queue. Takes over a reference.
void schedule(LoopObject* loop, HandleObject* handle) noexcept;

/// Schedules a native step on `target` for the next iteration. False with an exception set.
bool schedule_native(LoopObject* loop, NativeStep step, PyObject* target) noexcept;

/// Stops the running iteration. The raised exception leaves `run_forever`.
[[gnu::cold]] void interrupt_with_raised(LoopObject* loop) noexcept;

/// Passes the raised exception to `call_exception_handler`, with `message` and the given objects
/// (each may be null). An exception that ends the program interrupts the loop instead. Without a
/// loop (null: the transport is lost) the exception goes to sys.unraisablehook.
[[gnu::cold]] void report_raised(LoopObject* loop, const char* message, PyObject* transport,
                                 PyObject* protocol) noexcept;

/// False with RuntimeError set when the loop is closed.
bool check_open(LoopObject* loop) noexcept;

} // namespace penstock::python
