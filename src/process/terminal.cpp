#include <penstock/process/terminal.hpp>

#include <array>
#include <cerrno>
#include <cstdlib>

#include <fcntl.h>
#include <sys/ioctl.h>

namespace penstock::process {

namespace detail {

namespace {

ssize_t as_end(ssize_t count) noexcept {
    return count < 0 && errno == EIO ? 0 : count;
}

} // namespace

ssize_t TerminalCalls::read(int fd, MutableBytes into) noexcept {
    return as_end(DescriptorCalls::read(fd, into));
}

ssize_t TerminalCalls::read(int fd, std::span<const iovec> parts) noexcept {
    return as_end(DescriptorCalls::read(fd, parts));
}

} // namespace detail

Result<std::pair<Terminal, std::string>> Terminal::open(TerminalSize size) {
    OwnedDescriptor controller(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    std::array<char, 64> path{};
    if (!controller || ::grantpt(controller.get()) != 0 || ::unlockpt(controller.get()) != 0) {
        return last_failure();
    }
    if (const int error = ::ptsname_r(controller.get(), path.data(), path.size()); error != 0) {
        return failure(std::error_code(error, std::system_category()));
    }
    Result<std::unique_ptr<penstock::detail::Pollable>> pollable =
        penstock::detail::adopt_nonblocking(std::move(controller));
    if (!pollable) {
        return failure(pollable.error());
    }
    Terminal terminal(std::move(*pollable));
    if (const Result<> sized = terminal.resize(size); !sized) {
        return failure(sized.error());
    }
    return std::pair(std::move(terminal), std::string(path.data()));
}

Result<> Terminal::resize(TerminalSize size) noexcept {
    winsize window{};
    window.ws_row = size.rows;
    window.ws_col = size.columns;
    if (::ioctl(native_handle(), TIOCSWINSZ, &window) != 0) {
        return last_failure();
    }
    return {};
}

Result<TerminalSize> Terminal::size() const noexcept {
    winsize window{};
    if (::ioctl(native_handle(), TIOCGWINSZ, &window) != 0) {
        return last_failure();
    }
    return TerminalSize{.rows = window.ws_row, .columns = window.ws_col};
}

} // namespace penstock::process
