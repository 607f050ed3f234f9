#include "net/datagram_batch.hpp"

namespace penstock::python {

DatagramBatch::DatagramBatch()
    : buffer_(std::make_unique_for_overwrite<char[]>(capacity * slot_size)) {
    for (std::size_t i = 0; i < capacity; ++i) {
        chunks_[i] = {.iov_base = buffer_.get() + i * slot_size, .iov_len = slot_size};
        messages_[i].msg_hdr.msg_iov = &chunks_[i];
        messages_[i].msg_hdr.msg_iovlen = 1;
        messages_[i].msg_hdr.msg_name = &senders_[i];
    }
}

int DatagramBatch::receive(int fd, int wanted) noexcept {
    for (int i = 0; i < wanted; ++i) {
        messages_[static_cast<std::size_t>(i)].msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    }
    return ::recvmmsg(fd, messages_.data(), static_cast<unsigned>(wanted), MSG_DONTWAIT, nullptr);
}

int DatagramBatch::receive_whole(int fd) noexcept {
    mmsghdr& message = messages_[0];
    message.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    const ssize_t count =
        ::recvfrom(fd, buffer_.get(), whole_size, MSG_DONTWAIT,
                   reinterpret_cast<sockaddr*>(&senders_[0]), &message.msg_hdr.msg_namelen);
    message.msg_len = count < 0 ? 0 : static_cast<unsigned>(count);
    return count < 0 ? -1 : 1;
}

DatagramBatch::Datagram DatagramBatch::operator[](int index) const noexcept {
    const auto i = static_cast<std::size_t>(index);
    return {.data = static_cast<const char*>(chunks_[i].iov_base),
            .size = messages_[i].msg_len,
            .sender = reinterpret_cast<const sockaddr*>(&senders_[i]),
            .sender_length = messages_[i].msg_hdr.msg_namelen};
}

} // namespace penstock::python
