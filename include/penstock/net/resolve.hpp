#pragma once

#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>
#include <penstock/task.hpp>

namespace penstock::net {

/// The reasons of getaddrinfo(3), by its EAI_ numbers. Two of them compare equal to a `std::errc`:
/// EAI_AGAIN to `resource_unavailable_try_again`, EAI_MEMORY to `not_enough_memory`.
[[nodiscard]] const std::error_category& resolve_category() noexcept;

/// The addresses of a host, IPv4 and IPv6, as the system finds them (getaddrinfo(3): /etc/hosts, DNS,
/// what nsswitch.conf(5) says) and in the order in which it wants them tried (RFC 6724). An address in
/// figures is taken as it is.
///
/// The system's function blocks, so it runs on a worker thread; when the task is cancelled it is still
/// awaited, which may take as long as the system's own time-outs (resolv.conf(5)).
///
/// Errors: `resolve_category()`, EAI_NONAME for a name that does not exist; the kernel's;
/// `invalid_argument` for a name with a zero byte.
[[nodiscard]] Task<Result<std::vector<Endpoint>>> resolve(std::string host, std::uint16_t port);

} // namespace penstock::net
