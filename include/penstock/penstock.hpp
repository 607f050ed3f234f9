/// The whole coroutine library: `#include <penstock/penstock.hpp>`, `penstock::run(task)`.
#pragma once

// Tasks
#include <penstock/all.hpp>
#include <penstock/all_settled.hpp>
#include <penstock/any.hpp>
#include <penstock/canceller.hpp>
#include <penstock/channel.hpp>
#include <penstock/errors.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/race.hpp>
#include <penstock/result.hpp>
#include <penstock/run.hpp>
#include <penstock/scope.hpp>
#include <penstock/shield.hpp>
#include <penstock/sleep.hpp>
#include <penstock/task.hpp>
#include <penstock/task_trace.hpp>
#include <penstock/timeout.hpp>
#include <penstock/to_thread.hpp>
#include <penstock/yield.hpp>

// Synchronisation
#include <penstock/sync/condition.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/latch.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/sync/semaphore.hpp>

// Bytes
#include <penstock/buf_reader.hpp>
#include <penstock/buf_writer.hpp>
#include <penstock/bytes.hpp>
#include <penstock/chunk.hpp>
#include <penstock/copy.hpp>
#include <penstock/stream.hpp>

// Network
#include <penstock/net/endpoint.hpp>
#include <penstock/net/resolve.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/net/udp_socket.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/net/unix_stream.hpp>

// Files
#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/fs/status.hpp>

// Processes
#include <penstock/pipe.hpp>
#include <penstock/process/command.hpp>
#include <penstock/signal.hpp>

// Serial ports
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/serial/port.hpp>
