#pragma once

#include <memory>
#include <optional>
#include <utility>

#include <sys/types.h>

#include <penstock/detail/accept_operation.hpp>
#include <penstock/net/unix_endpoint.hpp>
#include <penstock/net/unix_stream.hpp>
#include <penstock/result.hpp>

namespace penstock::net {

/// A listening Unix socket. As with a stream, one task at a time accepts, on the loop where it first
/// waited.
class UnixListener {
public:
    struct Options {
        /// How many connections may wait to be accepted.
        int backlog = 4096;
        /// The permissions of the socket's file, set before anybody can connect; without a value the
        /// umask decides. Who may write to the file may connect (unix(7)).
        std::optional<mode_t> mode{};
        /// Removes a socket's file that is there already and on which nobody listens: the leftover of a
        /// process that was killed. A file that is not a socket is never removed.
        bool replace_stale = true;
    };

    using Accept = detail::AcceptOperation<UnixStream>;

    UnixListener() = default;
    UnixListener(UnixListener&&) = default;
    UnixListener& operator=(UnixListener&& other) noexcept {
        UnixListener taken(std::move(other));
        std::swap(pollable_, taken.pollable_);
        std::swap(bound_, taken.bound_);
        return *this;
    }
    ~UnixListener() { close(); }

    /// Binds and listens at once. Errors: `address_in_use` when somebody listens there (or a file is in
    /// the way), `permission_denied`, `no_such_file_or_directory` for the folder.
    [[nodiscard]] static Result<UnixListener> listen(const UnixEndpoint& endpoint,
                                                     const Options& options);
    [[nodiscard]] static Result<UnixListener> listen(const UnixEndpoint& endpoint) {
        return listen(endpoint, Options());
    }

    /// Waits for a connection; as `TcpListener::accept`.
    [[nodiscard]] Accept accept() noexcept { return Accept(pollable_.get()); }

    [[nodiscard]] const UnixEndpoint& local_endpoint() const noexcept { return bound_.endpoint; }

    /// Stops listening and removes the socket's file, if it is still the one that `listen` made; not in a
    /// forked child, whose parent listens on. A waiting `accept` gets `operation_canceled`.
    void close() noexcept;

    [[nodiscard]] bool is_open() const noexcept { return pollable_ != nullptr; }
    [[nodiscard]] int native_handle() const noexcept {
        return pollable_ ? pollable_->descriptor() : -1;
    }

private:
    /// Where the socket's file is, and which one it is.
    struct Bound {
        UnixEndpoint endpoint{};
        dev_t device = 0;
        ino_t inode = 0;
        pid_t process = 0; ///< that made it
    };

    UnixListener(std::unique_ptr<detail::Pollable> pollable, const UnixEndpoint& endpoint) noexcept
        : pollable_(std::move(pollable)), bound_{.endpoint = endpoint} {}

    std::unique_ptr<detail::Pollable> pollable_;
    Bound bound_;
};

} // namespace penstock::net
