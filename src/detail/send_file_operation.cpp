#include <penstock/detail/send_file_operation.hpp>

#include <algorithm>
#include <cerrno>

#include <sys/sendfile.h>

#include "detail/pipe_signal.hpp"

namespace penstock::detail {

// One call each time: it fills the socket's buffer, and a fast receiver must not keep the loop from
// everybody else.
bool SendFileOperation::attempt() noexcept {
    constexpr std::uint64_t most = 0x7ffff000; // sendfile(2)
    if (left_ == 0) {
        return true;
    }
    auto position = static_cast<off_t>(offset_);
    ssize_t count = 0;
    {
        errno = 0;
        const WithoutPipeSignal guard;
        count = uninterrupted(
            [&] { return ::sendfile(fd(), file_, &position, std::min(left_, most)); });
    }
    if (count < 0) {
        return failed_for_good();
    }
    const auto sent = static_cast<std::uint64_t>(count);
    offset_ += sent;
    sent_ += sent;
    left_ -= sent;
    return count == 0 || left_ == 0;
}

} // namespace penstock::detail
