#include <penstock/tls/ticket_keys.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include "tls/context_state.hpp"
#include "tls/ticket_key_ring.hpp"

namespace penstock::tls {

namespace detail {

TicketKey::~TicketKey() {
    OPENSSL_cleanse(mac.data(), mac.size());
    OPENSSL_cleanse(cipher.data(), cipher.size());
}

TicketKeyRing::TicketKeyRing(std::vector<TicketKey> keys, std::chrono::seconds interval)
    : keys_(std::move(keys)), interval_(interval) {}

Result<TicketKey> TicketKeyRing::random_key() noexcept {
    TicketKey key;
    if (RAND_bytes(key.name.data(), static_cast<int>(key.name.size())) != 1 ||
        RAND_priv_bytes(key.mac.data(), static_cast<int>(key.mac.size())) != 1 ||
        RAND_priv_bytes(key.cipher.data(), static_cast<int>(key.cipher.size())) != 1) {
        return failure(take_openssl_error());
    }
    return key;
}

Result<> TicketKeyRing::rotate() {
    const std::lock_guard guard(lock_);
    return rotate_locked();
}

Result<> TicketKeyRing::rotate_locked() {
    const Result<TicketKey> key = random_key();
    if (!key) {
        return failure(key.error());
    }
    keys_.insert(keys_.begin(), *key);
    keys_.resize(std::min(keys_.size(), kept + 1));
    changed_ = std::chrono::steady_clock::now();
    return {};
}

void TicketKeyRing::replace(std::vector<TicketKey> keys) {
    const std::lock_guard guard(lock_);
    keys_ = std::move(keys);
}

std::optional<TicketKey> TicketKeyRing::current() noexcept {
    try {
        const std::lock_guard guard(lock_);
        if (is_random() && std::chrono::steady_clock::now() - changed_ >= interval_) {
            (void)rotate_locked(); // without a new one, the old one serves on
        }
        return keys_.front();
    } catch (...) {
        return std::nullopt;
    }
}

std::optional<TicketKey> TicketKeyRing::find(const unsigned char* name, bool& is_current) noexcept {
    try {
        const std::lock_guard guard(lock_);
        const auto found = std::ranges::find_if(keys_, [name](const TicketKey& key) {
            return std::memcmp(key.name.data(), name, key.name.size()) == 0;
        });
        if (found == keys_.end()) {
            return std::nullopt;
        }
        is_current = found == keys_.begin();
        return *found;
    } catch (...) {
        return std::nullopt;
    }
}

int TicketKeyRing::begin(unsigned char* name, unsigned char* start, EVP_CIPHER_CTX* cipher,
                         EVP_MAC_CTX* mac, bool encrypts) noexcept {
    constexpr int unusable = -1;
    constexpr int no_such_key = 0; // in the end a full handshake, or no ticket
    constexpr int good = 1;
    constexpr int good_but_old = 2; // the client gets a new ticket
    bool is_current = true;
    std::optional<TicketKey> key = encrypts ? current() : find(name, is_current);
    if (!key) {
        return no_such_key;
    }
    if (encrypts) {
        std::ranges::copy(key->name, name);
        if (RAND_bytes(start, EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 1) {
            return unusable;
        }
    }
    std::array<char, 7> digest{"SHA256"};
    const std::array<OSSL_PARAM, 3> parameters{
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, key->mac.data(), key->mac.size()),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest.data(), 0),
        OSSL_PARAM_construct_end()};
    if (EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), nullptr, key->cipher.data(), start,
                          encrypts ? 1 : 0) != 1 ||
        EVP_MAC_CTX_set_params(mac, parameters.data()) != 1) {
        return unusable;
    }
    return is_current ? good : good_but_old;
}

} // namespace detail

namespace {

using detail::TicketKey;
using detail::TicketKeyRing;

constexpr std::size_t key_size = 16 + 32 + 32;

Result<TicketKey> read_key(const std::string& path) {
    struct Close {
        void operator()(std::FILE* file) const noexcept { (void)std::fclose(file); }
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
    if (!file) {
        return failure(std::error_code(errno, std::system_category()));
    }
    (void)std::setvbuf(file.get(), nullptr, _IONBF, 0); // no copy of the key in a buffer
    std::array<unsigned char, key_size + 1> bytes{};
    const std::size_t size = std::fread(bytes.data(), 1, bytes.size(), file.get());
    if (std::ferror(file.get()) != 0) {
        return failure(std::errc::io_error);
    }
    if (size != key_size) {
        return failure(std::errc::invalid_argument);
    }
    TicketKey key;
    const unsigned char* at = bytes.data();
    std::memcpy(key.name.data(), at, key.name.size());
    at += key.name.size();
    std::memcpy(key.mac.data(), at, key.mac.size());
    at += key.mac.size();
    std::memcpy(key.cipher.data(), at, key.cipher.size());
    OPENSSL_cleanse(bytes.data(), bytes.size());
    return key;
}

Result<std::vector<TicketKey>> read_keys(const std::vector<std::string>& files) {
    if (files.empty()) {
        return failure(std::errc::invalid_argument);
    }
    std::vector<TicketKey> keys;
    keys.reserve(files.size());
    for (const std::string& file : files) {
        const Result<TicketKey> key = read_key(file);
        if (!key) {
            return failure(key.error());
        }
        keys.push_back(*key);
    }
    return keys;
}

} // namespace

Result<TicketKeys> TicketKeys::random(std::chrono::seconds interval) {
    const Result<TicketKey> key = TicketKeyRing::random_key();
    if (!key) {
        return failure(key.error());
    }
    return TicketKeys(std::make_shared<TicketKeyRing>(std::vector<TicketKey>{*key},
                                                      std::max(interval, std::chrono::seconds(1))));
}

Result<TicketKeys> TicketKeys::from_files(const std::vector<std::string>& files) {
    Result<std::vector<TicketKey>> keys = read_keys(files);
    if (!keys) {
        return failure(keys.error());
    }
    return TicketKeys(std::make_shared<TicketKeyRing>(std::move(*keys), std::chrono::seconds(0)));
}

Result<> TicketKeys::rotate() const {
    if (!ring_) { // moved from
        return failure(std::errc::invalid_argument);
    }
    return ring_->is_random() ? ring_->rotate() : failure(std::errc::operation_not_supported);
}

Result<> TicketKeys::reload(const std::vector<std::string>& files) const {
    if (!ring_ || ring_->is_random()) {
        return failure(ring_ ? std::errc::operation_not_supported : std::errc::invalid_argument);
    }
    Result<std::vector<TicketKey>> keys = read_keys(files);
    if (!keys) {
        return failure(keys.error());
    }
    ring_->replace(std::move(*keys));
    return {};
}

} // namespace penstock::tls
