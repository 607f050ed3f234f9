// The load of the one-way page: reads a source's stream, compares every byte with the expected
// pattern, and counts.
//
// Prints the same JSON line as the closed loop; a request is a message.

#include "clocks.hpp"
#include "libraries/job.hpp"

#include "address.hpp"

#include <cstring>
#include <vector>

namespace {

constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;

struct SinkOptions : bench::LoadOptions {
    std::size_t size = 1024;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--size") {
            size = bench::parse<std::size_t>(name, text);
            return true;
        }
        return LoadOptions::take(name, text);
    }
};

class Sink {
public:
    Sink(int fd, std::size_t size) : fd_(fd), size_(size) {
        const std::string message = bench::source_message(size);
        while (pattern_.size() < size + kReceiveBuffer) {
            pattern_ += message;
        }
    }

    // Reads until a time or a number of bytes; returns the time at the end.
    bench::Nanoseconds read_until(bench::Nanoseconds moment, std::uint64_t bytes) {
        bench::Nanoseconds time = 0;
        do {
            const ssize_t count =
                bench::checked(recv(fd_, buffer_.data(), buffer_.size(), 0), "recv");
            const auto size = static_cast<std::size_t>(count);
            if (size == 0) {
                throw std::runtime_error("the source closed the connection");
            }
            if (std::memcmp(buffer_.data(), pattern_.data() + received % size_, size) != 0) {
                throw std::runtime_error("the bytes after " + std::to_string(received) +
                                         " are not what the source sends");
            }
            received += size;
            time = bench::now(CLOCK_MONOTONIC);
        } while (bytes != 0 ? received < bytes : time < moment);
        return time;
    }

    std::uint64_t received = 0;

private:
    int fd_;
    std::size_t size_;
    std::string pattern_;
    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
};

} // namespace

int main(int argc, char** argv) {
    try {
        const auto options = bench::parse_options<SinkOptions>(argc, argv);
        Sink sink(bench::connect_to(options.address), options.size);
        sink.read_until(bench::now(CLOCK_MONOTONIC) + bench::to_ns(options.warmup), 0);
        bench::TimedRegion region(options.server_pid);
        region.begin();
        const std::uint64_t before = sink.received;
        sink.read_until(region.begun + bench::to_ns(options.seconds),
                        options.requests == 0 ? 0 : before + options.requests * options.size);
        region.end();
        const std::uint64_t messages = (sink.received - before) / options.size;
        std::printf("{\"requests\": %llu, \"replies\": %llu, \"seconds\": %.9f, "
                    "\"server_cpu_seconds\": %.9f, \"client_cpu_seconds\": %.9f, "
                    "\"latency_us\": {\"p50\": 0, \"p99\": 0, \"max\": 0}}\n",
                    static_cast<unsigned long long>(messages),
                    static_cast<unsigned long long>(sink.received / options.size),
                    static_cast<double>(region.elapsed) / 1e9,
                    static_cast<double>(region.server_cpu) / 1e9,
                    static_cast<double>(region.client_cpu) / 1e9);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "stream_sink: %s\n", error.what());
        return 1;
    }
    return 0;
}
