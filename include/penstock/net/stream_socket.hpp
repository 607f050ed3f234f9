#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <penstock/detail/io/descriptor_stream.hpp>
#include <penstock/detail/io/send_file_operation.hpp>
#include <penstock/detail/io/stream_operations.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/net/write_limit.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>

namespace penstock::net {

/// A connected stream socket of any family. The base of `TcpStream` and `UnixStream`.
///
/// One task may read while another one writes. A second reader or writer gets
/// `device_or_resource_busy`. A stream may be moved while an operation waits: the operation belongs
/// to the connection.
///
/// Cancellation: a cancelled read has consumed nothing. A cancelled or failed `write_all` may have
/// sent a part.
///
/// Thread safety: the stream belongs to the loop on which it first waited, and to that loop's
/// thread. Before that it may be passed to another thread.
class StreamSocket
    : public detail::Readable<detail::SocketCalls, detail::Writable<detail::SocketCalls>> {
public:
    /// Sends a part of an open file without copying it to user space (sendfile(2)). Returns the
    /// number of bytes, which is less than `length` if the file ends first. Does not use the file's
    /// position. The loop blocks while data that is not in the page cache is read from the device.
    /// The file stays open until the operation has ended.
    ///
    /// Errors: those of sendfile(2). `broken_pipe`, without SIGPIPE, if the peer has closed. A
    /// failed or cancelled operation may have sent a part.
    [[nodiscard]] detail::SendFileOperation send_file(const fs::File& file, std::uint64_t offset,
                                                      std::uint64_t length) noexcept {
        return {pollable_.get(), file.shared_descriptor(), offset, length};
    }

    /// The same with a bare descriptor. The caller keeps it open until the operation has ended.
    [[nodiscard]] detail::SendFileOperation send_file(int file, std::uint64_t offset,
                                                      std::uint64_t length) noexcept {
        return {pollable_.get(), file, offset, length};
    }

    /// Writes what fits now and returns the number of bytes, 0 if nothing fits. This is not an
    /// operation: it neither waits nor looks at the task's cancellation. `write` waits for room.
    ///
    /// Errors: those of send(2), and `device_or_resource_busy` while a task waits to write.
    [[nodiscard]] Result<std::size_t> try_write(Bytes from) noexcept;
    /// The same with several parts, in order, in one system call. At least one part.
    [[nodiscard]] Result<std::size_t> try_write(std::span<const Bytes> parts) noexcept;

    /// Reads what has arrived into a borrowed buffer. An empty chunk is the end of the stream. Like
    /// `try_write`, this is not an operation.
    ///
    /// Errors: those of recv(2), among them `operation_would_block` if nothing has arrived,
    /// `device_or_resource_busy` while a task waits to read, and `not_enough_memory`.
    [[nodiscard]] Result<Chunk> try_receive() noexcept;

    /// Limits how long operations wait to write: they fail with `timed_out` when the peer makes no
    /// progress (see `WriteLimit`). A part may have been sent, as after any other failure. The
    /// limit holds from the next wait on, until the next call, and also for what a `tls::Stream`
    /// over this stream sends. A new stream has no limit; `http::Server` and WebSockets set one. No
    /// effect on a closed stream.
    void limit_writes(const WriteLimit& limit = {}) noexcept;

    /// For `http::Server`: calls `hook` once when the peer ends its side or resets the connection
    /// while nobody waits to read. `Pollable::watch_hang_up` has the rules.
    void watch_hang_up(detail::HangUpHook& hook, EventLoop& loop) noexcept;
    void forget_hang_up(const detail::HangUpHook& hook) noexcept;
    /// For WebSockets without a coroutine: calls `hook` once when a read would not wait. Errors:
    /// those of `Pollable::watch_input`, and `bad_file_descriptor` on a closed stream.
    [[nodiscard]] Result<> watch_input(detail::InputHook& hook, EventLoop& loop);
    void forget_input(const detail::InputHook& hook) noexcept;

    /// Shuts down the write side, so the peer reads the end of the stream. Reading continues.
    /// Errors: those of shutdown(2), such as `not_connected`.
    [[nodiscard]] Result<> shutdown() noexcept;

    /// Releases ownership and returns the descriptor, which stays non-blocking. -1 if the stream is
    /// closed. Operations that wait return `operation_canceled`.
    [[nodiscard]] int release() noexcept;

protected:
    StreamSocket() = default;
    explicit StreamSocket(std::unique_ptr<detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

} // namespace penstock::net
