// One run of a WebSocket client: messages on one connection, each sent when the reply to the one
// before it has come and was compared.
//
// Prints the line of a load (../closed_loop.hpp), in which the client is the measured library.
#pragma once

#include "../closed_loop.hpp"

#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bench {

struct MessageOptions : LoadOptions {
    std::size_t size = 256;
    bool text = false;

    bool take(std::string_view name, std::string_view value) {
        if (name == "--size") {
            size = parse<std::size_t>(name, value);
            return true;
        }
        if (name == "--text") {
            text = value == "1";
            return true;
        }
        return LoadOptions::take(name, value);
    }

    void check() const {
        LoadOptions::check();
        if (size < 32) {
            throw std::invalid_argument("--size is at least 32");
        }
    }

    [[nodiscard]] std::string url() const {
        return "ws://127.0.0.1:" + std::to_string(address.port) + "/";
    }
};

class MessageRun {
public:
    explicit MessageRun(const MessageOptions& options)
        : options_(options), region_(options.server_pid), message_(options.size, 'x'),
          warm_(now(CLOCK_MONOTONIC) + to_ns(options.warmup)) {}

    // The next message, which differs from the one before. Valid until the next call.
    [[nodiscard]] const std::string& next() {
        ++counter_;
        if (options_.text) {
            std::to_chars(message_.data(),
                          message_.data() + std::numeric_limits<std::uint64_t>::digits10 + 1,
                          counter_);
        } else {
            std::memcpy(message_.data(), &counter_, sizeof counter_);
        }
        started_ = now(CLOCK_MONOTONIC);
        return message_;
    }

    // Takes the reply. True if another message is to be sent; otherwise the figures are printed.
    // Throws if the reply is not the message.
    [[nodiscard]] bool take(std::string_view reply) {
        if (reply != message_) {
            throw std::runtime_error(complaint(Verdict::differs));
        }
        const Nanoseconds time = now(CLOCK_MONOTONIC);
        if (!timed_) {
            if (time >= warm_) {
                timed_ = true;
                region_.begin();
            }
            return true;
        }
        latency_.add(time - started_);
        ++completed_;
        if (options_.requests != 0 ? completed_ < options_.requests
                                   : time < region_.begun + to_ns(options_.seconds)) {
            return true;
        }
        region_.end();
        print_figures(completed_, counter_, region_, latency_);
        return false;
    }

private:
    MessageOptions options_;
    TimedRegion region_;
    std::string message_;
    Nanoseconds warm_;
    Nanoseconds started_ = 0;
    std::uint64_t counter_ = 0;
    std::uint64_t completed_ = 0;
    Histogram latency_;
    bool timed_ = false;
};

// A client's main(): returns 1 and writes one line to standard error on failure.
template <typename Talk> int run_messages(int argc, char** argv, const Talk& talk) {
    try {
        talk(parse_options<MessageOptions>(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
    return 0;
}

} // namespace bench
