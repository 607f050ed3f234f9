// The load of the echo pages: every reply is compared byte for byte with its message, which carries
// a counter, so that a stale, lost, mixed-up or doubled reply cannot pass.
#pragma once

#include "closed_loop.hpp"

#include <cstring>

namespace bench {

constexpr std::size_t kSmallestMessage = 16; // counter and connection number

struct EchoOptions : LoadOptions {
    std::size_t size = 1024;

    bool take(std::string_view name, std::string_view text) {
        if (name == "--size") {
            size = parse<std::size_t>(name, text);
            return true;
        }
        return LoadOptions::take(name, text);
    }

    void check() const {
        LoadOptions::check();
        if (size < kSmallestMessage) {
            throw std::invalid_argument("--size must be at least 16, the room of the counter");
        }
    }
};

class EchoConversation {
public:
    EchoConversation(std::uint32_t number, std::size_t size) : number_(number), message_(size) {
        for (std::size_t i = 0; i < size; ++i) {
            message_[i] = static_cast<char>('!' + (i * 31 + std::size_t{number} * 7) % 90);
        }
    }

    std::string_view start(std::uint64_t counter) {
        std::memcpy(message_.data(), &counter, sizeof counter);
        std::memcpy(message_.data() + sizeof counter, &number_, sizeof number_);
        received_ = 0;
        return {message_.data(), message_.size()};
    }

    Verdict take(const char* data, std::size_t size, std::size_t sent) {
        if (received_ + size > sent) {
            return Verdict::too_long;
        }
        if (std::memcmp(data, message_.data() + received_, size) != 0) {
            return Verdict::differs;
        }
        received_ += size;
        return received_ == message_.size() ? Verdict::complete : Verdict::more;
    }

private:
    std::uint32_t number_;
    std::size_t received_ = 0;
    std::vector<char> message_;
};

// The client's main().
template <typename Channel> int run_client(const char* name, int argc, char** argv) {
    return run_load(name, [&] {
        const auto options = parse_options<EchoOptions>(argc, argv);
        ClosedLoop<EchoConversation, Channel>(options, [&](std::uint32_t number) {
            return EchoConversation(number, options.size);
        }).run();
    });
}

} // namespace bench
