// The load of the echo pages. Every reply is compared byte for byte with its message, and messages
// that could be confused differ, so a stale, lost, misrouted or duplicated reply is detected.
#pragma once

#include "closed_loop.hpp"

#include <cstring>
#include <random>

namespace bench {

constexpr std::size_t kSmallestMessage = 16; // random bytes, enough to tell messages apart

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
            throw std::invalid_argument("--size must be at least 16, or messages would be alike");
        }
    }
};

// All messages are slices of one random text at different offsets, so that the load reads little
// memory. With one buffer per connection, 32 messages of 100 KiB exceed the cache of a core, and
// the load becomes slower than the servers that it measures.
class EchoText {
public:
    explicit EchoText(std::size_t size) : size_(size), text_(size + kPlaces * kStep) {
        std::mt19937_64 random; // NOLINT(cert-msc51-cpp): the same text in every run
        for (char& letter : text_) {
            letter = static_cast<char>(random());
        }
    }

    // The message of a connection. Any 4 consecutive messages of 1024 connections differ.
    [[nodiscard]] std::string_view message(std::uint64_t counter, std::uint32_t number) const {
        return {text_.data() + (counter * 1024 + number) % kPlaces * kStep, size_};
    }

private:
    static constexpr std::size_t kPlaces = 4096;
    static constexpr std::size_t kStep = 64; // a cache line: copies of aligned memory are faster

    std::size_t size_;
    std::vector<char> text_;
};

class EchoConversation {
public:
    EchoConversation(const EchoText& text, std::uint32_t number) : text_(&text), number_(number) {}

    std::string_view start(std::uint64_t counter) {
        message_ = text_->message(counter, number_);
        received_ = 0;
        return message_;
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
    const EchoText* text_;
    std::uint32_t number_;
    std::size_t received_ = 0;
    std::string_view message_;
};

// The client's main().
template <typename Channel> int run_client(const char* name, int argc, char** argv) {
    return run_load(name, [&] {
        const auto options = parse_options<EchoOptions>(argc, argv);
        const EchoText text(options.size);
        ClosedLoop<EchoConversation, Channel>(options, [&](std::uint32_t number) {
            return EchoConversation(text, number);
        }).run();
    });
}

} // namespace bench
