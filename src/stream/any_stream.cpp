#include <penstock/stream/any_stream.hpp>

namespace penstock {

Task<Result<std::size_t>> AnyStream::read(MutableBytes into) {
    if (net::TcpStream* stream = tcp()) {
        return detail::to_task(stream->read(into));
    }
    return other_->read(into);
}

Task<Result<>> AnyStream::write_all(Bytes from) {
    if (net::TcpStream* stream = tcp()) {
        return detail::to_task(stream->write_all(from));
    }
    return other_->write_all(from, {}, {});
}

Task<Result<>> AnyStream::write_all(Bytes head, Bytes body, Bytes tail) {
    if (net::TcpStream* stream = tcp()) {
        return detail::to_task(stream->write_all(head, body, tail));
    }
    return other_->write_all(head, body, tail);
}

Task<Result<>> AnyStream::shutdown() {
    if (net::TcpStream* stream = tcp()) {
        co_return stream->shutdown();
    }
    co_return co_await other_->shutdown();
}

void AnyStream::close() noexcept {
    if (net::TcpStream* stream = tcp()) {
        stream->close();
    } else {
        other_->close();
    }
}

} // namespace penstock
