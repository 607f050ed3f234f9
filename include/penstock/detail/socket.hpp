#pragma once

#include <sys/socket.h>

#include <penstock/result.hpp>

namespace penstock::detail {

/// A new socket, non-blocking and closed on exec. Errors: socket(2)'s.
[[nodiscard]] Result<int> open_socket(int family, int type, int protocol = 0) noexcept;

/// setsockopt(2) and getsockopt(2) of an `int`; without a socket (-1) `bad_file_descriptor`.
[[nodiscard]] Result<> set_option(int fd, int level, int option, int value) noexcept;
[[nodiscard]] Result<int> get_option(int fd, int level, int option) noexcept;

} // namespace penstock::detail
