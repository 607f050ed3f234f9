#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::net {

/// The errors of getaddrinfo(3), by their EAI_ numbers. EAI_AGAIN compares equal to
/// `resource_unavailable_try_again`, EAI_MEMORY to `not_enough_memory`.
[[nodiscard]] const std::error_category& resolve_category() noexcept;

/// The IPv4 and IPv6 addresses of a host, as getaddrinfo(3) finds them (/etc/hosts, DNS,
/// nsswitch.conf(5)), in the order in which they should be tried (RFC 6724). A numeric address is
/// returned as it is.
///
/// getaddrinfo blocks, so it runs on a worker thread.
///
/// Cancellation: a look-up that has not started returns `operation_canceled`. A cancelled task
/// still waits for one that has started, which may take as long as the system's own time-outs
/// (resolv.conf(5)).
///
/// Errors: `resolve_category()`, such as EAI_NONAME for an unknown name; errors of the kernel;
/// `invalid_argument` for a name with a zero byte.
[[nodiscard]] Task<Result<std::vector<Endpoint>>> resolve(std::string host, std::uint16_t port);

} // namespace penstock::net
