// The WebSocket client of the C++ pages with Boost.Beast: callbacks, without threads, time-outs
// off.

#include "message_run.hpp"

#include <stdexcept>

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket.hpp>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using asio::ip::tcp;

// No type erasure of the executor, as in Beast's own fast examples.
using Socket = asio::basic_stream_socket<tcp, asio::io_context::executor_type>;

class Client {
public:
    Client(asio::io_context& context, const bench::MessageOptions& options)
        : stream_(context), run_(options), text_(options.text) {
        stream_.next_layer().connect({asio::ip::address_v4::loopback(), options.address.port});
        stream_.next_layer().set_option(tcp::no_delay(true));
        stream_.handshake("127.0.0.1", "/");
        stream_.auto_fragment(false);
        stream_.text(text_);
    }

    void write() {
        stream_.async_write(asio::buffer(run_.next()),
                            [this](beast::error_code error, std::size_t) {
                                check(error);
                                read();
                            });
    }

private:
    void read() {
        stream_.async_read(buffer_, [this](beast::error_code error, std::size_t size) {
            check(error);
            if (stream_.got_text() != text_) {
                throw std::runtime_error("the reply is of another kind");
            }
            if (run_.take({static_cast<const char*>(buffer_.data().data()), size})) {
                buffer_.consume(size);
                write();
            }
        });
    }

    static void check(beast::error_code error) {
        if (error) {
            throw beast::system_error(error);
        }
    }

    websocket::stream<Socket> stream_;
    beast::flat_buffer buffer_;
    bench::MessageRun run_;
    bool text_;
};

} // namespace

int main(int argc, char** argv) {
    return bench::run_messages(argc, argv, [](const bench::MessageOptions& options) {
        asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
        Client client(context, options);
        client.write();
        context.run();
    });
}
