#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/detail/send_file_operation.hpp>
#include <penstock/detail/stream_operations.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// What a connected stream socket of any family can do; the base of `TcpStream` and `UnixStream`.
///
/// One task may read while another one writes; a second reader (or writer) is told
/// `device_or_resource_busy`. A stream belongs to the loop on which it first had to wait, and to that
/// loop's thread; until then it may be handed to another one. Moving a stream while an operation
/// waits is allowed: the operation belongs to the connection.
///
/// A cancelled read has taken nothing. A cancelled or failed `write_all` may have sent a part.
class StreamSocket
    : public detail::Readable<detail::SocketCalls, detail::Writable<detail::SocketCalls>> {
public:
    /// Sends a part of an open file without bringing it into the program (sendfile(2)), and yields how
    /// many bytes that was: fewer than `length` where the file ends before. The file's own position is
    /// not used. What is not in the page cache is read from the disk meanwhile, and the loop waits for
    /// it. Errors: sendfile(2)'s; `broken_pipe`, and no SIGPIPE, once the peer has gone. After one, or a
    /// cancellation, a part may have been sent. The file stays open until this has ended.
    [[nodiscard]] detail::SendFileOperation send_file(const fs::File& file, std::uint64_t offset,
                                                      std::uint64_t length) noexcept {
        return {pollable_.get(), file.shared_descriptor(), offset, length};
    }

    /// The same with a bare descriptor, which the caller keeps open until this has ended.
    [[nodiscard]] detail::SendFileOperation send_file(int file, std::uint64_t offset,
                                                      std::uint64_t length) noexcept {
        return {pollable_.get(), file, offset, length};
    }

    /// Says that nothing more will be sent; the other end reads the end of the stream. Reading goes on.
    /// Errors: shutdown(2)'s, `not_connected` above all.
    [[nodiscard]] Result<> shutdown() noexcept;

    /// Gives the descriptor away, still non-blocking. As `close` for who waits.
    [[nodiscard]] int release() noexcept;

protected:
    StreamSocket() = default;
    explicit StreamSocket(std::unique_ptr<detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

} // namespace penstock::net
