// The load of the echo page, over plain TCP.

#include "echo_load.hpp"

namespace {

using bench::checked;

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

} // namespace

int main(int argc, char** argv) {
    return bench::run_client<PlainChannel>("echo_client", argc, argv);
}
