#pragma once

#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>

#include <sys/socket.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/detail/io/socket.hpp>

namespace penstock::detail {

/// connect(2) of a new socket. `Address` has `native()` and `native_size()`. `Stream` is
/// constructed from the connected pollable. Cancellation closes the socket, which ends the attempt.
template <typename Stream, typename Address>
class ConnectOperation final
    : public SystemCallOperation<ConnectOperation<Stream, Address>, Stream> {
    using Base = SystemCallOperation<ConnectOperation, Stream>;

public:
    ConnectOperation(std::unique_ptr<Pollable> socket, const Address& address) noexcept
        : Base(socket.get(), Direction::writing), socket_(std::move(socket)), address_(address) {}

    /// An attempt that has already failed.
    explicit ConnectOperation(std::error_code error) noexcept : Base(nullptr, Direction::writing) {
        this->error_ = error;
    }

    bool attempt() noexcept {
        if (!begun_) {
            begun_ = true;
            // After a signal, connect(2) continues as after EINPROGRESS.
            if (::connect(this->fd(), address_.native(), address_.native_size()) == 0) {
                return true;
            }
            return errno != EINPROGRESS && errno != EINTR && this->fail();
        }
        const Result<int> outcome = get_option(this->fd(), SOL_SOCKET, SO_ERROR);
        if (!outcome || *outcome != 0) {
            this->error_ =
                outcome ? std::error_code(*outcome, std::system_category()) : outcome.error();
        }
        return true;
    }

    [[nodiscard]] Stream result() noexcept { return Stream(std::move(socket_)); }

private:
    std::unique_ptr<Pollable> socket_;
    Address address_;
    bool begun_ = false;
};

} // namespace penstock::detail
