// The load of the echo pages: N connections, each with exactly one message in flight.
//
// A connection sends a message, waits for the whole reply, compares it byte for byte, and sends the
// next one, which carries a new counter: a stale, lost, mixed-up or doubled reply cannot pass. The
// server's CPU clock is read here, at the two ends of the timed region, so that start-up, warm-up
// and the runner's own latency are in no figure.
//
// Prints one JSON line; a failure is one line on standard error and exit code 1.
#pragma once

#include "checked.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace bench {

using Nanoseconds = std::int64_t;

constexpr std::size_t kSmallestMessage = 16; // counter and connection number
constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;
constexpr int kReplyTimeoutMs = 5000;

struct Options {
    std::uint16_t port = 0;
    std::size_t size = 1024;
    std::size_t connections = 32;
    double seconds = 1.0;
    double warmup = 0.25;
    std::uint64_t requests = 0; // when not 0: this many instead of a fixed time
    pid_t server_pid = 0;
};

inline Nanoseconds now(clockid_t clock) {
    timespec value{};
    checked(clock_gettime(clock, &value), "clock_gettime");
    return Nanoseconds{value.tv_sec} * 1'000'000'000 + value.tv_nsec;
}

// Log-linear buckets, 64 to an octave: 1.6 % resolution in constant space and a few ns an entry.
class Histogram {
public:
    void add(Nanoseconds value) {
        ++counts_[bucket(static_cast<std::uint64_t>(std::max<Nanoseconds>(value, 1)))];
        ++total_;
        largest_ = std::max(largest_, value);
    }

    void clear() { *this = Histogram{}; }

    [[nodiscard]] double quantile_us(double share) const {
        const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(total_));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen > wanted) {
                return lower_edge(i) / 1e3;
            }
        }
        return max_us();
    }

    [[nodiscard]] double max_us() const { return static_cast<double>(largest_) / 1e3; }

private:
    static constexpr unsigned kFraction = 6;

    static std::size_t bucket(std::uint64_t value) {
        if (value < (1U << kFraction)) {
            return value;
        }
        const unsigned octave = 63U - static_cast<unsigned>(__builtin_clzll(value));
        const unsigned shift = octave - kFraction;
        return (static_cast<std::size_t>(shift + 1) << kFraction) +
               static_cast<std::size_t>((value >> shift) - (1U << kFraction));
    }

    static double lower_edge(std::size_t index) {
        const std::size_t octave = index >> kFraction;
        const std::size_t fraction = index & ((1U << kFraction) - 1);
        if (octave == 0) {
            return static_cast<double>(index);
        }
        return static_cast<double>(((std::uint64_t{1} << kFraction) + fraction) << (octave - 1));
    }

    std::array<std::uint64_t, 60 << kFraction> counts_{};
    std::uint64_t total_ = 0;
    Nanoseconds largest_ = 0;
};

template <typename Channel> struct EchoConnection {
    int fd = -1;
    Channel channel;
    std::uint32_t number = 0;
    std::uint64_t counter = 0;
    std::size_t sent = 0;
    std::size_t received = 0;
    bool waits_for_room = false;
    Nanoseconds started = 0;
    std::vector<char> message;
};

/// `Channel` is how a connection's bytes travel: `open(fd)` after connect(2), `receive` and `send`
/// which return a count, or -1 when they would block, 0 at the end; they throw on errors.
template <typename Channel> class EchoClient {
public:
    using Connection = EchoConnection<Channel>;

    explicit EchoClient(const Options& options) : options_(options) {
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        if (options.server_pid != 0) {
            clockid_t clock{};
            if (const int error = clock_getcpuclockid(options.server_pid, &clock); error != 0) {
                throw std::system_error(error, std::generic_category(), "clock_getcpuclockid");
            }
            server_clock_ = clock;
        }
        connections_.resize(options.connections);
        for (std::size_t i = 0; i < connections_.size(); ++i) {
            connect(connections_[i], static_cast<std::uint32_t>(i));
        }
    }

    void run() {
        const Nanoseconds warm = now(CLOCK_MONOTONIC) + to_ns(options_.warmup);
        for (Connection& connection : connections_) {
            connection.started = now(CLOCK_MONOTONIC);
            next_message(connection);
        }
        Nanoseconds time = 0;
        do {
            time = turn();
        } while (time < warm);

        completed_ = 0;
        latency_.clear();
        const Nanoseconds server_before = server_cpu();
        const Nanoseconds client_before = now(CLOCK_PROCESS_CPUTIME_ID);
        const Nanoseconds begin = now(CLOCK_MONOTONIC);
        const Nanoseconds end = begin + to_ns(options_.seconds);
        do {
            time = turn();
        } while (options_.requests != 0 ? completed_ < options_.requests : time < end);
        const Nanoseconds elapsed = now(CLOCK_MONOTONIC) - begin;
        const Nanoseconds client_used = now(CLOCK_PROCESS_CPUTIME_ID) - client_before;
        const Nanoseconds server_used = server_cpu() - server_before;
        const std::uint64_t requests = completed_;
        finish();
        report(requests, elapsed, server_used, client_used);
    }

private:
    static Nanoseconds to_ns(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

    Nanoseconds server_cpu() const { return server_clock_ ? now(*server_clock_) : 0; }

    // Takes the replies still under way, so that the connections end in order and not by a reset.
    void finish() {
        finishing_ = true;
        while (in_flight_ > 0) {
            turn();
        }
        for (Connection& connection : connections_) {
            connection.channel.end();
            close(connection.fd);
        }
    }

    void connect(Connection& connection, std::uint32_t number) {
        connection.number = number;
        connection.message.resize(options_.size);
        for (std::size_t i = 0; i < options_.size; ++i) {
            connection.message[i] =
                static_cast<char>('!' + (i * 31 + std::size_t{number} * 7) % 90);
        }
        connection.fd = checked(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
        const sockaddr_in address = loopback(options_.port);
        checked(
            ::connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address),
            "connect");
        set_no_delay(connection.fd);
        connection.channel.open(connection.fd);
        watch(epoll_, EPOLL_CTL_ADD, connection.fd, EPOLLIN, number);
    }

    // One epoll_wait and everything it brought; the time at its end.
    Nanoseconds turn() {
        const int ready =
            epoll_wait(epoll_, events_.data(), static_cast<int>(events_.size()), kReplyTimeoutMs);
        if (ready < 0 && errno == EINTR) {
            return now(CLOCK_MONOTONIC);
        }
        checked(ready, "epoll_wait");
        if (ready == 0) {
            throw std::runtime_error("no reply within 5 s on any connection: the server is stuck");
        }
        time_ = now(CLOCK_MONOTONIC);
        for (int i = 0; i < ready; ++i) {
            Connection& connection = connections_[events_[i].data.u64];
            if ((events_[i].events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
                receive(connection);
            }
            if ((events_[i].events & EPOLLOUT) != 0 && connection.waits_for_room) {
                transmit(connection);
            }
        }
        return time_;
    }

    void receive(Connection& connection) {
        while (receive_part(connection)) {
        }
    }

    // Whether more may be there without another event.
    bool receive_part(Connection& connection) {
        const ssize_t count = connection.channel.receive(buffer_.data(), buffer_.size());
        if (count < 0) {
            return false;
        }
        if (count == 0) {
            fail(connection, "the server closed the connection");
        }
        const auto size = static_cast<std::size_t>(count);
        if (connection.received + size > connection.sent) {
            fail(connection, "the reply is longer than the message");
        }
        if (std::memcmp(buffer_.data(), connection.message.data() + connection.received, size) !=
            0) {
            fail(connection, "the reply differs from the message");
        }
        connection.received += size;
        if (connection.received == options_.size) {
            time_ = now(CLOCK_MONOTONIC);
            latency_.add(time_ - connection.started);
            ++completed_;
            ++replies_;
            connection.started = time_;
            --in_flight_;
            if (!finishing_) {
                next_message(connection);
            }
            return false;
        }
        return Channel::buffers;
    }

    void next_message(Connection& connection) {
        ++connection.counter;
        std::memcpy(connection.message.data(), &connection.counter, sizeof connection.counter);
        std::memcpy(connection.message.data() + sizeof connection.counter, &connection.number,
                    sizeof connection.number);
        connection.sent = 0;
        connection.received = 0;
        ++in_flight_;
        transmit(connection);
    }

    void transmit(Connection& connection) {
        const ssize_t count = connection.channel.send(connection.message.data() + connection.sent,
                                                      options_.size - connection.sent);
        connection.sent += count > 0 ? static_cast<std::size_t>(count) : 0;
        const bool waits = connection.sent < options_.size;
        if (waits != connection.waits_for_room) {
            connection.waits_for_room = waits;
            const std::uint32_t events = waits ? EPOLLIN | EPOLLOUT : EPOLLIN;
            watch(epoll_, EPOLL_CTL_MOD, connection.fd, events, connection.number);
        }
    }

    [[noreturn]] static void fail(const Connection& connection, const char* what) {
        throw std::runtime_error("connection " + std::to_string(connection.number) + ", message " +
                                 std::to_string(connection.counter) + ", byte " +
                                 std::to_string(connection.received) + ": " + what);
    }

    void report(std::uint64_t requests, Nanoseconds elapsed, Nanoseconds server_used,
                Nanoseconds client_used) const {
        std::printf(
            "{\"requests\": %llu, \"replies\": %llu, \"seconds\": %.9f, \"server_cpu_seconds\": "
            "%.9f, "
            "\"client_cpu_seconds\": %.9f, \"latency_us\": {\"p50\": %.1f, \"p99\": %.1f, "
            "\"max\": %.1f}}\n",
            static_cast<unsigned long long>(requests), static_cast<unsigned long long>(replies_),
            static_cast<double>(elapsed) / 1e9, static_cast<double>(server_used) / 1e9,
            static_cast<double>(client_used) / 1e9, latency_.quantile_us(0.5),
            latency_.quantile_us(0.99), latency_.max_us());
    }

    Options options_;
    int epoll_ = -1;
    std::optional<clockid_t> server_clock_;
    std::vector<Connection> connections_;
    std::array<epoll_event, 256> events_{};
    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
    Histogram latency_;
    std::uint64_t completed_ = 0; // in the timed region
    std::uint64_t replies_ = 0;   // from first to last, warm-up and end included
    std::size_t in_flight_ = 0;
    bool finishing_ = false;
    Nanoseconds time_ = 0;
};

template <typename Number> Number parse(std::string_view name, std::string_view text) {
    Number value{};
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || rest != text.data() + text.size() || value < Number{}) {
        throw std::invalid_argument(std::string(name) +
                                    " takes a number that is not negative, not '" +
                                    std::string(text) + "'");
    }
    return value;
}

inline Options parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) {
            throw std::invalid_argument(std::string(name) + " needs a value");
        }
        const std::string_view text = argv[i + 1];
        if (name == "--port") {
            options.port = parse<std::uint16_t>(name, text);
        } else if (name == "--size") {
            options.size = parse<std::size_t>(name, text);
        } else if (name == "--connections") {
            options.connections = parse<std::size_t>(name, text);
        } else if (name == "--seconds") {
            options.seconds = parse<double>(name, text);
        } else if (name == "--warmup") {
            options.warmup = parse<double>(name, text);
        } else if (name == "--requests") {
            options.requests = parse<std::uint64_t>(name, text);
        } else if (name == "--server-pid") {
            options.server_pid = parse<pid_t>(name, text);
        } else {
            throw std::invalid_argument("unknown option '" + std::string(name) + "'");
        }
    }
    if (options.port == 0) {
        throw std::invalid_argument("--port is needed: the port that the server has printed");
    }
    if (options.size < kSmallestMessage) {
        throw std::invalid_argument("--size must be at least 16, the room of the counter");
    }
    if (options.connections == 0) {
        throw std::invalid_argument("--connections must be at least 1");
    }
    return options;
}

/// The client's main(): 0, or 1 with one line on standard error.
template <typename Channel> int run_client(const char* name, int argc, char** argv) {
    try {
        EchoClient<Channel>(parse_options(argc, argv)).run();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}

} // namespace bench
