#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/stream/chunk.hpp>
#include <penstock/stream/encryption.hpp>
#include <penstock/tls/context.hpp>

struct bio_st;
struct evp_cipher_ctx_st;
struct evp_mac_ctx_st;
struct ssl_st;

namespace penstock::tls::detail {

class ContextState;
class TicketKeyRing;

/// How far a step of the engine has come.
enum class Step : std::uint8_t {
    done,
    needs_input,   ///< all input is consumed
    end_of_stream, ///< the peer has ended the encrypted stream
    failed,        ///< `error` says why
};

/// Takes output at once, without waiting: returns the number of bytes, 0 also after an error.
struct Outlet {
    void* stream = nullptr;
    std::size_t (*take)(void* stream, Bytes from) noexcept = nullptr;
};

/// One encrypted connection without I/O: bytes of the connection go in by `set_input` and come out
/// by an outlet, or by `take_output` where that is missing or full. Each step may produce output,
/// also one that fails (an alert).
///
/// Its own BIO reads the input in place, and passes a record to the outlet from OpenSSL's own
/// buffer. Rejected: OpenSSL's memory BIOs, which copy each record once more and keep their memory,
/// and its socket BIO, which takes one record a system call.
class Engine {
public:
    enum class Side : std::uint8_t { client, server };

    /// For a client: the name of the server, or its address as text, for SNI, verification and
    /// session resumption. Errors: `Error::no_certificate_name`, OpenSSL's. Throws
    /// `std::bad_alloc`.
    [[nodiscard]] static Result<std::unique_ptr<Engine>> make(const Context& context, Side side,
                                                              std::string server_name);
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// The bytes must stay until they are consumed.
    void set_input(Bytes bytes) noexcept { input_ = bytes; }
    [[nodiscard]] bool input_consumed() const noexcept { return input_.empty(); }

    [[nodiscard]] std::size_t output_size() const noexcept { return output_.size(); }
    [[nodiscard]] Chunk take_output() noexcept { return std::move(output_); }

    /// Rethrows what `ServerOptions::select` has thrown.
    [[nodiscard]] Step handshake();
    /// Whether `decrypt` may have something without further input.
    [[nodiscard]] bool may_decrypt() const noexcept;
    /// Decrypts at least one byte into `into`, which is not empty.
    [[nodiscard]] Step decrypt(MutableBytes into, std::size_t& count, Outlet outlet) noexcept;
    /// Encrypts all of `from`: `done` or `failed`. `needs_input` if it has encrypted nothing,
    /// because a record of the peer that is not for the application is still incomplete.
    [[nodiscard]] Step encrypt(Bytes from, Outlet outlet) noexcept;
    /// Changes the keys of both directions (RFC 8446, section 4.6.3). As `encrypt`.
    [[nodiscard]] Step update_keys() noexcept;
    /// Ends the encrypted stream in this direction. Once. As `encrypt`.
    [[nodiscard]] Step shutdown() noexcept;
    /// Whether `shutdown` was called.
    [[nodiscard]] bool has_shut_down() const noexcept;

    [[nodiscard]] std::error_code error() const noexcept { return error_; }

    [[nodiscard]] std::string_view version() const noexcept;
    [[nodiscard]] std::string_view cipher() const noexcept;
    [[nodiscard]] std::string_view alpn() const noexcept;
    [[nodiscard]] std::string_view server_name() const noexcept { return server_name_; }
    [[nodiscard]] bool session_resumed() const noexcept;
    [[nodiscard]] std::optional<std::string> peer_certificate() const;
    [[nodiscard]] std::optional<VerifiedPeer> verified_peer() const;

    /// For OpenSSL: the first call of a server's handshake.
    static int on_client_hello(ssl_st* connection, int* alert, void* unused) noexcept;
    /// For OpenSSL: `TicketKeyRing::begin` of the context in which the connection began.
    static int on_ticket_key(ssl_st* connection, unsigned char* name, unsigned char* start,
                             evp_cipher_ctx_st* cipher, evp_mac_ctx_st* mac, int encrypts) noexcept;

private:
    struct Bio;
    struct FreeConnection {
        void operator()(ssl_st* connection) const noexcept;
    };

    Engine(std::shared_ptr<ContextState> context, std::string server_name) noexcept
        : context_(std::move(context)), server_name_(std::move(server_name)) {}

    [[nodiscard]] Result<> begin(Side side);
    [[nodiscard]] std::error_code name_server();
    [[nodiscard]] bool select_context();
    [[nodiscard]] Step outcome(int returned) noexcept;

    std::shared_ptr<ContextState> context_;
    std::shared_ptr<TicketKeyRing> ticket_keys_; ///< also after another context was selected
    std::string server_name_;
    std::unique_ptr<ssl_st, FreeConnection> connection_;
    Bytes input_;
    Chunk output_;
    Outlet outlet_; ///< during a step
    std::error_code error_;
    /// `shutdown` is done. OpenSSL would still answer requests for new keys, but nothing may follow
    /// the end (RFC 8446, section 6.1), so what it writes is dropped.
    bool ended_ = false;
    std::exception_ptr thrown_;
};

} // namespace penstock::tls::detail
