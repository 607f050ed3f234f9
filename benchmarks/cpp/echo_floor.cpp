// The floor of the echo page: the cheapest TCP echo server that is still correct.
//
// Level-triggered epoll and one receive buffer for all connections. The reply is sent at once from
// that buffer; only data that the socket refuses is kept. An echo takes three system calls when one
// connection is active. What a loop costs beyond this program is the cost of the loop.
//
// Prints its port, or the path given by --unix, as one line when it is ready. Exits at the end of
// its standard input.

#include "floor_server.hpp"

#include <stdexcept>
#include <string>
#include <string_view>

namespace {

constexpr std::size_t kReceiveBuffer = std::size_t{256} * 1024;

class EchoFloor : public bench::FloorServer<EchoFloor> {
public:
    EchoFloor(bench::Address address, int workers) : FloorServer(std::move(address), workers) {}

    [[nodiscard]] std::string ready_line() const {
        return address().is_unix() ? address().path : std::to_string(address().port);
    }

    void opened(int fd) { unsent_[fd].clear(); }

    // While a reply waits for buffer space, nothing more is read: backpressure on the client.
    void ready(int fd, std::uint32_t events) {
        if ((events & EPOLLOUT) != 0) {
            send_rest(fd);
        } else {
            echo(fd);
        }
    }

private:
    void echo(int fd) {
        const ssize_t received = recv(fd, buffer_.data(), buffer_.size(), 0);
        if (received <= 0) {
            if (received < 0 && errno == EAGAIN) {
                return;
            }
            close_connection(fd);
            return;
        }
        const ssize_t sent =
            send(fd, buffer_.data(), static_cast<std::size_t>(received), MSG_NOSIGNAL);
        if (sent == received) {
            return;
        }
        if (sent < 0 && errno != EAGAIN) {
            close_connection(fd);
            return;
        }
        unsent_[fd].assign(buffer_.data() + (sent > 0 ? sent : 0), buffer_.data() + received);
        watch_for(fd, EPOLLOUT);
    }

    void send_rest(int fd) {
        std::vector<char>& unsent = unsent_[fd];
        const ssize_t sent = send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno != EAGAIN) {
                close_connection(fd);
            }
            return;
        }
        unsent.erase(unsent.begin(), unsent.begin() + sent);
        if (unsent.empty()) {
            watch_for(fd, EPOLLIN);
        }
    }

    void close_connection(int fd) {
        unsent_[fd].clear();
        close(fd);
    }

    std::vector<char> buffer_ = std::vector<char>(kReceiveBuffer);
    bench::ByDescriptor<std::vector<char>> unsent_;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_floor("echo_floor", [&] {
        bench::Address address;
        int workers = 1;
        if (argc == 3 && std::string_view(argv[1]) == "--unix") {
            address.path = argv[2];
        } else if (argc == 3 && std::string_view(argv[1]) == "--workers") {
            workers = std::stoi(argv[2]);
        } else if (argc != 1) {
            throw std::invalid_argument("takes --unix PATH, --workers NUMBER or nothing");
        }
        return EchoFloor(std::move(address), workers);
    });
}
