// The servers of the C++ pages with libuv: one receive buffer; a write is tried before it is
// queued. With PENSTOCK_BENCH_URING, the loop may use io_uring as far as libuv can.

#include "job.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <unistd.h>
#include <vector>

#include <uv.h>

namespace {

int checked(int result, const char* call) {
    if (result < 0) {
        throw std::runtime_error(std::string(call) + ": " + uv_strerror(result));
    }
    return result;
}

std::vector<char> receive_buffer(std::size_t{256} * 1024);
std::string message;

struct Connection {
    uv_tcp_t socket{};
    uv_write_t write{};
    std::vector<char> unsent;
};

Connection& of(uv_handle_t* handle) {
    return *static_cast<Connection*>(handle->data);
}

void close(Connection& connection) {
    auto* handle = reinterpret_cast<uv_handle_t*>(&connection.socket);
    if (uv_is_closing(handle) == 0) {
        uv_close(handle, [](uv_handle_t* closed) { delete &of(closed); });
    }
}

void give_buffer(uv_handle_t* /*handle*/, std::size_t /*suggested*/, uv_buf_t* buffer) {
    *buffer = uv_buf_init(receive_buffer.data(), static_cast<unsigned>(receive_buffer.size()));
}

void echo(uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer);

void send_rest(Connection& connection, const char* data, std::size_t size, uv_write_cb then) {
    connection.unsent.assign(data, data + size);
    uv_buf_t rest = uv_buf_init(connection.unsent.data(), static_cast<unsigned>(size));
    connection.write.data = &connection;
    if (uv_write(&connection.write, reinterpret_cast<uv_stream_t*>(&connection.socket), &rest, 1,
                 then) < 0) {
        close(connection);
    }
}

// The number of bytes sent at once; negative if the connection is broken.
ssize_t send_now(Connection& connection, const char* data, std::size_t size) {
    uv_buf_t buffer = uv_buf_init(const_cast<char*>(data), static_cast<unsigned>(size));
    const int sent = uv_try_write(reinterpret_cast<uv_stream_t*>(&connection.socket), &buffer, 1);
    return sent == UV_EAGAIN ? 0 : sent;
}

void echo(uv_stream_t* stream, ssize_t size, const uv_buf_t* buffer) {
    Connection& connection = of(reinterpret_cast<uv_handle_t*>(stream));
    const ssize_t sent =
        size < 0 ? size : send_now(connection, buffer->base, static_cast<std::size_t>(size));
    if (sent < 0) {
        close(connection);
    } else if (sent < size) {
        uv_read_stop(stream); // backpressure on the client
        send_rest(connection, buffer->base + sent, static_cast<std::size_t>(size - sent),
                  [](uv_write_t* request, int status) {
                      auto& written = *static_cast<Connection*>(request->data);
                      if (status < 0) {
                          close(written);
                      } else {
                          uv_read_start(reinterpret_cast<uv_stream_t*>(&written.socket),
                                        &give_buffer, &echo);
                      }
                  });
    }
}

void send_for_ever(Connection& connection) {
    ssize_t sent = 0;
    do {
        sent = send_now(connection, message.data(), message.size());
    } while (sent == static_cast<ssize_t>(message.size()));
    if (sent < 0) {
        close(connection);
        return;
    }
    send_rest(connection, message.data() + sent, message.size() - static_cast<std::size_t>(sent),
              [](uv_write_t* request, int status) {
                  auto& written = *static_cast<Connection*>(request->data);
                  if (status < 0) {
                      close(written);
                  } else {
                      send_for_ever(written);
                  }
              });
}

void accept(uv_stream_t* listener, int status) {
    auto* connection = new Connection;
    connection->socket.data = connection;
    uv_tcp_init(listener->loop, &connection->socket);
    auto* stream = reinterpret_cast<uv_stream_t*>(&connection->socket);
    if (status < 0 || uv_accept(listener, stream) < 0) {
        close(*connection);
        return;
    }
    uv_tcp_nodelay(&connection->socket, 1);
    if (message.empty()) {
        uv_read_start(stream, &give_buffer, &echo);
    } else {
        send_for_ever(*connection);
    }
}

void on_input(uv_poll_t* handle, int /*status*/, int /*events*/) {
    std::array<char, 4096> ignored{};
    if (::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) {
        uv_stop(handle->loop);
    }
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_server(argc, argv, [](const bench::Job& job) {
        message = bench::source_message(job.message);
#ifdef PENSTOCK_BENCH_URING
        setenv("UV_USE_IO_URING", "1", 1);
#endif
        uv_loop_t* loop = uv_default_loop();
#ifdef PENSTOCK_BENCH_URING
        checked(uv_loop_configure(loop, UV_LOOP_USE_IO_URING_SQPOLL), "uv_loop_configure");
#endif
        uv_tcp_t listener{};
        checked(uv_tcp_init(loop, &listener), "uv_tcp_init");
        sockaddr_in address{};
        checked(uv_ip4_addr("127.0.0.1", 0, &address), "uv_ip4_addr");
        checked(uv_tcp_bind(&listener, reinterpret_cast<const sockaddr*>(&address), 0),
                "uv_tcp_bind");
        checked(uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 4096, &accept), "uv_listen");
        int size = sizeof address;
        checked(uv_tcp_getsockname(&listener, reinterpret_cast<sockaddr*>(&address), &size),
                "uv_tcp_getsockname");
        uv_poll_t input{};
        if (uv_poll_init(loop, &input, STDIN_FILENO) == 0) {
            uv_poll_start(&input, UV_READABLE, &on_input);
        }
        bench::report_port(ntohs(address.sin_port));
        uv_run(loop, UV_RUN_DEFAULT);
    });
}
