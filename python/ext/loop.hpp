#pragma once

#include "handle.hpp"
#include "module.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <penstock/io/event_loop.hpp>

namespace penstock::python {

class AddressCache;
class DatagramBatch;
struct DatagramTransportObject;
struct FdCallbacks;
struct FileEngineObject;
class InterpreterSignals;
struct SocketTransportObject;

/// The native base of `penstock.Loop`: ready queue, timers, readiness callbacks, the run itself.
struct LoopObject {
    PyObject ob_base;
    ModuleState* state;
    io::EventLoop* io; ///< null once closed
    InterpreterSignals* signals;
    std::vector<std::unique_ptr<FdCallbacks>>* fd_callbacks; ///< by descriptor number
    SocketTransportObject* transports; ///< open transports, each holding a reference for the loop
    SocketTransportObject* write_holders;         ///< see `CallbackScope`
    DatagramTransportObject* datagram_transports; ///< the same of datagram sockets
    DatagramBatch* datagrams;      ///< where they receive; made by the first that does
    FileEngineObject* file_engine; ///< owned; made by the first file operation
    AddressCache* senders;         ///< the addresses that datagrams came from; made with that
    char* read_buffer;             ///< of `ReadBuffer` alone; null while somebody has it
    PyObject* spare_bytes;         ///< for `ReceivedBytes`, or null
    std::size_t spare_capacity;    ///< of `spare_bytes`
    void* reserve;                 ///< see `LentReserve`, or null
    HandleObject* spare_handles;   ///< linked through `callback`
    unsigned spare_handle_count;
    std::uint64_t callback_serial; ///< of the running callback, see `CallbackScope`
    unsigned long owner_thread;    ///< where it was made, then where it last ran
    PyObject* thread_id;           ///< None or the running thread, as BaseEventLoop keeps it
    PyObject* task_factory;
    PyObject* getter; ///< see `loop_getter`, or null; until it is closed
    PyObject* current_handle;
    HandleObject* thread_safe_call; ///< the running one of call_soon_threadsafe(), or null
    PyObject* end_of_call_events;   ///< list of those that wait for its end, or null
    PyObject* pending_exception;    ///< SystemExit or KeyboardInterrupt on its way out of the run
    bool closed;
    bool iterating; ///< an iteration is under way, or waits
    bool ending;    ///< `close_native` has begun
    bool own_clock; ///< the program has put its own time() in the place of the native one
    bool stopping;
    bool debug;
    bool in_callback;

    static constexpr std::size_t read_buffer_size = std::size_t{256} * 1024;
    static constexpr unsigned max_spare_handles = 1024;
};

/// Puts a handle at the end of the ready queue; takes over a reference.
void schedule(LoopObject* loop, HandleObject* handle) noexcept;

/// Schedules a native step on `target` for the next iteration; false with an exception set.
bool schedule_native(LoopObject* loop, NativeStep step, PyObject* target) noexcept;

/// Stops the running iteration and lets the raised exception leave `run_forever`.
void interrupt_with_raised(LoopObject* loop) noexcept;

/// Gives the raised exception to `call_exception_handler`, with `message` and the objects given
/// (each may be null). One that ends the program interrupts the loop instead. Without a loop (null), as
/// a transport's is once it is lost, the exception is only shown.
void report_raised(LoopObject* loop, const char* message, PyObject* transport,
                   PyObject* protocol) noexcept;

/// RuntimeError when the loop is closed.
bool check_open(LoopObject* loop) noexcept;

} // namespace penstock::python
