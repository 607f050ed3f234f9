#pragma once

#include <sys/socket.h>

#include <penstock/result.hpp>

namespace penstock::detail {

/// Creates a socket, non-blocking and close-on-exec. Errors: those of socket(2).
[[nodiscard]] Result<int> open_socket(int family, int type, int protocol = 0) noexcept;

/// setsockopt(2) and getsockopt(2) with an `int`. Without a socket (-1) they return
/// `bad_file_descriptor`.
[[nodiscard]] Result<> set_option(int fd, int level, int option, int value) noexcept;
[[nodiscard]] Result<int> get_option(int fd, int level, int option) noexcept;

/// Checks that this is a stream socket of the IPv4 or IPv6 family. Errors: those of getsockopt(2),
/// and `wrong_protocol_type`.
[[nodiscard]] Result<> check_tcp_socket(int fd) noexcept;

/// Closes a descriptor in the programs that this process executes, unless it is a standard stream,
/// which they expect.
[[nodiscard]] Result<> close_on_exec(int fd) noexcept;

} // namespace penstock::detail
