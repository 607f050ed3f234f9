// The command line of a load.
#pragma once

#include "address.hpp"

#include <charconv>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/types.h>

namespace bench {

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

// The duration of a measurement, for programs without a server.
struct DurationOptions {
    double seconds = 0.5;
    double warmup = 0.1;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--seconds") {
            seconds = parse<double>(name, text);
        } else if (name == "--warmup") {
            warmup = parse<double>(name, text);
        } else {
            return false;
        }
        return true;
    }
};

// The options of every load. A load with further options derives from this class and extends `take`
// (which returns false for an unknown option) and `check`.
struct LoadOptions {
    Address address;
    std::size_t connections = 32;
    double seconds = 1.0;
    double warmup = 0.25;
    std::uint64_t requests = 0; // if not 0: this many instead of a fixed time
    pid_t server_pid = 0;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--port") {
            address.port = parse<std::uint16_t>(name, text);
        } else if (name == "--udp") {
            address.port = parse<std::uint16_t>(name, text);
            address.datagrams = true;
        } else if (name == "--unix") {
            address.path = text;
        } else if (name == "--connections") {
            connections = parse<std::size_t>(name, text);
        } else if (name == "--seconds") {
            seconds = parse<double>(name, text);
        } else if (name == "--warmup") {
            warmup = parse<double>(name, text);
        } else if (name == "--requests") {
            requests = parse<std::uint64_t>(name, text);
        } else if (name == "--server-pid") {
            server_pid = parse<pid_t>(name, text);
        } else {
            return false;
        }
        return true;
    }

    void check() const {
        if (address.port == 0 && !address.is_unix()) {
            throw std::invalid_argument("--port is needed: the port that the server has printed"
                                        " (or --udp, or --unix with its path)");
        }
        if (connections == 0) {
            throw std::invalid_argument("--connections must be at least 1");
        }
    }
};

template <typename Options> Options parse_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; i += 2) {
        const std::string_view name = argv[i];
        if (i + 1 == argc) {
            throw std::invalid_argument(std::string(name) + " needs a value");
        }
        if (!options.take(name, argv[i + 1])) {
            throw std::invalid_argument("unknown option '" + std::string(name) + "'");
        }
    }
    options.check();
    return options;
}

} // namespace bench
