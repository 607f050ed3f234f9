#pragma once

#include <string>
#include <string_view>

#include <sys/socket.h>
#include <sys/un.h>

#include <penstock/result.hpp>

namespace penstock::net {

/// The address of a Unix socket (unix(7)): a path, an abstract name, or unnamed (a socket that was
/// never bound).
class UnixEndpoint {
public:
    /// Unnamed.
    UnixEndpoint() noexcept;

    /// A path in the file system, at most 107 bytes. Errors: `filename_too_long` beyond that,
    /// `invalid_argument` if it is empty or contains a zero byte. A relative path can reach a
    /// longer one.
    [[nodiscard]] static Result<UnixEndpoint> path(std::string_view path);

    /// An abstract name: no file, and it disappears with its socket. 1 to 107 bytes of any value.
    /// All processes of the network namespace can connect: an abstract name has no permissions.
    [[nodiscard]] static Result<UnixEndpoint> abstract(std::string_view name);

    /// From the kernel's form. Returns `address_family_not_supported` for other families.
    [[nodiscard]] static Result<UnixEndpoint> from_native(const sockaddr* address, socklen_t size);

    [[nodiscard]] bool is_path() const noexcept {
        return !is_unnamed() && address_.sun_path[0] != 0;
    }
    [[nodiscard]] bool is_abstract() const noexcept {
        return !is_unnamed() && address_.sun_path[0] == 0;
    }
    [[nodiscard]] bool is_unnamed() const noexcept { return size_ <= name_offset; }

    /// The path, or the abstract name without its leading zero byte.
    [[nodiscard]] std::string name() const;

    /// The path, `@name` for an abstract name, or an empty string.
    [[nodiscard]] std::string to_string() const;

    [[nodiscard]] const sockaddr* native() const noexcept {
        return reinterpret_cast<const sockaddr*>(&address_);
    }
    [[nodiscard]] socklen_t native_size() const noexcept { return size_; }

    [[nodiscard]] friend bool operator==(const UnixEndpoint& left, const UnixEndpoint& right) {
        return left.to_string() == right.to_string();
    }

private:
    static constexpr socklen_t name_offset = offsetof(sockaddr_un, sun_path);

    sockaddr_un address_{};
    socklen_t size_ = name_offset;
};

} // namespace penstock::net
