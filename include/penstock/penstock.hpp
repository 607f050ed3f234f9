/// Tasks, streams, the network, files, processes and serial ports:
/// `#include <penstock/penstock.hpp>`, `penstock::run(task)`.
///
/// HTTP and WebSocket have headers of their own, `<penstock/http.hpp>` and `<penstock/ws.hpp>`.
/// With them in this one, a TCP echo server would take a quarter longer to compile.
#pragma once

// Tasks
#include <penstock/adapt.hpp>
#include <penstock/all.hpp>
#include <penstock/all_settled.hpp>
#include <penstock/any.hpp>
#include <penstock/async_generator.hpp>
#include <penstock/block_on.hpp>
#include <penstock/canceller.hpp>
#include <penstock/channel.hpp>
#include <penstock/channel_ends.hpp>
#include <penstock/concurrent.hpp>
#include <penstock/cpu_pool.hpp>
#include <penstock/deadline.hpp>
#include <penstock/errors.hpp>
#include <penstock/event_loop.hpp>
#include <penstock/generator.hpp>
#include <penstock/promise.hpp>
#include <penstock/race.hpp>
#include <penstock/result.hpp>
#include <penstock/run.hpp>
#include <penstock/run_on.hpp>
#include <penstock/scope.hpp>
#include <penstock/shield.hpp>
#include <penstock/sleep.hpp>
#include <penstock/task.hpp>
#include <penstock/task_trace.hpp>
#include <penstock/timeout.hpp>
#include <penstock/to_thread.hpp>
#include <penstock/unwrap.hpp>
#include <penstock/wait_ready.hpp>
#include <penstock/yield.hpp>

// Synchronisation
#include <penstock/sync/condition.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/sync/latch.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/sync/semaphore.hpp>

// Bytes
#include <penstock/any_stream.hpp>
#include <penstock/buf_reader.hpp>
#include <penstock/buf_writer.hpp>
#include <penstock/bytes.hpp>
#include <penstock/chunk.hpp>
#include <penstock/copy.hpp>
#include <penstock/memory_stream.hpp>
#include <penstock/read_all.hpp>
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

// Processes
#include <penstock/pipe.hpp>
#include <penstock/process/command.hpp>
#include <penstock/signal.hpp>

// Serial ports
#include <penstock/serial/line_state.hpp>
#include <penstock/serial/options.hpp>
#include <penstock/serial/port.hpp>
