#include "tls/tls_session.hpp"

#include "core/module.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace penstock::python {

namespace {

constexpr int bio_type_source_sink = 0x0400;
constexpr int bio_ctrl_flush = 11;
constexpr int bio_flags_read_again = 0x01 | 0x08; // BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY
constexpr int bio_flags_again = 0x07 | 0x08;      // BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY

int as_int(std::size_t size) noexcept {
    return static_cast<int>(
        std::min<std::size_t>(size, static_cast<std::size_t>(std::numeric_limits<int>::max())));
}

} // namespace

// ---- the BIO ------------------------------------------------------------------------------------
//
// OpenSSL calls these functions, during a handshake without the GIL. They may not use Python,
// except `send` in a write.

int TlsSession::bio_read(bio_st* bio, char* to, int size) {
    const OpenSsl* openssl = interpreter_openssl();
    auto* session = static_cast<TlsSession*>(openssl->BIO_get_data(bio));
    if (session == nullptr) {
        return -1; // the SSLObject has outlived its connection
    }
    openssl->BIO_clear_flags(bio, bio_flags_again);
    if (session->left_ == 0) {
        openssl->BIO_set_flags(bio, bio_flags_read_again);
        return -1;
    }
    const std::size_t count = std::min(session->left_, static_cast<std::size_t>(size));
    std::memcpy(to, session->next_, count);
    session->next_ += count;
    session->left_ -= count;
    session->partial_ += count;
    return static_cast<int>(count);
}

int TlsSession::bio_write(bio_st* bio, const char* data, int size) {
    const OpenSsl* openssl = interpreter_openssl();
    auto* session = static_cast<TlsSession*>(openssl->BIO_get_data(bio));
    if (session == nullptr) {
        return -1;
    }
    openssl->BIO_clear_flags(bio, bio_flags_again);
    if (session->send_ != nullptr && session->output_.empty()) {
        session->send_(session->receiver_, data, static_cast<std::size_t>(size));
        return size;
    }
    try {
        session->output_.insert(session->output_.end(), data, data + size);
    } catch (const std::bad_alloc&) {
        session->out_of_memory_ = true;
        return -1;
    }
    return size;
}

long TlsSession::bio_control(bio_st* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
    return command == bio_ctrl_flush ? 1 : 0;
}

const bio_method_st* TlsSession::bio_method(const OpenSsl& openssl) noexcept {
    static const bio_method_st* const method = [&openssl]() -> const bio_method_st* {
        bio_method_st* made =
            openssl.BIO_meth_new(openssl.BIO_get_new_index() | bio_type_source_sink, "penstock");
        if (made != nullptr) {
            openssl.BIO_meth_set_read(made, &bio_read);
            openssl.BIO_meth_set_write(made, &bio_write);
            openssl.BIO_meth_set_ctrl(made, &bio_control);
        }
        return made;
    }();
    return method;
}

// ---- making ------------------------------------------------------------------------------------

std::unique_ptr<TlsSession> TlsSession::open(const ModuleState* state, PyObject* context,
                                             bool server_side, PyObject* hostname) noexcept {
    const OpenSsl* openssl = interpreter_openssl();
    if (openssl == nullptr) {
        PyErr_SetString(PyExc_NotImplementedError,
                        "this interpreter's OpenSSL cannot be reached; use asyncio's SSLProtocol");
        return nullptr;
    }
    std::unique_ptr<TlsSession> session(new (std::nothrow) TlsSession(state, *openssl));
    if (!session) {
        PyErr_NoMemory();
        return nullptr;
    }
    return session->connect(context, server_side, hostname) ? std::move(session) : nullptr;
}

bool TlsSession::connect(PyObject* context, bool server_side, PyObject* hostname) noexcept {
    // wrap_bio() requires these MemoryBIOs. They are replaced at once.
    const Ref incoming(PyObject_CallNoArgs(state_->ssl_memory_bio));
    const Ref outgoing(PyObject_CallNoArgs(state_->ssl_memory_bio));
    if (!incoming || !outgoing) {
        return false;
    }
    {
        const SslCapture capture;
        ssl_object_ = Ref(PyObject_CallMethodObjArgs(
            context, state_->name_wrap_bio, incoming.get(), outgoing.get(),
            server_side ? Py_True : Py_False, hostname, nullptr));
        ssl_ = capture.last();
    }
    if (!ssl_object_) {
        return false;
    }
    const bio_method_st* method = bio_method(openssl_);
    if (ssl_ == nullptr) {
        PyErr_SetString(PyExc_NotImplementedError,
                        "the context's SSLObject does not use the interpreter's OpenSSL; use "
                        "asyncio's SSLProtocol");
        return false;
    }
    bio_ = method != nullptr ? openssl_.BIO_new(method) : nullptr;
    if (bio_ == nullptr) {
        PyErr_NoMemory();
        return false;
    }
    openssl_.BIO_set_data(bio_, this);
    openssl_.BIO_set_init(bio_, 1);
    for (auto* set_bio : {openssl_.SSL_set0_rbio, openssl_.SSL_set0_wbio}) {
        openssl_.BIO_up_ref(bio_);
        set_bio(ssl_, bio_);
    }
    return true;
}

TlsSession::~TlsSession() {
    if (bio_ != nullptr) {
        openssl_.BIO_set_data(bio_, nullptr);
        openssl_.BIO_free(bio_);
    }
}

// ---- input -------------------------------------------------------------------------------------

void TlsSession::feed(const char* data, std::size_t size) {
    if (left_ == 0) {
        next_ = data;
        left_ = size;
        borrowed_ = true;
        return;
    }
    own_input();
    kept_.erase(kept_.begin(), kept_.end() - static_cast<std::ptrdiff_t>(left_));
    kept_.insert(kept_.end(), data, data + size);
    next_ = kept_.data();
    left_ = kept_.size();
}

void TlsSession::own_input() {
    if (left_ == 0) {
        if (kept_.capacity() > 0) {
            std::vector<char>().swap(kept_);
        }
        return;
    }
    if (borrowed_) {
        kept_.assign(next_, next_ + left_);
        next_ = kept_.data();
        borrowed_ = false;
    }
}

bool TlsSession::may_read() const noexcept {
    return left_ > 0 || openssl_.SSL_pending(ssl_) > 0;
}

std::size_t TlsSession::readable_at_most() const noexcept {
    // A record is longer than its content.
    return left_ + partial_ + static_cast<std::size_t>(openssl_.SSL_pending(ssl_));
}

// ---- records ------------------------------------------------------------------------------------

/// Clears the thread's error queue. SSL_get_error(3) reports any queued error, including those of
/// other users of OpenSSL.
void TlsSession::forget_old_errors() noexcept {
    if (openssl_.ERR_peek_error() != 0) {
        openssl_.ERR_clear_error();
    }
}

TlsSession::Outcome TlsSession::read(char* to, std::size_t size, std::size_t& count) noexcept {
    forget_old_errors();
    count = 0;
    const int result = openssl_.SSL_read(ssl_, to, as_int(size));
    if (result > 0) {
        count = static_cast<std::size_t>(result);
        partial_ = 0;
        return Outcome::done;
    }
    return outcome_of(result, "read");
}

TlsSession::Outcome TlsSession::write(const char* data, std::size_t size, std::size_t& count,
                                      Send send, void* receiver) noexcept {
    forget_old_errors();
    count = 0;
    send_ = send;
    receiver_ = receiver;
    const int result = openssl_.SSL_write(ssl_, data, as_int(size));
    send_ = nullptr;
    if (result > 0) {
        count = static_cast<std::size_t>(result);
        return Outcome::done;
    }
    return outcome_of(result, "write");
}

TlsSession::Outcome TlsSession::outcome_of(int result, const char* method) noexcept {
    switch (openssl_.SSL_get_error(ssl_, result)) {
    case ssl_error_want_read:
    case ssl_error_want_write:
        return Outcome::again;
    case ssl_error_zero_return:
        return Outcome::closed;
    case ssl_error_syscall:
        if (!std::exchange(out_of_memory_, false)) {
            // OpenSSL has reported the failure once and does not repeat it. A later call, as in the
            // rest of a shutdown, has no new error. asyncio's loop ignores this too.
            return Outcome::again;
        }
        PyErr_NoMemory();
        return Outcome::failed;
    default:
        break;
    }
    // The connection has failed for good, and OpenSSL reports it again. `_ssl` makes the exception
    // from the error that is still queued.
    const Ref again(std::strcmp(method, "read") == 0
                        ? PyObject_CallMethod(ssl_object_.get(), method, "i", 1)
                        : PyObject_CallMethod(ssl_object_.get(), method, "y", "x"));
    if (again) {
        PyErr_SetString(PyExc_ConnectionError, "the TLS connection has failed");
    }
    return Outcome::failed;
}

// ---- once per connection -----------------------------------------------------------------------

TlsSession::Outcome TlsSession::call(PyObject* method) noexcept {
    const Ref result(PyObject_CallMethodNoArgs(ssl_object_.get(), method));
    if (result) {
        return Outcome::done;
    }
    if (PyErr_ExceptionMatches(state_->ssl_again_errors) == 0) {
        return Outcome::failed;
    }
    PyErr_Clear();
    return Outcome::again;
}

TlsSession::Outcome TlsSession::handshake() noexcept {
    const Outcome outcome = call(state_->name_do_handshake);
    partial_ = 0;
    return outcome;
}

// Drops received data that the program will not read. It would fail the exchange ("application data
// after close notify"), although the peer did nothing wrong: it sent the data before our
// close_notify arrived.
TlsSession::Outcome TlsSession::shutdown() noexcept {
    std::array<char, 4096> nowhere{};
    std::size_t count = 0;
    Outcome outcome = Outcome::done;
    while (outcome == Outcome::done) {
        outcome = read(nowhere.data(), nowhere.size(), count);
    }
    return outcome == Outcome::failed ? outcome : call(state_->name_unwrap);
}

} // namespace penstock::python
