#pragma once

#include <string>

#include <penstock/event_loop.hpp>
#include <penstock/io/signal_pipe.hpp>

namespace penstock {

/// The tasks of a loop and where each of them waits, as text. A debugger does not show that,
/// because a waiting coroutine is on no stack. The innermost coroutine of a task comes first,
/// followed by those that await it, each with the line of its `co_await`. A child of `all`,
/// `timeout` or a scope is indented below its parent.
///
///     task 1 waits
///         at Task<> program() (echo.cpp:31)
///       task 2 waits
///           at Task<> serve(TcpStream) (echo.cpp:12)
///
/// Thread safety: only on the loop's thread. From another thread use `loop.post([&] { std::cerr <<
/// trace_tasks(loop); })`.
[[nodiscard]] std::string trace_tasks(const EventLoop& loop);

/// Prints the trace of this thread's loop to standard error when the process receives a signal. The
/// default is SIGQUIT (Ctrl-\ on a terminal). Create it inside `run`. It must be destroyed before
/// `run` returns.
class TraceOnSignal : private io::SignalPipe {
public:
    /// Throws `std::system_error`: EBUSY if something else in the process has subscribed to the
    /// signal, EINVAL if it cannot be handled, EMFILE.
    TraceOnSignal();
    explicit TraceOnSignal(int signal_number);

private:
    static void print(io::SignalPipe& pipe, int signal_number);

    EventLoop& loop_;
};

} // namespace penstock
