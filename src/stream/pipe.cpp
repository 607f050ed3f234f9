#include <penstock/stream/pipe.hpp>

#include <array>

#include <fcntl.h>
#include <sys/socket.h>

namespace penstock {

namespace {

/// Makes a descriptor non-blocking that carries a stream of bytes.
Result<std::unique_ptr<detail::Pollable>> adopt_byte_stream(OwnedDescriptor descriptor) {
    int type = SOCK_STREAM;
    socklen_t size = sizeof type;
    // Anything but a socket leaves the type as it is.
    (void)::getsockopt(descriptor.get(), SOL_SOCKET, SO_TYPE, &type, &size);
    if (type != SOCK_STREAM) {
        return failure(std::errc::wrong_protocol_type);
    }
    return detail::adopt_nonblocking(std::move(descriptor));
}

} // namespace

Result<PipeReader> PipeReader::adopt(OwnedDescriptor descriptor) {
    Result<std::unique_ptr<detail::Pollable>> pollable = adopt_byte_stream(std::move(descriptor));
    if (!pollable) {
        return failure(pollable.error());
    }
    return PipeReader(std::move(*pollable));
}

Result<PipeWriter> PipeWriter::adopt(OwnedDescriptor descriptor) {
    Result<std::unique_ptr<detail::Pollable>> pollable = adopt_byte_stream(std::move(descriptor));
    if (!pollable) {
        return failure(pollable.error());
    }
    return PipeWriter(std::move(*pollable));
}

Result<BlockingPipe> make_blocking_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return last_failure();
    }
    return BlockingPipe{.reading = OwnedDescriptor(ends[0]), .writing = OwnedDescriptor(ends[1])};
}

Result<PipeEnds> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) {
        return last_failure();
    }
    OwnedDescriptor reading(ends[0]);
    OwnedDescriptor writing(ends[1]);
    Result<PipeReader> reader = PipeReader::adopt(std::move(reading));
    Result<PipeWriter> writer = PipeWriter::adopt(std::move(writing));
    if (!reader || !writer) {
        return failure(reader ? writer.error() : reader.error());
    }
    return PipeEnds{.reader = std::move(*reader), .writer = std::move(*writer)};
}

} // namespace penstock
