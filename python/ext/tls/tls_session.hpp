#pragma once

#include "shared/py_ref.hpp"
#include "tls/openssl.hpp"

#include <cstddef>
#include <memory>
#include <vector>

namespace penstock::python {

struct ModuleState;

/// One end of a TLS connection between buffers in memory: an `ssl.SSLObject` that reads records
/// from `feed` and writes records to `output`.
///
/// Steps that happen once per connection (handshake, shutdown, certificates, errors) go through the
/// Python object, so they behave as in `ssl`. Steps that happen for each record call OpenSSL
/// directly. A custom BIO replaces the object's MemoryBIOs: OpenSSL reads from the loop's receive
/// buffer and writes to a send buffer, without a copy in between.
class TlsSession {
public:
    enum class Outcome : unsigned char {
        done,
        again,  ///< needs more input from the peer
        closed, ///< the peer's close_notify has arrived: no more data follows
        failed, ///< with an exception set
    };

    /// Null with an exception set: NotImplementedError when OpenSSL cannot be reached through
    /// `context`, an ssl.SSLContext. `hostname` is a str or None.
    static std::unique_ptr<TlsSession> open(const ModuleState* state, PyObject* context,
                                            bool server_side, PyObject* hostname) noexcept;

    ~TlsSession();
    TlsSession(const TlsSession&) = delete;
    TlsSession& operator=(const TlsSession&) = delete;

    [[nodiscard]] PyObject* ssl_object() const noexcept { return ssl_object_.get(); }

    /// Adds bytes from the peer. They are borrowed until `own_input`. Throws `std::bad_alloc`.
    void feed(const char* data, std::size_t size);

    /// Copies the unused rest of the borrowed bytes. Throws `std::bad_alloc`.
    void own_input();

    /// The number of fed bytes that OpenSSL has not taken.
    [[nodiscard]] std::size_t unread() const noexcept { return left_; }

    /// Whether `read` may return data.
    [[nodiscard]] bool may_read() const noexcept;

    /// An upper bound for the data that `read` returns until `again`.
    [[nodiscard]] std::size_t readable_at_most() const noexcept;

    Outcome handshake() noexcept;

    /// Decrypts up to one record. `count` is 0 unless done.
    Outcome read(char* to, std::size_t size, std::size_t& count) noexcept;

    /// Sends one record from OpenSSL's buffer at once.
    using Send = void (*)(void* receiver, const char* record, std::size_t size);

    /// Encrypts up to one record. `count` is 0 unless done. The record goes to `send`, or to
    /// `output` when that is null.
    Outcome write(const char* data, std::size_t size, std::size_t& count, Send send = nullptr,
                  void* receiver = nullptr) noexcept;

    /// Drops unread data and sends close_notify. Done when the peer's has arrived too.
    Outcome shutdown() noexcept;

    /// Records to be sent. The sender empties it.
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
    ssl_st* ssl_ = nullptr; ///< owned by the SSLObject
    bio_st* bio_ = nullptr;
    const char* next_ = nullptr; ///< the rest of the fed bytes
    std::size_t left_ = 0;
    std::size_t partial_ = 0; ///< bytes that OpenSSL has of an incomplete record
    bool borrowed_ = false;
    bool out_of_memory_ = false; ///< the BIO had no memory for a record
    std::vector<char> kept_;
    std::vector<char> output_;
    Send send_ = nullptr; ///< during a write, with the GIL held
    void* receiver_ = nullptr;
};

} // namespace penstock::python
