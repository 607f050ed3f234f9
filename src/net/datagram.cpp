#include <penstock/net/datagram.hpp>

#include <cerrno>
#include <stdexcept>
#include <string>

#include <sys/uio.h>

#include <penstock/detail/io/pollable.hpp>

namespace penstock::net {

namespace {

constexpr std::size_t largest_batch = 1024; // UIO_MAXIOV of the kernel: recvmmsg(2) takes no more
constexpr std::size_t largest_datagram = 65'536; // larger than any datagram

} // namespace

struct DatagramBatch::Room {
    Room(std::size_t capacity, std::size_t datagram_size)
        : datagram_size(datagram_size), memory(capacity * datagram_size), senders(capacity),
          parts(capacity), messages(capacity) {
        for (std::size_t i = 0; i < capacity; ++i) {
            parts[i] = {.iov_base = memory.data() + i * datagram_size, .iov_len = datagram_size};
            msghdr& header = messages[i].msg_hdr;
            header.msg_name = &senders[i];
            header.msg_iov = &parts[i];
            header.msg_iovlen = 1;
        }
    }

    std::size_t datagram_size;
    std::size_t received = 0;
    std::vector<std::byte> memory;
    std::vector<sockaddr_in6> senders; // the larger of the two families
    std::vector<iovec> parts;
    std::vector<mmsghdr> messages;
};

DatagramBatch::DatagramBatch(std::size_t capacity, std::size_t datagram_size) {
    if (capacity < 1 || capacity > largest_batch || datagram_size < 1 ||
        datagram_size > largest_datagram) {
        throw std::invalid_argument(
            "a batch of " + std::to_string(capacity) + " datagrams of " +
            std::to_string(datagram_size) +
            " bytes: a batch holds 1 to 1024 datagrams of 1 to 65536 bytes");
    }
    room_ = std::make_unique<Room>(capacity, datagram_size);
}

DatagramBatch::~DatagramBatch() = default;
DatagramBatch::DatagramBatch(DatagramBatch&& other) noexcept = default;
DatagramBatch& DatagramBatch::operator=(DatagramBatch&& other) noexcept = default;

std::size_t DatagramBatch::capacity() const noexcept {
    return room_ ? room_->messages.size() : 0;
}

std::size_t DatagramBatch::size() const noexcept {
    return room_ ? room_->received : 0;
}

DatagramBatch::Received DatagramBatch::operator[](std::size_t index) const noexcept {
    const mmsghdr& message = room_->messages[index];
    const auto* sender = reinterpret_cast<const sockaddr*>(&room_->senders[index]);
    return {.bytes = MutableBytes(room_->parts[index].iov_base, message.msg_len),
            .sender =
                Endpoint::from_native(sender, message.msg_hdr.msg_namelen).value_or(Endpoint()),
            .truncated = (message.msg_hdr.msg_flags & MSG_TRUNC) != 0};
}

int DatagramBatch::receive_from(int fd) noexcept {
    if (!room_) {
        errno = EINVAL;
        return -1;
    }
    for (mmsghdr& message : room_->messages) {
        message.msg_hdr.msg_namelen = sizeof(sockaddr_in6);
    }
    const int count = detail::uninterrupted([&] {
        return ::recvmmsg(fd, room_->messages.data(), static_cast<unsigned>(room_->messages.size()),
                          MSG_DONTWAIT, nullptr);
    });
    room_->received = count > 0 ? static_cast<std::size_t>(count) : 0;
    return count;
}

} // namespace penstock::net
