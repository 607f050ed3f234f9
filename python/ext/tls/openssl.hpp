#pragma once

#include <Python.h>

struct ssl_st;
struct bio_st;
struct bio_method_st;
struct crypto_ex_data_st;

namespace penstock::python {

/// The functions of libssl and libcrypto that the interpreter's own `_ssl` module uses, looked up
/// at run time. The extension is not linked with OpenSSL. So the process never has a second copy,
/// and one build fits every OpenSSL from 1.1.1 on. The prototypes are OpenSSL's (SSL_read(3) and so
/// on).
struct OpenSsl {
    int (*SSL_read)(ssl_st*, void*, int);
    int (*SSL_write)(ssl_st*, const void*, int);
    int (*SSL_pending)(const ssl_st*);
    int (*SSL_get_error)(const ssl_st*, int);
    void (*SSL_set0_rbio)(ssl_st*, bio_st*);
    void (*SSL_set0_wbio)(ssl_st*, bio_st*);
    bio_st* (*BIO_new)(const bio_method_st*);
    int (*BIO_free)(bio_st*);
    int (*BIO_up_ref)(bio_st*);
    void (*BIO_set_data)(bio_st*, void*);
    void* (*BIO_get_data)(bio_st*);
    void (*BIO_set_init)(bio_st*, int);
    void (*BIO_set_flags)(bio_st*, int);
    void (*BIO_clear_flags)(bio_st*, int);
    int (*BIO_get_new_index)();
    bio_method_st* (*BIO_meth_new)(int, const char*);
    int (*BIO_meth_set_read)(bio_method_st*, int (*)(bio_st*, char*, int));
    int (*BIO_meth_set_write)(bio_method_st*, int (*)(bio_st*, const char*, int));
    int (*BIO_meth_set_ctrl)(bio_method_st*, long (*)(bio_st*, int, long, void*));
    unsigned long (*ERR_peek_error)();
    void (*ERR_clear_error)();
    const char* (*OpenSSL_version)(int);
    int (*CRYPTO_get_ex_new_index)(int, long, void*,
                                   void (*)(void*, void*, crypto_ex_data_st*, int, long, void*),
                                   void*, void*);
};

constexpr int ssl_error_want_read = 2;
constexpr int ssl_error_want_write = 3;
constexpr int ssl_error_syscall = 5;
constexpr int ssl_error_zero_return = 6;

/// The interpreter's OpenSSL. Null, without an exception, when it cannot be reached: an interpreter
/// without `_ssl`, one that hides its OpenSSL, or one with another library.
const OpenSsl* interpreter_openssl() noexcept;

/// Finds the `SSL*` of an `ssl.SSLObject` without access to the object's memory. OpenSSL reports
/// every SSL structure that is made (CRYPTO_get_ex_new_index(3)). The result is the last one that
/// this thread has made during the lifetime of this object. An `_ssl` with another copy of OpenSSL
/// would report nothing.
class SslCapture {
public:
    SslCapture() noexcept;
    ~SslCapture();
    SslCapture(const SslCapture&) = delete;
    SslCapture& operator=(const SslCapture&) = delete;

    /// The structure that was made last, or null.
    [[nodiscard]] ssl_st* last() const noexcept;
};

} // namespace penstock::python
