// The servers of the C++ pages with Asio's callbacks.

#include "job.hpp"
#include "until_stdin_ends_asio.hpp"

#include <memory>
#include <utility>

#include <asio.hpp>

namespace {

using asio::ip::tcp;

class Echo : public std::enable_shared_from_this<Echo> {
public:
    explicit Echo(tcp::socket socket)
        : socket_(std::move(socket)),
          buffer_(std::make_unique_for_overwrite<char[]>(bench::kConnectionBuffer)) {}

    void read() {
        socket_.async_read_some(
            asio::buffer(buffer_.get(), bench::kConnectionBuffer),
            [self = shared_from_this()](asio::error_code error, std::size_t size) {
                if (!error) {
                    self->write(size);
                }
            });
    }

private:
    void write(std::size_t size) {
        asio::async_write(socket_, asio::buffer(buffer_.get(), size),
                          [self = shared_from_this()](asio::error_code error, std::size_t) {
                              if (!error) {
                                  self->read();
                              }
                          });
    }

    tcp::socket socket_;
    std::unique_ptr<char[]> buffer_;
};

class Source : public std::enable_shared_from_this<Source> {
public:
    Source(tcp::socket socket, const std::string& message)
        : socket_(std::move(socket)), message_(message) {}

    void write() {
        asio::async_write(socket_, asio::buffer(message_),
                          [self = shared_from_this()](asio::error_code error, std::size_t) {
                              if (!error) {
                                  self->write();
                              }
                          });
    }

private:
    tcp::socket socket_;
    const std::string& message_;
};

void accept(tcp::acceptor& acceptor, const bench::Job& job, const std::string& message) {
    acceptor.async_accept([&](asio::error_code error, tcp::socket socket) {
        if (!error) {
            socket.set_option(tcp::no_delay(true));
            if (job.is_echo()) {
                std::make_shared<Echo>(std::move(socket))->read();
            } else {
                std::make_shared<Source>(std::move(socket), message)->write();
            }
        }
        accept(acceptor, job, message);
    });
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        asio::io_context context(ASIO_CONCURRENCY_HINT_UNSAFE);
        const std::string message = bench::source_message(job.message);
        tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
        accept(acceptor, job, message);
        const bench::UntilStdinEnds input(context);
        bench::report_port(acceptor.local_endpoint().port());
        context.run();
    });
}
