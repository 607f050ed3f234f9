// A WebSocket echo server that is made faster step by step, as a published comparison did with its
// own. Each step includes the ones before it:
//
//     websocket_steps original    header and payload in two writes, a new buffer for each message
//     websocket_steps no_delay    TCP_NODELAY
//     websocket_steps one_write   header and payload in one write
//     websocket_steps buffers     buffers that are kept
//     websocket_steps words       the mask is removed in words, not byte by byte
//
// It serves the load of these pages, which has one message in flight on a connection, and no other
// client: it checks nothing.

#include "job.hpp"
#include "standard_input_penstock.hpp"

#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <penstock/codec/websocket/handshake.hpp>
#include <penstock/penstock.hpp>

namespace {

namespace net = penstock::net;
using penstock::Bytes;
using penstock::Result;
using penstock::Scope;
using penstock::Task;
using penstock::unwrap;

constexpr std::array<std::string_view, 5> kSteps = {"original", "no_delay", "one_write", "buffers",
                                                    "words"};

struct Steps {
    explicit Steps(std::string_view last) {
        for (std::size_t i = 0; i < kSteps.size(); ++i) {
            if (kSteps[i] == last) {
                no_delay = i >= 1;
                one_write = i >= 2;
                buffers = i >= 3;
                words = i >= 4;
                return;
            }
        }
        throw std::invalid_argument("takes the name of a step, not '" + std::string(last) + "'");
    }

    bool no_delay = false;
    bool one_write = false;
    bool buffers = false;
    bool words = false;
};

struct Frame {
    std::size_t header = 0; // with the mask; 0: incomplete
    std::size_t payload = 0;
};

Frame frame_in(std::string_view input) {
    if (input.size() < 2) {
        return {};
    }
    const std::size_t shortest = static_cast<unsigned char>(input[1]) & 0x7fU;
    const std::size_t digits = shortest < 126 ? 0 : shortest == 126 ? 2 : 8;
    Frame frame{.header = 2 + digits + 4, .payload = digits == 0 ? shortest : 0};
    if (input.size() < frame.header) {
        return {};
    }
    for (std::size_t i = 0; i < digits; ++i) {
        frame.payload = frame.payload * 256 + static_cast<unsigned char>(input[2 + i]);
    }
    return input.size() < frame.header + frame.payload ? Frame{} : frame;
}

void unmask(std::string& payload, const char* key, bool words) {
    std::size_t i = 0;
    if (words) {
        std::uint64_t wide = 0;
        std::memcpy(&wide, key, 4);
        wide |= wide << 32;
        for (; i + sizeof wide <= payload.size(); i += sizeof wide) {
            std::uint64_t word = 0;
            std::memcpy(&word, payload.data() + i, sizeof word);
            word ^= wide;
            std::memcpy(payload.data() + i, &word, sizeof word);
        }
    }
#pragma clang loop vectorize(disable) interleave(disable)
    for (; i < payload.size(); ++i) {
        payload[i] = static_cast<char>(payload[i] ^ key[i % 4]);
    }
}

Bytes bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

Task<Result<>> shake_hands(net::TcpStream& stream) {
    constexpr std::string_view name = "Sec-WebSocket-Key: ";
    std::string head;
    while (head.find("\r\n\r\n") == std::string::npos) {
        std::array<char, 1024> part{};
        const std::size_t size =
            co_await unwrap(stream.read(std::as_writable_bytes(std::span(part))));
        if (size == 0) {
            co_return penstock::failure(penstock::Error::end_of_stream);
        }
        head.append(part.data(), size);
    }
    const std::string_view key = std::string_view(head).substr(head.find(name) + name.size(), 24);
    const std::string response =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Accept: " +
        std::string(penstock::codec::websocket::AcceptKey(key).text()) + "\r\n\r\n";
    co_return co_await stream.write_all(bytes_of(response));
}

Task<Result<>> echo(net::TcpStream stream, Steps steps) {
    co_await unwrap(stream.no_delay(steps.no_delay));
    co_await unwrap(shake_hands(stream));
    std::string input;
    std::string part;
    std::string payload;
    std::string output;
    while (true) {
        if (!steps.buffers) {
            input = std::string();
            part = std::string();
            payload = std::string();
            output = std::string();
        }
        input.clear();
        part.resize(std::size_t{256} * 1024);
        Frame frame;
        while (frame.header == 0) {
            const std::size_t size =
                co_await unwrap(stream.read(std::as_writable_bytes(std::span(part))));
            if (size == 0) {
                co_return Result<>();
            }
            input.append(part.data(), size);
            frame = frame_in(input);
        }
        payload.assign(input, frame.header, frame.payload);
        unmask(payload, input.data() + frame.header - 4, steps.words);
        output.assign(input, 0, frame.header - 4);
        output[1] = static_cast<char>(output[1] & 0x7f);
        if (steps.one_write) {
            output += payload;
            co_await unwrap(stream.write_all(bytes_of(output)));
        } else {
            co_await unwrap(stream.write_all(bytes_of(output)));
            co_await unwrap(stream.write_all(bytes_of(payload)));
        }
    }
}

Task<Result<>> serve(Steps steps) {
    auto listener = co_await unwrap(net::TcpListener::listen(net::Endpoint::loopback(0)));
    co_return co_await penstock::with_scope([&](Scope& scope) -> Task<Result<>> {
        const bench::StandardInput input(scope);
        bench::report_port(listener.local_endpoint()->port());
        while (true) {
            auto accepted = co_await listener.accept();
            if (!accepted) {
                co_return penstock::failure(accepted.error());
            }
            scope.spawn([](net::TcpStream stream, Steps wanted) -> Task<> {
                (void)co_await echo(std::move(stream), wanted);
            }(std::move(*accepted), steps));
        }
    });
}

} // namespace

int main(int argc, char** argv) {
    try {
        if (const Result<> served = penstock::run(serve(Steps(argc > 1 ? argv[1] : "")));
            !served && served.error() != std::errc::operation_canceled) {
            throw std::system_error(served.error());
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "websocket_steps: %s\n", error.what());
        return 1;
    }
}
