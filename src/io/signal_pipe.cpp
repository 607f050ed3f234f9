#include <penstock/io/signal_pipe.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::io {

namespace {

struct Subscription {
    std::atomic<int> write_fd{-1};
    struct sigaction previous{};
};

/// Signal dispositions belong to the process, so this table does too. A handler may only touch
/// lock-free atomics.
std::array<Subscription, NSIG> subscriptions;

void forward_signal(int signal_number) {
    const int saved = errno;
    const int fd = subscriptions[static_cast<std::size_t>(signal_number)].write_fd.load(
        std::memory_order_relaxed);
    if (fd >= 0) {
        const auto byte = static_cast<unsigned char>(signal_number);
        [[maybe_unused]] const ssize_t written = ::write(fd, &byte, 1);
    }
    errno = saved;
}

} // namespace

SignalPipe::SignalPipe(Poller& poller, OnSignal on_signal)
    : poller_(poller), on_signal_(on_signal), read_end_(*this) {
    std::array<int, 2> ends{};
    // Not a socket pair: that takes 278 single bytes, each of which it charges as a whole buffer.
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
    for (std::size_t number = 1; number < subscriptions.size(); ++number) {
        unsubscribe(static_cast<int>(number));
    }
    const int read_fd = read_end_.fd;
    poller_.remove(read_end_);
    ::close(read_fd);
    ::close(write_fd_);
}

std::error_code SignalPipe::subscribe(int signal_number) {
    if (signal_number < 1 || signal_number >= NSIG) {
        return {EINVAL, std::system_category()};
    }
    Subscription& subscription = subscriptions[static_cast<std::size_t>(signal_number)];
    int nobody = -1;
    if (!subscription.write_fd.compare_exchange_strong(nobody, write_fd_)) {
        return nobody == write_fd_ ? std::error_code{}
                                   : std::error_code{EBUSY, std::system_category()};
    }
    struct sigaction action{};
    action.sa_handler = &forward_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    if (sigaction(signal_number, &action, &subscription.previous) != 0) {
        const std::error_code error{errno, std::system_category()};
        subscription.write_fd.store(-1);
        return error;
    }
    return {};
}

void SignalPipe::unsubscribe(int signal_number) noexcept {
    if (signal_number < 1 || signal_number >= NSIG) {
        return;
    }
    Subscription& subscription = subscriptions[static_cast<std::size_t>(signal_number)];
    if (subscription.write_fd.load() == write_fd_) {
        sigaction(signal_number, &subscription.previous, nullptr);
        subscription.write_fd.store(-1);
    }
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
