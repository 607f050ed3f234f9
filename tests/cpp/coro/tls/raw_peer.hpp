#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/task.hpp>
#include <penstock/task/unwrap.hpp>

namespace penstock::testing {

/// A server on OpenSSL's memory BIOs, for what the library under test does not do by itself:
/// records of any size, requests for new keys, alerts. `S` is a stream, which it does not own.
template <typename S> class RawPeer {
public:
    RawPeer(S& stream, SSL_CTX* context)
        : stream_(stream), ssl_(SSL_new(context)), in_(BIO_new(BIO_s_mem())),
          out_(BIO_new(BIO_s_mem())) {
        SSL_set_bio(ssl_.get(), in_, out_);
        SSL_set_accept_state(ssl_.get());
    }

    [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }

    Task<Result<>> handshake() {
        for (;;) {
            const int done = SSL_do_handshake(ssl_.get());
            co_await unwrap(send());
            if (done == 1) {
                co_return Result<>();
            }
            require_input(done);
            co_await unwrap(receive());
        }
    }

    Task<Result<>> write(std::string text) {
        if (SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())) <= 0) {
            throw std::runtime_error("SSL_write");
        }
        co_return co_await send();
    }

    Task<Result<std::string>> read() {
        std::array<char, 16384> text{};
        for (;;) {
            const int count = SSL_read(ssl_.get(), text.data(), static_cast<int>(text.size()));
            co_await unwrap(send());
            if (count > 0) {
                co_return std::string(text.data(), static_cast<std::size_t>(count));
            }
            require_input(count);
            co_await unwrap(receive());
        }
    }

    /// Whether the end of the encrypted stream comes next.
    Task<Result<bool>> reads_end() {
        for (;;) {
            char byte = 0;
            const int count = SSL_read(ssl_.get(), &byte, 1);
            if (count > 0 || SSL_get_error(ssl_.get(), count) == SSL_ERROR_ZERO_RETURN) {
                co_return count <= 0;
            }
            require_input(count);
            co_await unwrap(receive());
        }
    }

    /// What it has to send, not sent.
    std::string take_output() {
        char* data = nullptr;
        const long size = BIO_get_mem_data(out_, &data);
        std::string bytes(data, static_cast<std::size_t>(size));
        (void)BIO_reset(out_);
        return bytes;
    }

    Task<Result<>> send() {
        const std::string bytes = take_output();
        if (bytes.empty()) {
            co_return Result<>();
        }
        co_return co_await stream_.write_all(Bytes(bytes));
    }

private:
    struct Free {
        void operator()(SSL* ssl) const noexcept { SSL_free(ssl); }
    };

    Task<Result<>> receive() {
        std::array<char, 20'000> bytes{};
        const std::size_t count = co_await unwrap(stream_.read(MutableBytes(bytes)));
        if (count == 0) {
            co_return failure(std::errc::connection_reset);
        }
        BIO_write(in_, bytes.data(), static_cast<int>(count));
        co_return Result<>();
    }

    void require_input(int returned) const {
        if (SSL_get_error(ssl_.get(), returned) != SSL_ERROR_WANT_READ) {
            throw std::runtime_error(ERR_error_string(ERR_get_error(), nullptr));
        }
    }

    S& stream_;
    std::unique_ptr<SSL, Free> ssl_;
    BIO* in_;
    BIO* out_;
};

} // namespace penstock::testing
