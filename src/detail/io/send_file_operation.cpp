#include <penstock/detail/io/send_file_operation.hpp>

#include <algorithm>
#include <cerrno>

#include <sys/sendfile.h>

#include "detail/io/sigpipe_guard.hpp"

namespace penstock::detail {

// One call for each readiness event: it fills the socket buffer. A fast receiver must not
// monopolise the loop.
bool SendFileOperation::attempt() noexcept {
    constexpr std::uint64_t most = 0x7ffff000; // sendfile(2)
    if (left_ == 0) {
        return true;
    }
    auto position = static_cast<off_t>(offset_);
    ssize_t count = 0;
    {
        errno = 0;
        const SigpipeGuard guard;
        count = uninterrupted(
            [&] { return ::sendfile(fd(), file_, &position, std::min(left_, most)); });
    }
    if (count < 0) {
        return fail_unless_would_block();
    }
    const auto sent = static_cast<std::uint64_t>(count);
    offset_ += sent;
    sent_ += sent;
    left_ -= sent;
    return count == 0 || left_ == 0;
}

} // namespace penstock::detail
