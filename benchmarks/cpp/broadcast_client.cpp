// The load of a broadcast over WebSockets: the first connection sends a message, and every
// connection receives it. The next one is sent when all have it.
//
// A request is the delivery of a message to one connection. It shares no code with the measured
// servers. Each message has its number as its text; each delivery must be one frame with it.

#include "closed_loop.hpp"
#include "plain_channel.hpp"

#include <array>
#include <string>
#include <vector>

namespace {

using bench::checked;
using bench::Nanoseconds;
using bench::now;

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\n"
                                      "Host: 127.0.0.1\r\n"
                                      "Upgrade: websocket\r\n"
                                      "Connection: Upgrade\r\n"
                                      "Sec-WebSocket-Version: 13\r\n"
                                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
constexpr std::string_view kAccept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
constexpr std::size_t kSize = 64;

class Broadcast {
public:
    explicit Broadcast(const bench::LoadOptions& options)
        : options_(options), region_(options.server_pid),
          epoll_(checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")) {
        for (std::size_t number = 0; number < options.connections; ++number) {
            open();
        }
    }

    void run() {
        const Nanoseconds warm = now(CLOCK_MONOTONIC) + bench::to_ns(options_.warmup);
        do {
            round();
        } while (now(CLOCK_MONOTONIC) < warm);
        latency_.clear();
        std::uint64_t deliveries = 0;
        region_.begin();
        const Nanoseconds end = region_.begun + bench::to_ns(options_.seconds);
        do {
            round();
            deliveries += connections_.size();
        } while (options_.requests != 0 ? deliveries < options_.requests
                                        : now(CLOCK_MONOTONIC) < end);
        region_.end();
        for (const Connection& connection : connections_) {
            close(connection.fd);
        }
        bench::print_figures(deliveries, number_ * connections_.size(), region_, latency_);
    }

private:
    struct Connection {
        int fd = -1;
        std::string received;
        bool has_it = false;
    };

    void open() {
        Connection connection;
        connection.fd = bench::connect_to(options_.address);
        send_all(connection.fd, kRequest);
        std::string head;
        while (head.find("\r\n\r\n") == std::string::npos) {
            std::array<char, 4096> part{};
            const ssize_t count = checked(recv(connection.fd, part.data(), part.size(), 0), "recv");
            if (count == 0) {
                throw std::runtime_error("the server closed the connection in the handshake");
            }
            head.append(part.data(), static_cast<std::size_t>(count));
        }
        if (head.rfind("HTTP/1.1 101 ", 0) != 0 || head.find(kAccept) == std::string::npos) {
            throw std::runtime_error("the server has refused the handshake");
        }
        connection.received = head.substr(head.find("\r\n\r\n") + 4);
        bench::watch(epoll_, EPOLL_CTL_ADD, connection.fd, EPOLLIN, connections_.size());
        connections_.push_back(std::move(connection));
    }

    static void send_all(int fd, std::string_view data) {
        while (!data.empty()) {
            data.remove_prefix(static_cast<std::size_t>(
                checked(send(fd, data.data(), data.size(), MSG_NOSIGNAL), "send")));
        }
    }

    // Sends one message and waits until all connections have it.
    void round() {
        const Nanoseconds began = now(CLOCK_MONOTONIC);
        std::string text = std::to_string(++number_);
        text.resize(kSize, ' ');
        expected_ = std::string{'\x81', static_cast<char>(kSize)} + text;
        const std::string mask(4, '\0'); // a mask of zeros leaves the text as it is
        std::string frame{'\x81', static_cast<char>(0x80 | kSize)};
        send_all(connections_.front().fd, frame + mask + text);
        waiting_ = connections_.size();
        for (Connection& connection : connections_) {
            connection.has_it = false;
            judge(connection);
        }
        while (waiting_ > 0) {
            const int ready = epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()),
                                         bench::kReplyTimeoutMs);
            if (ready < 0 && errno == EINTR) {
                continue;
            }
            if (checked(ready, "epoll_wait") == 0) {
                throw std::runtime_error("no delivery within 5 s: the server is stuck");
            }
            for (int i = 0; i < ready; ++i) {
                receive(connections_[events_[i].data.u64]);
            }
        }
        latency_.add(now(CLOCK_MONOTONIC) - began);
    }

    void receive(Connection& connection) {
        std::array<char, 4096> part{};
        const ssize_t count =
            checked(recv(connection.fd, part.data(), part.size(), MSG_DONTWAIT), "recv");
        if (count == 0) {
            throw std::runtime_error("the server closed a connection");
        }
        connection.received.append(part.data(), static_cast<std::size_t>(count));
        judge(connection);
    }

    void judge(Connection& connection) {
        if (connection.has_it || connection.received.size() < expected_.size()) {
            if (connection.has_it && !connection.received.empty()) {
                throw std::runtime_error("a message was delivered twice");
            }
            return;
        }
        if (connection.received != expected_) {
            throw std::runtime_error("a delivery differs from the message that was sent");
        }
        connection.received.clear();
        connection.has_it = true;
        --waiting_;
    }

    bench::LoadOptions options_;
    bench::TimedRegion region_;
    int epoll_;
    std::vector<Connection> connections_;
    std::array<epoll_event, 256> events_{};
    std::string expected_;
    std::uint64_t number_ = 0;
    std::size_t waiting_ = 0;
    bench::Histogram latency_;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_load("broadcast_client", [&] {
        Broadcast(bench::parse_options<bench::LoadOptions>(argc, argv)).run();
    });
}
