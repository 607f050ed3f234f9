#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <penstock/detail/io/accept_operation.hpp>
#include <penstock/detail/io/descriptor_owner.hpp>
#include <penstock/net/unix_endpoint.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// A listening Unix socket. One task at a time may accept. A second one gets
/// `device_or_resource_busy`.
///
/// Thread safety: the listener belongs to the loop on which it first waited, and to that loop's
/// thread.
class UnixListener : public detail::DescriptorOwner {
public:
    struct Options {
        /// How many connections may wait to be accepted.
        int backlog = 4096;
        /// The permissions of the socket file, set before anybody can connect. Without a value the
        /// umask decides. A process needs write permission to connect (unix(7)).
        std::optional<mode_t> mode{};
        /// Replaces an existing socket file on which nobody listens: a killed process leaves one. A
        /// file that is not a socket is never removed.
        bool replace_stale = true;
    };

    using Accept = detail::AcceptOperation<UnixStream>;

    /// A closed listener.
    UnixListener() = default;
    UnixListener(UnixListener&&) = default;
    UnixListener& operator=(UnixListener&& other) noexcept {
        UnixListener taken(std::move(other));
        std::swap(pollable_, taken.pollable_);
        std::swap(bound_, taken.bound_);
        return *this;
    }
    ~UnixListener() { close(); }

    /// Binds and listens. Errors: `address_in_use` if somebody listens there or another file
    /// exists, `permission_denied`, `no_such_file_or_directory` if the folder does not exist, and
    /// the others of bind(2).
    [[nodiscard]] static Result<UnixListener> listen(const UnixEndpoint& endpoint,
                                                     const Options& options);
    [[nodiscard]] static Result<UnixListener> listen(const UnixEndpoint& endpoint) {
        return listen(endpoint, Options());
    }

    /// Waits for a connection. See `TcpListener::accept`.
    [[nodiscard]] Accept accept() noexcept { return Accept(pollable_.get()); }

    [[nodiscard]] const UnixEndpoint& local_endpoint() const noexcept { return bound_.endpoint; }

    /// Stops listening and removes the socket file, if it is still the one that `listen` created.
    /// In a forked child the file stays, because the parent still listens. A waiting `accept` gets
    /// `operation_canceled`.
    void close() noexcept;

private:
    /// The path and identity of the socket file.
    struct Bound {
        UnixEndpoint endpoint{};
        dev_t device = 0;
        ino_t inode = 0;
        pid_t process = 0; ///< the process that created it
    };

    UnixListener(std::unique_ptr<detail::Pollable> pollable, const UnixEndpoint& endpoint) noexcept
        : DescriptorOwner(std::move(pollable)), bound_{.endpoint = endpoint} {}

    Bound bound_;
};

} // namespace penstock::net
