// The floor of the one-way page: messages of one size, one send(2) each, until the reader closes,
// and poll(2) while the socket is full. One reader at a time.
//
// Prints its port as one line when it is ready. Exits at the end of its standard input.

#include "address.hpp"
#include "libraries/job.hpp"

#include <array>
#include <poll.h>
#include <unistd.h>

namespace {

using bench::checked;

// Waits for an event on `fd`; returns whether standard input is still open.
bool wait_for(int fd, short events) {
    std::array<pollfd, 2> watched{pollfd{fd, events, 0}, pollfd{STDIN_FILENO, POLLIN, 0}};
    checked(poll(watched.data(), watched.size(), -1), "poll");
    std::array<char, 4096> ignored{};
    return watched[1].revents == 0 || read(STDIN_FILENO, ignored.data(), ignored.size()) > 0;
}

bool send_for_ever(int fd, const std::string& message) {
    std::size_t sent = 0;
    for (;;) {
        const ssize_t count =
            send(fd, message.data() + sent, message.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count >= 0) {
            sent = (sent + static_cast<std::size_t>(count)) % message.size();
        } else if (errno != EAGAIN) {
            return true;
        }
        if ((count < 0 || sent != 0) && !wait_for(fd, POLLOUT)) {
            return false;
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        const std::string message = bench::source_message(job.message);
        bench::Address address;
        const int listener = bench::listen_stream(address);
        bench::report_port(address.port);
        bool go_on = true;
        while (go_on && wait_for(listener, POLLIN)) {
            const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
            if (fd >= 0) {
                bench::set_no_delay(fd);
                go_on = send_for_ever(fd, message);
                close(fd);
            }
        }
    });
}
