// Stops an io_context at the end of standard input.
#pragma once

#include <array>
#include <unistd.h>

#include <asio.hpp>

namespace bench {

class UntilStdinEnds {
public:
    explicit UntilStdinEnds(asio::io_context& context)
        : context_(context), input_(context, ::dup(STDIN_FILENO)) {
        wait();
    }

private:
    void wait() {
        input_.async_read_some(asio::buffer(ignored_), [this](asio::error_code error, std::size_t) {
            if (error) {
                context_.stop();
            } else {
                wait();
            }
        });
    }

    asio::io_context& context_;
    asio::posix::stream_descriptor input_;
    std::array<char, 4096> ignored_{};
};

} // namespace bench
