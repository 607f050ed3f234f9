// Prints the open TCP ports of an address. A semaphore limits the number of concurrent attempts.
//
//     port_scanner ADDRESS FIRST LAST [AT_A_TIME [MILLISECONDS]]

#include <penstock/penstock.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

using namespace penstock;

namespace {

struct Range {
    std::string address;
    unsigned first;
    unsigned last;
};

Task<void> try_port(net::Endpoint endpoint, std::chrono::milliseconds attempt_limit,
                    sync::Semaphore::Permit /*held while this runs*/, std::vector<bool>& open) {
    const auto stream = co_await timeout(attempt_limit, net::TcpStream::connect(endpoint));
    open[endpoint.port()] = stream.has_value();
}

Task<Result<>> scan(Range range, std::size_t at_a_time, std::chrono::milliseconds attempt_limit) {
    const TraceOnSignal trace; // Ctrl-\ prints where each task waits
    sync::Semaphore permits(at_a_time);
    std::vector<bool> open(65'536);
    const Result<> scanned = co_await with_scope([&](Scope& attempts) -> Task<Result<>> {
        for (unsigned port = range.first; port <= range.last; ++port) {
            const Result<net::Endpoint> endpoint =
                net::Endpoint::parse(range.address, static_cast<std::uint16_t>(port));
            if (!endpoint) {
                co_return failure(endpoint.error());
            }
            Result<sync::Semaphore::Permit> permit = co_await permits.acquire();
            if (!permit) {
                co_return failure(permit.error());
            }
            attempts.spawn(try_port(*endpoint, attempt_limit, std::move(*permit), open));
        }
        co_return Result<>();
    });
    for (unsigned port = range.first; port <= range.last; ++port) {
        if (open[port]) {
            std::printf("%u\n", port);
        }
    }
    co_return scanned;
}

} // namespace

int main(int count, char** arguments) {
    if (count < 4) {
        std::fprintf(stderr, "usage: port_scanner ADDRESS FIRST LAST [AT_A_TIME [MILLISECONDS]]\n");
        return 2;
    }
    const Range range{.address = arguments[1],
                      .first = static_cast<unsigned>(std::atoi(arguments[2])),
                      .last = static_cast<unsigned>(std::atoi(arguments[3]))};
    if (range.last > 65'535 || range.first > range.last) {
        std::fprintf(stderr, "port_scanner: FIRST and LAST are ports, 0 to 65535, in this order\n");
        return 2;
    }
    const int at_a_time = count > 4 ? std::atoi(arguments[4]) : 100;
    const std::chrono::milliseconds attempt_limit(count > 5 ? std::atoi(arguments[5]) : 1'000);
    const Result<> scanned =
        run(scan(range, static_cast<std::size_t>(at_a_time > 0 ? at_a_time : 1), attempt_limit));
    if (!scanned) {
        std::fprintf(stderr, "port_scanner: %s\n", scanned.error().message().c_str());
        return 1;
    }
}
