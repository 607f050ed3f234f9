// The task of a library's server: echo, or send messages of one size until the reader closes.
#pragma once

#include "../load_options.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace bench {

constexpr std::size_t kConnectionBuffer = std::size_t{64} * 1024;

struct Job {
    std::size_t message = 0; // 0: echo

    [[nodiscard]] bool is_echo() const { return message == 0; }
};

// "echo", or "source SIZE".
inline Job parse_job(int argc, char** argv) {
    const std::string_view what = argc > 1 ? argv[1] : "";
    if (what == "echo" && argc == 2) {
        return {};
    }
    if (what == "source" && argc == 3) {
        const auto size = parse<std::size_t>("source", argv[2]);
        if (size > 0) {
            return {.message = size};
        }
    }
    throw std::invalid_argument("takes 'echo', or 'source' and the size of a message");
}

// A stream of such messages repeats one pattern from which a reader can derive its position.
inline std::string source_message(std::size_t size) {
    std::string message(size, ' ');
    for (std::size_t i = 0; i < size; ++i) {
        message[i] = static_cast<char>('!' + (i * 31 + i / 90) % 90);
    }
    return message;
}

inline void report_port(unsigned port) {
    std::printf("%u\n", port);
    std::fflush(stdout);
}

// A server's main(): returns 1 and writes one line to standard error on failure.
template <typename Serve> int run_server(int argc, char** argv, const Serve& serve) {
    try {
        serve(parse_job(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
    return 0;
}

// The same for a server that takes the files of a certificate and its key.
template <typename Serve> int run_tls_server(int argc, char** argv, const Serve& serve) {
    try {
        if (argc != 3) {
            throw std::invalid_argument("takes the files of a certificate and its key");
        }
        serve(argv[1], argv[2]);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
        return 1;
    }
    return 0;
}

} // namespace bench
