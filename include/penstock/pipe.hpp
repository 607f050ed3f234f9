#pragma once

#include <memory>
#include <utility>

#include <penstock/detail/descriptor_stream.hpp>
#include <penstock/detail/file_calls.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

namespace penstock {

/// The end of a pipe that is read; also for any other descriptor that one can wait for and only reads:
/// a named pipe, a terminal's input. The stream ends when the last writer has closed.
class PipeReader : public detail::Readable<detail::FileCalls> {
public:
    /// A closed reader.
    PipeReader() = default;

    /// Takes a descriptor over and makes it non-blocking, which holds for all who share the open file
    /// description. Errors: fcntl(2)'s.
    [[nodiscard]] static Result<PipeReader> adopt(OwnedDescriptor descriptor);

private:
    explicit PipeReader(std::unique_ptr<detail::Pollable> pollable) noexcept
        : Readable(std::move(pollable)) {}
};

/// The end of a pipe that is written. A pipe without a reader is `broken_pipe`, and no SIGPIPE. Writes of
/// up to 4,096 bytes (PIPE_BUF) do not mix with other writers' (pipe(7)).
class PipeWriter : public detail::Writable<detail::FileCalls> {
public:
    /// A closed writer.
    PipeWriter() = default;

    /// As `PipeReader::adopt`.
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

/// A new pipe, closed on exec (pipe2(2)). Errors: `too_many_files_open` and its like.
[[nodiscard]] Result<PipeEnds> make_pipe();

/// The two ends of a pipe between two other processes: blocking, as programs expect their standard
/// streams to be. An end that a `PipeReader` or `PipeWriter` has had is not, for whoever shares it.
struct BlockingPipe {
    OwnedDescriptor reading{};
    OwnedDescriptor writing{};
};

/// A new one, closed on exec; `process::Stream::descriptor` gives a child its end.
[[nodiscard]] Result<BlockingPipe> make_blocking_pipe();

} // namespace penstock
