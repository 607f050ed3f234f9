#pragma once

#include "openssl.hpp"
#include "py_ref.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace penstock::python {

struct ModuleState;

/// One end of a TLS connection, between bytes in memory: an `ssl.SSLObject` whose records come from
/// `feed` and go to `output`.
///
/// What happens once a connection (handshake, shutdown, certificates, errors) goes through the Python
/// object, so that it is just as `ssl` does it; what happens for each record goes to OpenSSL
/// directly. A BIO of its own stands in for the object's MemoryBIOs: OpenSSL reads from the loop's
/// receive buffer and writes to a send buffer, with no copy kept in between.
class TlsSession {
public:
    enum class Outcome : unsigned char {
        done,
        again,  ///< needs more of the peer's bytes
        closed, ///< the peer's close_notify has come: there is no more to read
        failed, ///< with an exception set
    };

    /// Null with an exception set; NotImplementedError when OpenSSL cannot be reached through
    /// `context`, which is an ssl.SSLContext. `hostname` is a str or None.
    static std::unique_ptr<TlsSession> open(const ModuleState* state, PyObject* context,
                                            bool server_side, PyObject* hostname) noexcept;

    ~TlsSession();
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    [[nodiscard]] PyObject* ssl_object() const noexcept { return ssl_object_.get(); }

    /// Bytes from the peer. They are borrowed until `keep_rest`. Throws `std::bad_alloc`.
    void feed(const char* data, std::size_t size);

    /// Copies what of the borrowed bytes was not used. Throws `std::bad_alloc`.
    void keep_rest();

    /// Fed bytes that OpenSSL has not taken yet.
    [[nodiscard]] std::size_t unread() const noexcept { return left_; }

    /// Whether `read` could give something.
    [[nodiscard]] bool may_read() const noexcept;

    /// An upper bound for what reading until `again` gives.
    [[nodiscard]] std::size_t readable_at_most() const noexcept;

    Outcome handshake() noexcept;

    /// Decrypts up to one record. `count` is 0 unless done.
    Outcome read(char* to, std::size_t size, std::size_t& count) noexcept;

    /// Sends one record at once, in its place in OpenSSL's buffer.
    using Send = void (*)(void* receiver, const char* record, std::size_t size);

    /// Encrypts up to one record. `count` is 0 unless done. The record goes to `send` or, where that
    /// is null, to `output`.
    Outcome write(const char* data, std::size_t size, std::size_t& count, Send send = nullptr,
                  void* receiver = nullptr) noexcept;

    /// Drops what could still be read and sends close_notify; done when the peer's has come too.
    Outcome shutdown() noexcept;

    /// Records to be sent. Whoever sends them empties it.
    std::vector<char>& output() noexcept { return output_; }

private:
    TlsSession(const ModuleState* state, const OpenSsl& openssl) noexcept
        : state_(state), openssl_(openssl) {}

    bool connect(PyObject* context, bool server_side, PyObject* hostname) noexcept;
    Outcome call(PyObject* method) noexcept;
    Outcome outcome_of(int result, const char* method) noexcept;
    void forget_old_errors() noexcept;

    static const bio_method_st* bio_method(const OpenSsl& openssl) noexcept;
    static int bio_read(bio_st* bio, char* to, int size);
    static int bio_write(bio_st* bio, const char* data, int size);
    static long bio_control(bio_st* bio, int command, long number, void* pointer);

    const ModuleState* state_;
    const OpenSsl& openssl_;
    Ref ssl_object_;
    ssl_st* ssl_ = nullptr; ///< the SSLObject's
    bio_st* bio_ = nullptr;
    const char* next_ = nullptr; ///< the fed bytes that are left
    std::size_t left_ = 0;
    std::size_t partial_ = 0; ///< bytes that OpenSSL holds of a record that is not complete
    bool borrowed_ = false;
    bool out_of_memory_ = false; ///< the BIO could not keep a record
    std::vector<char> kept_;
    std::vector<char> output_;
    Send send_ = nullptr; ///< during a write, with the GIL held
    void* receiver_ = nullptr;
};

} // namespace penstock::python
