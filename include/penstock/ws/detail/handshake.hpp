#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <penstock/codec/http/fields.hpp>
#include <penstock/codec/http/request_parser.hpp>
#include <penstock/codec/http/response_parser.hpp>
#include <penstock/codec/websocket/frame.hpp>
#include <penstock/codec/websocket/handshake.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/ws/options.hpp>

namespace penstock::ws::detail {

/// The peer's head of the opening handshake. The views point into `text`.
struct Opening {
    std::string text;
    std::unique_ptr<std::vector<codec::http::Field>> parsed; ///< null before `fields`
    std::string_view target;                                 ///< of a request
    std::string subprotocol;
    std::optional<DeflateParameters> compression; ///< what both ends have agreed upon

    /// Parses them the first time: most programs never ask. Throws `std::bad_alloc`.
    [[nodiscard]] codec::http::Fields fields();
    void forget() noexcept {
        parsed = nullptr;
        target = {};
        std::string().swap(text); // an assignment would keep the memory
    }
};

/// The bounds of a handshake's head.
inline constexpr codec::http::Limits head_limits{.line = 8192, .head = 16384};
inline constexpr std::size_t maximum_fields = 64;

/// The server's part of the opening handshake, without I/O.
class ServerHandshake {
public:
    /// `options` must outlive this object.
    explicit ServerHandshake(const AcceptOptions& options);

    /// Takes received bytes. Returns whether the handshake has ended. Throws `std::bad_alloc`.
    [[nodiscard]] bool take(Bytes received);

    /// After the end: what must be sent, even after an error.
    [[nodiscard]] std::string_view response() const noexcept { return response_; }
    [[nodiscard]] std::error_code error() const noexcept { return error_; }
    /// How many of the last bytes belong to the frames that follow.
    [[nodiscard]] std::size_t surplus() const noexcept { return surplus_; }
    [[nodiscard]] std::unique_ptr<Opening> opening() noexcept { return std::move(opening_); }

private:
    void answer();
    void refuse(int status, std::error_code error);

    const AcceptOptions& options_;
    std::array<codec::http::Field, maximum_fields> storage_;
    codec::http::RequestParser parser_;
    std::unique_ptr<Opening> opening_;
    std::string response_;
    std::error_code error_;
    std::size_t surplus_ = 0;
};

/// The client's part of the opening handshake, without I/O.
class ClientHandshake {
public:
    /// `options` must outlive this object. After the construction, `error()` is `invalid_argument`
    /// for texts that a head cannot have.
    ClientHandshake(std::string_view host, std::string_view target, const ConnectOptions& options);

    [[nodiscard]] std::string_view request() const noexcept { return request_; }

    /// As in `ServerHandshake`.
    [[nodiscard]] bool take(Bytes received);
    [[nodiscard]] std::error_code error() const noexcept { return error_; }
    [[nodiscard]] std::size_t surplus() const noexcept { return surplus_; }
    [[nodiscard]] std::unique_ptr<Opening> opening() noexcept { return std::move(opening_); }

private:
    void check();

    const ConnectOptions& options_;
    codec::websocket::HandshakeKey key_;
    std::array<codec::http::Field, maximum_fields> storage_;
    codec::http::ResponseParser parser_;
    std::unique_ptr<Opening> opening_;
    std::string request_;
    std::error_code error_;
    std::size_t surplus_ = 0;
    std::size_t interim_ = 0; ///< the size of the interim responses
};

/// A mask key of the thread's stock. Throws `std::system_error` if the kernel has no random bytes.
[[nodiscard]] codec::websocket::MaskKey next_mask_key();

/// The error for a close code of `codec::websocket::Failure`.
[[nodiscard]] std::error_code error_for(std::uint16_t close_code) noexcept;

} // namespace penstock::ws::detail
