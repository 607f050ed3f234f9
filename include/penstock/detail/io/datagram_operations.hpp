#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include <sys/types.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/net/datagram.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::detail {

/// recvmsg(2), sendto(2) and sendmmsg(2). They return -1 and `errno` on an error. The last one
/// sends as many datagrams as one call takes.
[[nodiscard]] ssize_t receive_datagram(int fd, MutableBytes into,
                                       net::ReceivedDatagram& received) noexcept;
[[nodiscard]] ssize_t send_datagram(int fd, Bytes from,
                                    const std::optional<net::Endpoint>& to) noexcept;
[[nodiscard]] int send_datagrams(int fd, std::span<const net::OutgoingDatagram> datagrams) noexcept;

class ReceiveDatagramOperation final
    : public SystemCallOperation<ReceiveDatagramOperation, net::ReceivedDatagram> {
public:
    ReceiveDatagramOperation(Pollable* pollable, MutableBytes into) noexcept
        : SystemCallOperation(pollable, Direction::reading), into_(into) {}

    bool attempt() noexcept {
        return receive_datagram(fd(), into_, received_) >= 0 || fail_unless_would_block();
    }

    [[nodiscard]] const net::ReceivedDatagram& result() const noexcept { return received_; }

private:
    MutableBytes into_;
    net::ReceivedDatagram received_;
};

class ReceiveBatchOperation final : public SystemCallOperation<ReceiveBatchOperation, std::size_t> {
public:
    ReceiveBatchOperation(Pollable* pollable, net::DatagramBatch& batch) noexcept
        : SystemCallOperation(pollable, Direction::reading), batch_(&batch) {}

    bool attempt() noexcept {
        const int count = batch_->receive_from(fd());
        if (count >= 0 && static_cast<std::size_t>(count) < batch_->capacity()) {
            mark_not_ready();
        }
        return count >= 0 || fail_unless_would_block();
    }

    [[nodiscard]] std::size_t result() const noexcept { return batch_->size(); }

private:
    net::DatagramBatch* batch_;
};

class SendDatagramOperation final : public SystemCallOperation<SendDatagramOperation, void> {
public:
    SendDatagramOperation(Pollable* pollable, Bytes from,
                          const std::optional<net::Endpoint>& to) noexcept
        : SystemCallOperation(pollable, Direction::writing), from_(from), to_(to) {}

    bool attempt() noexcept {
        return send_datagram(fd(), from_, to_) >= 0 || fail_unless_would_block();
    }

private:
    Bytes from_;
    std::optional<net::Endpoint> to_;
};

class SendBatchOperation final : public SystemCallOperation<SendBatchOperation, void> {
public:
    SendBatchOperation(Pollable* pollable,
                       std::span<const net::OutgoingDatagram> datagrams) noexcept
        : SystemCallOperation(pollable, Direction::writing), left_(datagrams) {}

    bool attempt() noexcept {
        while (!left_.empty()) {
            const int count = send_datagrams(fd(), left_);
            if (count < 0) {
                return fail_unless_would_block();
            }
            left_ = left_.subspan(static_cast<std::size_t>(count));
        }
        return true;
    }

private:
    std::span<const net::OutgoingDatagram> left_;
};

} // namespace penstock::detail
