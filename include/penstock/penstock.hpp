/// Tasks, streams, the network, files, processes and serial ports:
/// `#include <penstock/penstock.hpp>`, `penstock::run(task)`.
///
/// HTTP and WebSocket have headers of their own, `<penstock/http.hpp>` and `<penstock/ws.hpp>`.
/// With them in this one, a TCP echo server would take a quarter longer to compile.
#pragma once

// Errors, the event loop, signals
#include <penstock/errors.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/result.hpp>
#include <penstock/signal.hpp>
#include <penstock/until_signal.hpp>

// Tasks
#include <penstock/task/all.hpp>
#include <penstock/task/all_settled.hpp>
#include <penstock/task/any.hpp>
#include <penstock/task/async_generator.hpp>
#include <penstock/task/canceller.hpp>
#include <penstock/task/concurrent.hpp>
#include <penstock/task/deadline.hpp>
#include <penstock/task/generator.hpp>
#include <penstock/task/race.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/shield.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/task_trace.hpp>
#include <penstock/task/timeout.hpp>
#include <penstock/task/unwrap.hpp>
#include <penstock/task/yield.hpp>

// Bridges to callbacks and threads
#include <penstock/bridge/adapt.hpp>
#include <penstock/bridge/block_on.hpp>
#include <penstock/bridge/cpu_pool.hpp>
#include <penstock/bridge/promise.hpp>
#include <penstock/bridge/run_on.hpp>
#include <penstock/bridge/to_thread.hpp>
#include <penstock/bridge/wait_ready.hpp>

// Synchronisation
#include <penstock/sync/channel.hpp>
#include <penstock/sync/channel_ends.hpp>
#include <penstock/sync/condition.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/latch.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/sync/semaphore.hpp>

// Streams
#include <penstock/stream/any_stream.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/stream/buf_writer.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/stream/copy.hpp>
#include <penstock/stream/memory_stream.hpp>
#include <penstock/stream/pipe.hpp>
#include <penstock/stream/read_all.hpp>
#include <penstock/stream/stream.hpp>

// Network
#include <penstock/net/endpoint.hpp>
#include <penstock/net/resolve.hpp>
#include <penstock/net/tcp_listener.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/net/udp_socket.hpp>
#include <penstock/net/unix_listener.hpp>
#include <penstock/net/unix_stream.hpp>

// Files
#include <penstock/fs/aligned_buffer.hpp>
#include <penstock/fs/append_log.hpp>
#include <penstock/fs/attributes.hpp>
#include <penstock/fs/directory_entry.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/fs/lock.hpp>
#include <penstock/fs/open_options.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/fs/status.hpp>
#include <penstock/fs/temporary_directory.hpp>
#include <penstock/fs/tree.hpp>
#include <penstock/fs/watch.hpp>

// Processes
#include <penstock/process/command.hpp>

// Serial ports
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/serial/port.hpp>
