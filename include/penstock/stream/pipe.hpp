#pragma once

#include <memory>
#include <utility>

#include <penstock/detail/io/descriptor_calls.hpp>
#include <penstock/detail/io/descriptor_stream.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// The read end of a pipe, or another pollable descriptor that is only read, such as a FIFO or a
/// terminal's input. The stream ends when the last writer has closed its end.
///
/// Cancellation: a cancelled read has consumed nothing.
///
/// Thread safety: belongs to the loop on which it first waited, and to that loop's thread.
class PipeReader : public detail::Readable<detail::DescriptorCalls> {
public:
    /// A closed reader.
    PipeReader() = default;

    /// Takes ownership of a descriptor and makes it non-blocking. That affects every user of the
    /// open file description. Errors: those of fcntl(2), and `wrong_protocol_type` for a socket of
    /// messages (datagrams, SOCK_SEQPACKET), whose empty message would look like the end.
    [[nodiscard]] static Result<PipeReader> adopt(OwnedDescriptor descriptor);

private:
    explicit PipeReader(std::unique_ptr<detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

/// The write end of a pipe. A write to a pipe without a reader returns `broken_pipe` and raises no
/// SIGPIPE. Writes of up to 4,096 bytes (PIPE_BUF) are atomic (pipe(7)).
///
/// Cancellation: a cancelled or failed `write_all` may have written a part.
///
/// Thread safety: as `PipeReader`.
class PipeWriter : public detail::Writable<detail::DescriptorCalls> {
public:
    /// A closed writer.
    PipeWriter() = default;

    /// See `PipeReader::adopt`.
    [[nodiscard]] static Result<PipeWriter> adopt(OwnedDescriptor descriptor);

private:
    explicit PipeWriter(std::unique_ptr<detail::Pollable> pollable) noexcept
        : Writable(std::move(pollable)) {}
};

/// The two ends of a pipe.
struct PipeEnds {
    PipeReader reader{};
    PipeWriter writer{};
};

/// Creates a pipe, close-on-exec (pipe2(2)). Errors: `too_many_files_open` and the others of
/// pipe2(2).
[[nodiscard]] Result<PipeEnds> make_pipe();

/// The two ends of a pipe between two child processes. They are blocking, as programs expect of
/// their standard streams. Adopting an end makes it non-blocking for every user.
struct BlockingPipe {
    OwnedDescriptor reading{};
    OwnedDescriptor writing{};
};

/// Creates a blocking pipe, close-on-exec. `process::Stdio::descriptor` passes an end to a child.
[[nodiscard]] Result<BlockingPipe> make_blocking_pipe();

} // namespace penstock
