// The server of the HTTP page with Boost.Beast: callbacks, as in its documentation, without
// threads, time-outs off. Its Date field is made once a second, as the others do.

#include "job.hpp"

#include <array>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;

// A context for one thread, without locks.
constexpr int kOneThread = BOOST_ASIO_CONCURRENCY_HINT_UNSAFE;
// No type erasure of the executor, as in Beast's own fast examples.
using Socket = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;

std::string_view date() {
    static std::time_t second = -1;
    static std::array<char, 64> text;
    static std::size_t size = 0;
    if (const std::time_t now = std::time(nullptr); now != second) {
        second = now;
        std::tm parts{};
        size = std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT",
                             gmtime_r(&now, &parts));
    }
    return {text.data(), size};
}

class Session : public std::enable_shared_from_this<Session> {
public:
    explicit Session(Socket socket) : stream_(std::move(socket)) {}

    void read() {
        request_ = {};
        http::async_read(stream_, buffer_, request_,
                         [self = shared_from_this()](beast::error_code error, std::size_t) {
                             if (!error) {
                                 self->write();
                             }
                         });
    }

private:
    void write() {
        const bool found = request_.method() == http::verb::get && request_.target() == "/";
        response_ = {found ? http::status::ok : http::status::not_found, request_.version()};
        response_.set(http::field::content_type, "text/plain; charset=utf-8");
        response_.set(http::field::date, date());
        response_.body() = "Hello, world!";
        response_.keep_alive(request_.keep_alive());
        response_.prepare_payload();
        http::async_write(stream_, response_,
                          [self = shared_from_this()](beast::error_code error, std::size_t) {
                              if (!error && self->response_.keep_alive()) {
                                  self->read();
                              }
                          });
    }

    Socket stream_;
    beast::flat_buffer buffer_;
    http::request<http::empty_body> request_;
    http::response<http::string_body> response_;
};

class Server {
public:
    explicit Server(asio::io_context& context)
        : acceptor_(context, {asio::ip::address_v4::loopback(), 0}) {
        accept();
    }

    [[nodiscard]] unsigned port() const { return acceptor_.local_endpoint().port(); }

private:
    void accept() {
        acceptor_.async_accept([this](beast::error_code error, Socket socket) {
            if (!error) {
                socket.set_option(tcp::no_delay(true));
                std::make_shared<Session>(std::move(socket))->read();
            }
            accept();
        });
    }

    asio::basic_socket_acceptor<tcp, asio::io_context::executor_type> acceptor_;
};

} // namespace

int main() {
    asio::io_context context(kOneThread);
    const Server server(context);
    asio::posix::stream_descriptor input(context, 0);
    char unused = 0;
    input.async_read_some(asio::buffer(&unused, 1),
                          [&](beast::error_code, std::size_t) { context.stop(); });
    bench::report_port(server.port());
    context.run();
}
