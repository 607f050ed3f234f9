#include <penstock/io/signal_route.hpp>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

#include <sched.h>
#include <unistd.h>

namespace penstock::io {

namespace {

struct Route {
    std::atomic<int> write_fd{-1};
    std::atomic<unsigned> running{0}; ///< number of handlers that may have read `write_fd`
    std::atomic<pid_t> process{0};    ///< the process that made the route
    struct sigaction previous{};
};

/// Global, because signal dispositions belong to the process. A handler may use lock-free atomics
/// only.
std::array<Route, NSIG> routes;

void forward_signal(int signal_number) {
    const int saved = errno;
    Route& route = routes[static_cast<std::size_t>(signal_number)];
    ++route.running;
    const int fd = route.write_fd.load();
    if (fd >= 0) {
        const auto byte = static_cast<unsigned char>(signal_number);
        [[maybe_unused]] const ssize_t written = ::write(fd, &byte, 1);
    }
    --route.running;
    errno = saved;
}

/// Waits for handlers on other threads. They end soon: their write does not block, and no signal
/// interrupts them. A forked child does not have those threads, but inherits their count.
void await_handlers(const Route& route) noexcept {
    if (route.process.load() != ::getpid()) {
        return;
    }
    while (route.running.load() != 0) {
        ::sched_yield();
    }
}

bool is_signal(int number) noexcept {
    return number >= 1 && number < NSIG;
}

} // namespace

std::error_code route_signal(int signal_number, int write_fd) {
    if (!is_signal(signal_number)) {
        return {EINVAL, std::system_category()};
    }
    Route& route = routes[static_cast<std::size_t>(signal_number)];
    int owner = -1;
    if (!route.write_fd.compare_exchange_strong(owner, write_fd)) {
        return owner == write_fd ? std::error_code{}
                                 : std::error_code{EBUSY, std::system_category()};
    }
    route.process.store(::getpid());
    struct sigaction action{};
    action.sa_handler = &forward_signal;
    action.sa_flags = SA_RESTART;
    sigfillset(&action.sa_mask);
    if (sigaction(signal_number, &action, &route.previous) != 0) {
        const std::error_code error{errno, std::system_category()};
        route.write_fd.store(-1);
        return error;
    }
    return {};
}

void unroute_signal(int signal_number, int write_fd) noexcept {
    if (!is_signal(signal_number)) {
        return;
    }
    Route& route = routes[static_cast<std::size_t>(signal_number)];
    if (route.write_fd.load() == write_fd) {
        sigaction(signal_number, &route.previous, nullptr);
        route.write_fd.store(-1);
        await_handlers(route);
    }
}

void unroute_signals(int write_fd) noexcept {
    for (int number = 1; number < NSIG; ++number) {
        unroute_signal(number, write_fd);
    }
}

} // namespace penstock::io
