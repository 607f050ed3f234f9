#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <vector>

#include <openssl/ssl.h>

#include <penstock/result.hpp>

namespace penstock::tls::detail {

/// A key, in the order of nginx' files.
struct TicketKey {
    std::array<unsigned char, 16> name{};
    std::array<unsigned char, 32> mac{};    ///< HMAC of SHA-256
    std::array<unsigned char, 32> cipher{}; ///< AES-256-CBC

    TicketKey() = default;
    TicketKey(const TicketKey&) = default;
    TicketKey& operator=(const TicketKey&) = default;
    /// Leaves no copy in memory that is freed.
    ~TicketKey();
};

/// The current key and those before it.
class TicketKeyRing {
public:
    /// Of keys that are replaced by random ones, or, with an interval of 0, by the owner's.
    TicketKeyRing(std::vector<TicketKey> keys, std::chrono::seconds interval);

    /// Errors: OpenSSL's.
    [[nodiscard]] static Result<TicketKey> random_key() noexcept;

    [[nodiscard]] bool is_random() const noexcept { return interval_.count() > 0; }
    [[nodiscard]] Result<> rotate();
    void replace(std::vector<TicketKey> keys);

    /// For OpenSSL: prepares a ticket's encryption or decryption (SSL_CTX_set_tlsext_ticket_key_cb,
    /// whose results these are).
    int begin(unsigned char* name, unsigned char* start, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac,
              bool encrypts) noexcept;

private:
    /// Beside the current one. With the usual interval a ticket outlives its two hours.
    static constexpr std::size_t kept = 2;

    [[nodiscard]] std::optional<TicketKey> current() noexcept;
    [[nodiscard]] std::optional<TicketKey> find(const unsigned char* name,
                                                bool& is_current) noexcept;
    [[nodiscard]] Result<> rotate_locked();

    std::mutex lock_;
    std::vector<TicketKey> keys_; ///< the current one first
    std::chrono::seconds interval_;
    std::chrono::steady_clock::time_point changed_ = std::chrono::steady_clock::now();
};

} // namespace penstock::tls::detail
