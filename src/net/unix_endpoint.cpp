#include <penstock/net/unix_endpoint.hpp>

#include <algorithm>
#include <cstring>

namespace penstock::net {

namespace {

// One byte is the terminating zero of a path or the leading zero of an abstract name.
constexpr std::size_t longest_name = sizeof(sockaddr_un::sun_path) - 1;

} // namespace

UnixEndpoint::UnixEndpoint() noexcept {
    address_.sun_family = AF_UNIX;
}

Result<UnixEndpoint> UnixEndpoint::path(std::string_view path) {
    if (path.empty() || path.find('\0') != std::string_view::npos) {
        return failure(std::errc::invalid_argument);
    }
    if (path.size() > longest_name) {
        return failure(std::errc::filename_too_long);
    }
    UnixEndpoint endpoint;
    std::ranges::copy(path, endpoint.address_.sun_path);
    endpoint.size_ = name_offset + static_cast<socklen_t>(path.size()) + 1;
    return endpoint;
}

Result<UnixEndpoint> UnixEndpoint::abstract(std::string_view name) {
    if (name.empty()) {
        return failure(std::errc::invalid_argument);
    }
    if (name.size() > longest_name) {
        return failure(std::errc::filename_too_long);
    }
    UnixEndpoint endpoint;
    std::ranges::copy(name, endpoint.address_.sun_path + 1);
    endpoint.size_ = name_offset + static_cast<socklen_t>(name.size()) + 1;
    return endpoint;
}

Result<UnixEndpoint> UnixEndpoint::from_native(const sockaddr* address, socklen_t size) {
    if (size < name_offset || size > sizeof(sockaddr_un) || address->sa_family != AF_UNIX) {
        return failure(std::errc::address_family_not_supported);
    }
    UnixEndpoint endpoint;
    std::memcpy(&endpoint.address_, address, size);
    endpoint.size_ = size;
    return endpoint;
}

std::string UnixEndpoint::name() const {
    if (is_unnamed()) {
        return {};
    }
    const std::size_t length = size_ - name_offset;
    if (is_abstract()) {
        return {address_.sun_path + 1, length - 1};
    }
    // The kernel's size includes the terminating zero if there was room for it.
    return {address_.sun_path, strnlen(address_.sun_path, length)};
}

std::string UnixEndpoint::to_string() const {
    return is_abstract() ? "@" + name() : name();
}

} // namespace penstock::net
