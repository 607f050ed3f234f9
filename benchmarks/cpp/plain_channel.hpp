// The bytes of a connection without encryption.
#pragma once

#include "checked.hpp"

#include <sys/types.h>

namespace bench {

class PlainChannel {
public:
    static constexpr bool buffers = false;

    void open(int fd) { fd_ = fd; }

    void end() {}

    ssize_t receive(char* to, std::size_t size) {
        const ssize_t count = ::recv(fd_, to, size, MSG_DONTWAIT);
        return count < 0 && errno == EAGAIN ? -1 : checked(count, "recv");
    }

    ssize_t send(const char* data, std::size_t size) {
        const ssize_t count = ::send(fd_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        return count < 0 && errno == EAGAIN ? -1 : checked(count, "send");
    }

private:
    int fd_ = -1;
};

} // namespace bench
