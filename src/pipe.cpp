#include <penstock/pipe.hpp>

#include <array>

#include <fcntl.h>

namespace penstock {

Result<PipeReader> PipeReader::adopt(OwnedDescriptor descriptor) {
    Result<std::unique_ptr<detail::Pollable>> pollable =
        detail::adopt_nonblocking(std::move(descriptor));
    if (!pollable) {
        return failure(pollable.error());
    }
    return PipeReader(std::move(*pollable));
}

Result<PipeWriter> PipeWriter::adopt(OwnedDescriptor descriptor) {
    Result<std::unique_ptr<detail::Pollable>> pollable =
        detail::adopt_nonblocking(std::move(descriptor));
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
