// A closed loop: N connections, each with exactly one message in flight.
//
// A connection sends a message, waits for the complete reply, checks it, and sends the next
// message. The server's CPU clock is read here, at both ends of the timed region, so that no figure
// includes start-up, warm-up or the latency of the runner.
//
// Prints one JSON line; a failure is one line on standard error and exit code 1.
#pragma once

#include "clocks.hpp"
#include "histogram.hpp"
#include "load_options.hpp"

#include <array>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace bench {

constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;
constexpr int kReplyTimeoutMs = 5000;

enum class Verdict { more, complete, differs, too_long };

inline const char* complaint(Verdict verdict) {
    return verdict == Verdict::too_long ? "the reply is longer than the one that is due"
                                        : "the reply differs from the one that is due";
}

inline void print_figures(std::uint64_t requests, std::uint64_t replies, const TimedRegion& region,
                          const Histogram& latency) {
    std::printf("{\"requests\": %llu, \"replies\": %llu, \"seconds\": %.9f, "
                "\"server_cpu_seconds\": %.9f, \"client_cpu_seconds\": %.9f, "
                "\"latency_us\": {\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"max\": %.1f}}\n",
                static_cast<unsigned long long>(requests), static_cast<unsigned long long>(replies),
                static_cast<double>(region.elapsed) / 1e9,
                static_cast<double>(region.server_cpu) / 1e9,
                static_cast<double>(region.client_cpu) / 1e9, latency.quantile_us(0.5),
                latency.quantile_us(0.99), latency.quantile_us(0.999), latency.max_us());
}

// `Conversation` is the content of a connection: `start(counter)` returns the next message as a
// view that stays valid until the reply is complete; `take(data, size, sent)` checks a part of the
// reply, where `sent` is how much of the message has been sent.
//
// `Channel` transfers the bytes: `open(fd)` after connect(2), `end()` before close(2); `receive`
// and `send` return a count, -1 if they would block, 0 at the end, and throw on errors; `buffers`
// is true if more data may be available without another event.
template <typename Conversation, typename Channel> class ClosedLoop {
public:
    using Make = std::function<Conversation(std::uint32_t)>;

    ClosedLoop(const LoadOptions& options, const Make& make)
        : options_(options), region_(options.server_pid) {
        epoll_ = checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
        connections_.reserve(options.connections);
        for (std::uint32_t number = 0; number < options.connections; ++number) {
            Connection& connection = connections_.emplace_back(make(number));
            connection.number = number;
            connection.fd = connect_to(options.address);
            connection.channel.open(connection.fd);
            watch(epoll_, EPOLL_CTL_ADD, connection.fd, kEvents, number);
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
        region_.begin();
        const Nanoseconds end = region_.begun + to_ns(options_.seconds);
        do {
            time = turn();
        } while (options_.requests != 0 ? completed_ < options_.requests
                                        : time < end || completed_ == 0);
        region_.end();
        const std::uint64_t requests = completed_;
        finish();
        print_figures(requests, replies_, region_, latency_);
    }

private:
    // Edge-triggered: epoll then does not ask each socket again, after every message, whether there
    // is still something to read. A read that does not fill the buffer has read everything.
    static constexpr std::uint32_t kEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;

    struct Connection {
        explicit Connection(Conversation&& what) : conversation(std::move(what)) {}

        int fd = -1;
        Channel channel;
        Conversation conversation;
        std::uint32_t number = 0;
        std::uint64_t counter = 0;
        std::string_view message;
        std::size_t sent = 0;
        std::size_t received = 0;
        bool waits_for_room = false;
        Nanoseconds started = 0;
    };

    // Receives the outstanding replies, so that the connections end without a reset.
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

    // One epoll_wait and the handling of its events; returns the time at the end.
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
            if ((events_[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
                receive(connection); // data that arrived with the end was read above
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

    // Whether more data may be available without another event.
    bool receive_part(Connection& connection) {
        const ssize_t count = connection.channel.receive(buffer_.data(), buffer_.size());
        if (count < 0) {
            return false;
        }
        if (count == 0) {
            fail(connection, "the server closed the connection");
        }
        const auto size = static_cast<std::size_t>(count);
        const bool may_have_more = Channel::buffers || size == buffer_.size();
        const Verdict verdict = connection.conversation.take(buffer_.data(), size, connection.sent);
        if (verdict == Verdict::more) {
            connection.received += size;
            return may_have_more;
        }
        if (verdict != Verdict::complete) {
            fail(connection, complaint(verdict));
        }
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

    void next_message(Connection& connection) {
        connection.message = connection.conversation.start(++connection.counter);
        connection.sent = 0;
        connection.received = 0;
        ++in_flight_;
        transmit(connection);
    }

    void transmit(Connection& connection) {
        const ssize_t count = connection.channel.send(connection.message.data() + connection.sent,
                                                      connection.message.size() - connection.sent);
        connection.sent += count > 0 ? static_cast<std::size_t>(count) : 0;
        const bool waits = connection.sent < connection.message.size();
        if (waits != connection.waits_for_room) {
            connection.waits_for_room = waits;
            const std::uint32_t events = waits ? kEvents | EPOLLOUT : kEvents;
            watch(epoll_, EPOLL_CTL_MOD, connection.fd, events, connection.number);
        }
    }

    [[noreturn]] static void fail(const Connection& connection, const char* what) {
        throw std::runtime_error("connection " + std::to_string(connection.number) + ", message " +
                                 std::to_string(connection.counter) + ", byte " +
                                 std::to_string(connection.received) + ": " + what);
    }

    LoadOptions options_;
    TimedRegion region_;
    int epoll_ = -1;
    std::vector<Connection> connections_;
    std::array<epoll_event, 256> events_{};
    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
    Histogram latency_;
    std::uint64_t completed_ = 0; // in the timed region
    std::uint64_t replies_ = 0;   // total, including warm-up and end
    std::size_t in_flight_ = 0;
    bool finishing_ = false;
    Nanoseconds time_ = 0;
};

// A load's main(): 0, or 1 with one line on standard error.
template <typename Body> int run_load(const char* name, const Body& body) {
    try {
        body();
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", name, error.what());
        return 1;
    }
    return 0;
}

} // namespace bench
