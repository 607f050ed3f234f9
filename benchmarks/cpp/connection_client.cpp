// The load of the memory page: many connections, each of which has one message echoed. With --body,
// the message is an HTTP request, and the echo the response with that body: for the asgi page.
//
// With --hold the connections stay open until standard input ends; "ready" is printed once all are
// open. With --total, that many connections are opened, used and closed in groups of --connections.
// Each connection checks its echo, so only connections that the server has served are counted.

#include "address.hpp"
#include "load_options.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace {

using bench::checked;

// A port number stays in use for a minute after its connection (TIME_WAIT); another source address
// has the full range again.
constexpr std::uint64_t kConnectionsAnAddress = 16'000;
constexpr std::uint64_t kAddresses = 250;
constexpr timeval kReplyTimeout = {.tv_sec = 10, .tv_usec = 0};

struct ConnectionOptions : bench::LoadOptions {
    std::uint64_t total = 0; // 0: hold
    std::string body;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--body") {
            body = text;
            return true;
        }
        if (name == "--total") {
            total = bench::parse<std::uint64_t>(name, text);
            return true;
        }
        return LoadOptions::take(name, text);
    }

    void check() const {
        LoadOptions::check();
        if (address.is_unix()) {
            throw std::invalid_argument("connections are made over TCP: --port");
        }
    }
};

constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";

// Connection `number`, connected to the server.
int open_connection(const ConnectionOptions& options, std::uint64_t number) {
    const int fd = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    bench::enable(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, "setsockopt(IP_BIND_ADDRESS_NO_PORT)");
    sockaddr_in source = bench::loopback(0);
    const std::uint64_t host = 1 + number / kConnectionsAnAddress % kAddresses;
    source.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + static_cast<std::uint32_t>(host));
    checked(bind(fd, reinterpret_cast<const sockaddr*>(&source), sizeof source), "bind");
    const sockaddr_in target = bench::loopback(options.address.port);
    checked(connect(fd, reinterpret_cast<const sockaddr*>(&target), sizeof target), "connect");
    checked(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kReplyTimeout, sizeof kReplyTimeout),
            "setsockopt(SO_RCVTIMEO)");
    if (options.body.empty()) {
        checked(send(fd, &number, sizeof number, MSG_NOSIGNAL), "send");
    } else {
        checked(send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL), "send");
    }
    return fd;
}

void check_echo(int fd, std::uint64_t number) {
    std::uint64_t echo = 0;
    const ssize_t count =
        bench::restarted([&] { return recv(fd, &echo, sizeof echo, MSG_WAITALL); }, "recv");
    if (count != sizeof echo || echo != number) {
        throw std::runtime_error("connection " + std::to_string(number) + ": the echo is wrong");
    }
}

void check_response(int fd, std::uint64_t number, const std::string& body) {
    std::string response;
    while (response.find("\r\n\r\n" + body) == std::string::npos) {
        std::array<char, 4096> part{};
        const ssize_t count =
            bench::restarted([&] { return recv(fd, part.data(), part.size(), 0); }, "recv");
        if (count <= 0) {
            throw std::runtime_error("connection " + std::to_string(number) +
                                     ": the response is wrong");
        }
        response.append(part.data(), static_cast<std::size_t>(count));
    }
    if (response.rfind("HTTP/1.1 200 ", 0) != 0) {
        throw std::runtime_error("connection " + std::to_string(number) + ": the status is wrong");
    }
}

// Opens `count` connections from `first` on and awaits their echoes.
std::vector<int> open_group(const ConnectionOptions& options, std::uint64_t first,
                            std::uint64_t count) {
    std::vector<int> group;
    group.reserve(count);
    for (std::uint64_t i = 0; i < count; ++i) {
        group.push_back(open_connection(options, first + i));
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        if (options.body.empty()) {
            check_echo(group[i], first + i);
        } else {
            check_response(group[i], first + i, options.body);
        }
    }
    return group;
}

void close_group(const std::vector<int>& group) {
    for (const int fd : group) {
        close(fd);
    }
}

void hold(const ConnectionOptions& options) {
    // In groups well below the server's backlog.
    constexpr std::uint64_t kStep = 200;
    std::vector<int> all;
    for (std::uint64_t first = 0; first < options.connections; first += kStep) {
        const std::uint64_t count = std::min<std::uint64_t>(kStep, options.connections - first);
        const std::vector<int> group = open_group(options, first, count);
        all.insert(all.end(), group.begin(), group.end());
    }
    std::puts("ready");
    std::fflush(stdout);
    std::array<char, 64> unused{};
    while (read(STDIN_FILENO, unused.data(), unused.size()) > 0) {
    }
    close_group(all);
}

void churn(const ConnectionOptions& options) {
    for (std::uint64_t first = 0; first < options.total; first += options.connections) {
        const std::uint64_t count =
            std::min<std::uint64_t>(options.connections, options.total - first);
        close_group(open_group(options, first, count));
    }
    std::printf("{\"connections\": %llu}\n", static_cast<unsigned long long>(options.total));
}

} // namespace

int main(int argc, char** argv) {
    try {
        const auto options = bench::parse_options<ConnectionOptions>(argc, argv);
        options.total == 0 ? hold(options) : churn(options);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "connection_client: %s\n", error.what());
        return 1;
    }
    return 0;
}
