#pragma once

#include <string>

#include <penstock/event_loop.hpp>
#include <penstock/io/signal_pipe.hpp>

namespace penstock {

/// Which task of a loop waits where: the back trace that a debugger cannot give, since a waiting
/// coroutine is on no stack. Each task's innermost coroutine comes first, and below it those that
/// await it, each with the line of its `co_await`; a task that runs inside of another one's `all`,
/// `timeout` or scope stands under it, indented.
///
///     task 1 waits
///         at Task<> program() (echo.cpp:31)
///       task 2 waits
///           at Task<> serve(TcpStream) (echo.cpp:12)
///
/// The loop's thread only; from another one, `loop.post([&] { std::cerr << trace_tasks(loop); })`.
[[nodiscard]] std::string trace_tasks(const EventLoop& loop);

/// Prints the trace of this thread's loop to standard error whenever the process gets a signal, SIGQUIT
/// (Ctrl-\ on a terminal) if no other is named. Lives inside of `run`, and ends before it.
class TraceOnSignal : private io::SignalPipe {
public:
    /// Throws `std::system_error`: EBUSY when something else in the process has subscribed to the
    /// signal, EINVAL for one that cannot be handled, EMFILE.
    TraceOnSignal();
    explicit TraceOnSignal(int signal_number);

private:
    static void print(io::SignalPipe& pipe, int signal_number);

    EventLoop& loop_;
};

} // namespace penstock
