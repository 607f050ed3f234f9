// The floor of the UDP page: the cheapest datagram echo server that is still correct.
//
// Level-triggered epoll; one system call receives up to sixteen datagrams and one sends the
// replies. What a loop costs beyond this program is the cost of the loop.
//
// Prints its port as one line when it is ready. Exits at the end of its standard input.

#include "checked.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <unistd.h>
#include <vector>

namespace {

using bench::checked;
using bench::restarted;

constexpr std::size_t kBatch = 16;
constexpr std::size_t kLargest = std::size_t{64} * 1024 + 17 * 64;

class UdpFloor {
public:
    UdpFloor() {
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        socket_ = checked(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "socket");
        sockaddr_in address = bench::loopback(0);
        socklen_t length = sizeof address;
        auto* generic = reinterpret_cast<sockaddr*>(&address);
        checked(bind(socket_, generic, length), "bind");
        checked(getsockname(socket_, generic, &length), "getsockname");
        port_ = ntohs(address.sin_port);
        bench::watch(epoll_, EPOLL_CTL_ADD, socket_, EPOLLIN, static_cast<std::uint64_t>(socket_));
        // A regular file or /dev/null cannot be watched; such a server runs until it is killed.
        epoll_event event{};
        event.events = EPOLLIN | EPOLLHUP;
        event.data.u64 = STDIN_FILENO;
        epoll_ctl(epoll_, EPOLL_CTL_ADD, STDIN_FILENO, &event);
        for (std::size_t i = 0; i < kBatch; ++i) {
            chunks_[i].iov_base = buffer_.data() + i * kLargest;
            messages_[i].msg_hdr.msg_iov = &chunks_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
            messages_[i].msg_hdr.msg_name = &peers_[i];
        }
    }

    [[nodiscard]] unsigned port() const { return port_; }

    void run() {
        std::array<epoll_event, 2> events{};
        while (true) {
            const int ready = restarted(
                [&] { return epoll_wait(epoll_, events.data(), events.size(), -1); }, "epoll_wait");
            for (int i = 0; i < ready; ++i) {
                if (events[static_cast<std::size_t>(i)].data.u64 != STDIN_FILENO) {
                    echo();
                } else if (read(STDIN_FILENO, buffer_.data(), buffer_.size()) <= 0) {
                    return;
                }
            }
        }
    }

private:
    // One more than arrived the last time, so that a single datagram does not pay for empty slots.
    void echo() {
        for (unsigned i = 0; i < expected_; ++i) {
            messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_in);
            chunks_[i].iov_len = kLargest;
        }
        const int count = recvmmsg(socket_, messages_.data(), expected_, MSG_DONTWAIT, nullptr);
        if (count < 0 && (errno == EAGAIN || errno == ECONNREFUSED)) {
            return;
        }
        const auto received = static_cast<unsigned>(checked(count, "recvmmsg"));
        for (unsigned i = 0; i < received; ++i) {
            chunks_[i].iov_len = messages_[i].msg_len;
        }
        // Replies that do not fit into the socket buffer are dropped, as datagrams may be.
        sendmmsg(socket_, messages_.data(), received, MSG_DONTWAIT);
        expected_ = std::min<unsigned>(received + 1, kBatch);
    }

    int epoll_ = -1;
    int socket_ = -1;
    unsigned port_ = 0;
    unsigned expected_ = 1;
    std::vector<char> buffer_ = std::vector<char>(kBatch * kLargest);
    std::array<mmsghdr, kBatch> messages_{};
    std::array<iovec, kBatch> chunks_{};
    std::array<sockaddr_in, kBatch> peers_{};
};

} // namespace

int main() {
    try {
        UdpFloor server;
        std::printf("%u\n", server.port());
        std::fflush(stdout);
        server.run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "udp_floor: %s\n", error.what());
        return 1;
    }
    return 0;
}
