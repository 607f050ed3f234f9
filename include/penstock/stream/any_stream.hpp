#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include <penstock/detail/io/transport.hpp>
#include <penstock/net/stream_socket.hpp>
#include <penstock/net/tcp_stream.hpp>
#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/encryption.hpp>
#include <penstock/stream/stream.hpp>
#include <penstock/task/task.hpp>

namespace penstock {

/// A stream whose kind is known at run time only: a TCP connection, or any other stream behind
/// virtual calls, such as a `tls::Stream`. For code that must not be a template.
///
/// A TCP connection is held directly: `tcp` and `socket` return it, so that hot paths need no
/// virtual call. The members of this class cost a task for each read and write.
///
/// Cancellation and thread safety: those of the stream inside.
class AnyStream {
public:
    /// A closed TCP stream.
    AnyStream() = default;
    AnyStream(net::TcpStream stream) noexcept : tcp_(std::move(stream)) {}
    /// Takes ownership of another stream. Throws `std::bad_alloc`.
    template <typename S>
        requires(Stream<S> && !std::is_reference_v<S> && !std::same_as<S, AnyStream> &&
                 !std::same_as<S, net::TcpStream>)
    explicit AnyStream(S stream) : other_(std::make_unique<Holder<S>>(std::move(stream))) {}

    /// The TCP connection, or null if it is another stream.
    [[nodiscard]] net::TcpStream* tcp() noexcept { return other_ == nullptr ? &tcp_ : nullptr; }

    /// The TCP or Unix connection, or null if it is another stream. Valid until this object is
    /// moved or destroyed.
    [[nodiscard]] net::StreamSocket* socket() noexcept {
        return other_ == nullptr ? &tcp_ : other_->socket();
    }

    /// The socket that carries the stream: the connection itself, or the one below a `tls::Stream`.
    /// Null if the stream gives no access to one. Use it for the socket's settings only: reading or
    /// writing it bypasses the layers above. Valid until this object is moved or destroyed.
    [[nodiscard]] net::StreamSocket* transport() noexcept {
        return other_ == nullptr ? &tcp_ : other_->transport();
    }

    /// What the handshake of a `tls::Stream` inside has negotiated. Empty if it is another stream,
    /// or if a layer between has no `encryption`. The views are valid until this object is moved or
    /// destroyed.
    [[nodiscard]] std::optional<Encryption> encryption() const {
        return other_ == nullptr ? std::nullopt : other_->encryption();
    }
    /// Who the peer is: `tls::Stream::verified_peer`. Throws `std::bad_alloc`.
    [[nodiscard]] std::optional<VerifiedPeer> verified_peer() const {
        return other_ == nullptr ? std::nullopt : other_->verified_peer();
    }

    /// The stream inside if it has this type, or null. It may be moved from. Valid until this
    /// object is moved or destroyed.
    template <typename S> [[nodiscard]] S* get_if() noexcept {
        if constexpr (std::same_as<S, net::TcpStream>) {
            return tcp();
        } else {
            return other_ == nullptr ? nullptr : static_cast<S*>(other_->address_of(typeid(S)));
        }
    }

    /// Waits for data and returns the number of bytes read. 0 is the end of the stream. Errors:
    /// those of the stream inside, as for all members.
    [[nodiscard]] Task<Result<std::size_t>> read(MutableBytes into);
    /// Writes all bytes.
    [[nodiscard]] Task<Result<>> write_all(Bytes from);
    /// Writes all parts in order. Where possible, a socket gets them in one system call and a TLS
    /// stream in the same records.
    [[nodiscard]] Task<Result<>> write_all(Bytes head, Bytes body, Bytes tail = {});
    /// Ends the write side. A TLS stream sends close_notify (RFC 8446, section 6.1) first. A stream
    /// without a `shutdown` does nothing. Reading continues.
    [[nodiscard]] Task<Result<>> shutdown();
    /// Closes the connection at once, if the stream has a `close`. Operations that wait return
    /// `operation_canceled`.
    void close() noexcept;

private:
    class Interface {
    public:
        Interface() = default;
        Interface(const Interface&) = delete;
        Interface& operator=(const Interface&) = delete;
        virtual ~Interface() = default;
        virtual Task<Result<std::size_t>> read(MutableBytes into) = 0;
        virtual Task<Result<>> write_all(Bytes head, Bytes body, Bytes tail) = 0;
        virtual Task<Result<>> shutdown() = 0;
        virtual void close() noexcept = 0;
        virtual net::StreamSocket* socket() noexcept = 0;
        virtual net::StreamSocket* transport() noexcept = 0;
        [[nodiscard]] virtual std::optional<Encryption> encryption() const = 0;
        [[nodiscard]] virtual std::optional<VerifiedPeer> verified_peer() const = 0;
        virtual void* address_of(const std::type_info& type) noexcept = 0;
    };

    template <typename S> class Holder final : public Interface {
    public:
        explicit Holder(S&& stream) noexcept : stream_(std::move(stream)) {}

        Task<Result<std::size_t>> read(MutableBytes into) override {
            return detail::to_task(stream_.read(into));
        }
        Task<Result<>> write_all(Bytes head, Bytes body, Bytes tail) override {
            if constexpr (requires { stream_.write_all(head, body, tail); }) {
                return detail::to_task(stream_.write_all(head, body, tail));
            } else {
                return write_in_turn(head, body, tail);
            }
        }
        Task<Result<>> shutdown() override {
            if constexpr (HalfClosable<S>) {
                co_return stream_.shutdown();
            } else if constexpr (requires { requires Awaitable<decltype(stream_.shutdown())>; }) {
                Result<> ended = co_await stream_.shutdown();
                if constexpr (requires { stream_.next_layer().shutdown(); }) {
                    using Lower = decltype(stream_.next_layer().shutdown());
                    if constexpr (Awaitable<Lower>) {
                        if (ended) {
                            ended = co_await stream_.next_layer().shutdown();
                        }
                    } else if (ended) {
                        ended = stream_.next_layer().shutdown();
                    }
                }
                co_return ended;
            } else {
                co_return Result<>();
            }
        }
        void close() noexcept override {
            if constexpr (requires { stream_.close(); }) {
                stream_.close();
            }
        }
        net::StreamSocket* socket() noexcept override {
            if constexpr (std::derived_from<S, net::StreamSocket>) {
                return &stream_;
            } else {
                return nullptr;
            }
        }
        net::StreamSocket* transport() noexcept override { return detail::transport_of(stream_); }
        [[nodiscard]] std::optional<Encryption> encryption() const override {
            if constexpr (requires { stream_.encryption(); }) {
                return stream_.encryption();
            } else {
                return std::nullopt;
            }
        }
        [[nodiscard]] std::optional<VerifiedPeer> verified_peer() const override {
            if constexpr (requires { stream_.verified_peer(); }) {
                return stream_.verified_peer();
            } else {
                return std::nullopt;
            }
        }
        void* address_of(const std::type_info& type) noexcept override {
            return type == typeid(S) ? &stream_ : nullptr;
        }

    private:
        Task<Result<>> write_in_turn(Bytes head, Bytes body, Bytes tail) {
            Result<> written = co_await stream_.write_all(head);
            for (const Bytes part : {body, tail}) {
                if (written && !part.empty()) {
                    written = co_await stream_.write_all(part);
                }
            }
            co_return written;
        }

        S stream_;
    };

    // A std::variant of the two is as large, and each program would take 2 % longer to compile.
    net::TcpStream tcp_; // closed if there is another stream
    std::unique_ptr<Interface> other_;
};

} // namespace penstock
