// OpenSSL calls that either succeed or throw, naming the call and OpenSSL's reason.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdexcept>
#include <string>
#include <sys/types.h>

namespace bench {

[[noreturn]] inline void throw_openssl(const char* call) {
    const char* reason = ERR_reason_error_string(ERR_peek_last_error());
    throw std::runtime_error(std::string(call) + ": " +
                             (reason != nullptr ? reason : "the connection was cut"));
}

template <typename Object> Object* made(Object* object, const char* call) {
    if (object == nullptr) {
        throw_openssl(call);
    }
    return object;
}

/// A count; -1 if the call would block, 0 if the peer has ended the connection.
inline ssize_t outcome(const SSL* ssl, int result, const char* call) {
    if (result > 0) {
        return result;
    }
    switch (SSL_get_error(ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    default:
        throw_openssl(call);
    }
}

} // namespace bench
