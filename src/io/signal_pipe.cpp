#include <penstock/io/signal_pipe.hpp>

#include <array>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/io/signal_route.hpp>

namespace penstock::io {

SignalPipe::SignalPipe(Poller& poller, OnSignal on_signal)
    : poller_(poller), on_signal_(on_signal), read_end_(*this) {
    std::array<int, 2> ends{};
    // Not a socket pair: it holds 278 single bytes, because each is charged as a whole buffer.
    if (pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) {
        throw std::system_error(errno, std::system_category(), "pipe2");
    }
    write_fd_ = ends[1];
    if (const std::error_code error = poller_.add(read_end_, ends[0], readable)) {
        ::close(ends[0]);
        ::close(ends[1]);
        throw std::system_error(error, "epoll_ctl on a signal pipe");
    }
}

SignalPipe::~SignalPipe() {
    unroute_signals(write_fd_);
    const int read_fd = read_end_.fd;
    poller_.remove(read_end_);
    ::close(read_fd);
    ::close(write_fd_);
}

std::error_code SignalPipe::subscribe(int signal_number) {
    return route_signal(signal_number, write_fd_);
}

void SignalPipe::unsubscribe(int signal_number) noexcept {
    unroute_signal(signal_number, write_fd_);
}

void SignalPipe::on_readable(Watch& watch, std::uint32_t /*events*/) {
    SignalPipe& pipe = static_cast<ReadEnd&>(watch).pipe;
    std::array<unsigned char, 512> numbers{};
    const ssize_t count = ::read(watch.fd, numbers.data(), numbers.size());
    for (ssize_t i = 0; i < count; ++i) {
        pipe.on_signal_(pipe, numbers[static_cast<std::size_t>(i)]);
    }
}

} // namespace penstock::io
