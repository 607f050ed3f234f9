// TcpStream::connect to one of several addresses.

#include <deque>
#include <iterator>
#include <utility>

#include <penstock/net/resolve.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/sync/event.hpp>
#include <penstock/task/any.hpp>
#include <penstock/task/timeout.hpp>

namespace penstock::net {

namespace {

/// The events that the next attempt waits for.
struct Attempt {
    sync::Event begun;
    sync::Event failed;
};

Task<Result<TcpStream>> attempt(Endpoint endpoint, Attempt* before, Attempt& self) {
    if (before != nullptr) {
        if (const Result<> begun = co_await before->begun.wait(); !begun) {
            co_return failure(begun.error());
        }
        const Result<> waited = co_await timeout(TcpStream::attempt_delay, before->failed.wait());
        if (!waited && waited.error() != std::errc::timed_out) {
            co_return failure(waited.error());
        }
    }
    self.begun.set();
    Result<TcpStream> stream = co_await TcpStream::connect(endpoint);
    if (!stream) {
        self.failed.set();
    }
    co_return stream;
}

/// Alternates between the families, keeping the order within each.
std::vector<Endpoint> alternating(const std::vector<Endpoint>& endpoints) {
    std::vector<Endpoint> first;
    std::vector<Endpoint> second;
    for (const Endpoint& endpoint : endpoints) {
        (endpoint.is_v6() == endpoints.front().is_v6() ? first : second).push_back(endpoint);
    }
    std::vector<Endpoint> mixed;
    for (std::size_t i = 0; i < first.size() || i < second.size(); ++i) {
        for (const std::vector<Endpoint>* family : {&first, &second}) {
            if (i < family->size()) {
                mixed.push_back((*family)[i]);
            }
        }
    }
    return mixed;
}

} // namespace

Task<Result<TcpStream>> TcpStream::connect(std::vector<Endpoint> endpoints) {
    if (endpoints.empty()) {
        co_return failure(std::errc::address_not_available);
    }
    std::deque<Attempt> attempts;
    std::vector<Task<Result<TcpStream>>> tasks;
    for (const Endpoint& endpoint : alternating(endpoints)) {
        Attempt* before = attempts.empty() ? nullptr : &attempts.back();
        tasks.push_back(attempt(endpoint, before, attempts.emplace_back()));
    }
    Result<Winner<TcpStream>> winner = co_await any(std::move(tasks));
    if (!winner) {
        co_return failure(winner.error());
    }
    co_return std::move(winner->value);
}

Task<Result<TcpStream>> TcpStream::connect(std::string host, std::uint16_t port) {
    Result<std::vector<Endpoint>> endpoints = co_await resolve(std::move(host), port);
    if (!endpoints) {
        co_return failure(endpoints.error());
    }
    co_return co_await connect(std::move(*endpoints));
}

} // namespace penstock::net
