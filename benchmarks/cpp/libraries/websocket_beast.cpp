// The server of the WebSocket page with Boost.Beast: callbacks, as in its documentation, without
// threads, time-outs off.
//
//     websocket_beast [deflate]

#include "job.hpp"

#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;

// A context for one thread, without locks.
constexpr int kOneThread = BOOST_ASIO_CONCURRENCY_HINT_UNSAFE;
// No type erasure of the executor, as in Beast's own fast examples.
using Socket = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;

class Session : public std::enable_shared_from_this<Session> {
public:
    Session(Socket socket, bool deflate) : stream_(std::move(socket)) {
        websocket::permessage_deflate options;
        options.server_enable = deflate;
        stream_.set_option(options);
        stream_.auto_fragment(false); // one frame a message, as the others
    }

    void start() {
        stream_.async_accept([self = shared_from_this()](beast::error_code error) {
            if (!error) {
                self->read();
            }
        });
    }

private:
    void read() {
        stream_.async_read(
            buffer_, [self = shared_from_this()](beast::error_code error, std::size_t /*size*/) {
                if (!error) {
                    self->write();
                }
            });
    }

    void write() {
        stream_.text(stream_.got_text());
        stream_.async_write(buffer_.data(), [self = shared_from_this()](beast::error_code error,
                                                                        std::size_t /*size*/) {
            if (!error) {
                self->buffer_.consume(self->buffer_.size());
                self->read();
            }
        });
    }

    websocket::stream<Socket> stream_;
    beast::flat_buffer buffer_;
};

class Server {
public:
    Server(asio::io_context& context, bool deflate)
        : acceptor_(context, {asio::ip::address_v4::loopback(), 0}), deflate_(deflate) {
        accept();
    }

    [[nodiscard]] unsigned port() const { return acceptor_.local_endpoint().port(); }

private:
    void accept() {
        acceptor_.async_accept([this](beast::error_code error, Socket socket) {
            if (!error) {
                socket.set_option(tcp::no_delay(true));
                std::make_shared<Session>(std::move(socket), deflate_)->start();
            }
            accept();
        });
    }

    asio::basic_socket_acceptor<tcp, asio::io_context::executor_type> acceptor_;
    bool deflate_;
};

} // namespace

int main(int argc, char** argv) {
    asio::io_context context(kOneThread);
    const Server server(context, argc > 1 && std::string_view(argv[1]) == "deflate");
    asio::posix::stream_descriptor input(context, 0);
    char unused = 0;
    input.async_read_some(asio::buffer(&unused, 1),
                          [&](beast::error_code, std::size_t) { context.stop(); });
    bench::report_port(server.port());
    context.run();
}
