#include <penstock/signal.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/io/signal_route.hpp>

namespace penstock {

namespace detail {

bool SignalOperation::attempt() noexcept {
    const ssize_t count = uninterrupted([&] { return ::read(fd(), &number_, 1); });
    return count > 0 || fail_unless_would_block();
}

} // namespace detail

Result<Signal> Signal::on(std::span<const int> numbers) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_NONBLOCK | O_CLOEXEC) != 0) {
        return last_failure();
    }
    OwnedDescriptor route(ends[1]);
    Signal signal(detail::Pollable::adopt(ends[0]), std::move(route));
    for (const int number : numbers) {
        if (const std::error_code error = io::route_signal(number, ends[1])) {
            return failure(error);
        }
    }
    return signal;
}

Signal::~Signal() {
    if (route_) {
        io::unroute_signals(route_.get());
    }
}

} // namespace penstock
