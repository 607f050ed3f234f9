// Finds the OpenSSL that the interpreter has loaded.

#include "tls/openssl.hpp"

#include "shared/py_ref.hpp"

#include <atomic>
#include <cstring>
#include <mutex>

#include <dlfcn.h>

namespace penstock::python {

namespace {

constexpr int crypto_ex_index_ssl = 0;

thread_local unsigned capturing = 0;
thread_local ssl_st* captured = nullptr;

void note_new_ssl(void* parent, void* /*value*/, crypto_ex_data_st* /*data*/, int /*index*/,
                  long /*number*/, void* /*pointer*/) {
    if (capturing > 0) {
        captured = static_cast<ssl_st*>(parent);
    }
}

/// The library of `_ssl`. Symbols are looked up in it and in the libraries that it is linked with.
void* open_ssl_module() noexcept {
    const Ref module(PyImport_ImportModule("_ssl"));
    const Ref file(module ? PyObject_GetAttrString(module.get(), "__file__") : nullptr);
    void* library = nullptr;
    if (file) {
        const char* path = PyUnicode_AsUTF8(file.get());
        library = path != nullptr ? ::dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    } else if (module) {
        library = ::dlopen(nullptr, RTLD_LAZY); // `_ssl` is built into the interpreter
    }
    PyErr_Clear();
    return library;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) noexcept {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

#define PENSTOCK_FIND(function) find(library, #function, openssl.function)

bool find_all(void* library, OpenSsl& openssl) noexcept {
    return PENSTOCK_FIND(SSL_read) && PENSTOCK_FIND(SSL_write) && PENSTOCK_FIND(SSL_pending) &&
           PENSTOCK_FIND(SSL_get_error) && PENSTOCK_FIND(SSL_set0_rbio) &&
           PENSTOCK_FIND(SSL_set0_wbio) && PENSTOCK_FIND(BIO_new) && PENSTOCK_FIND(BIO_free) &&
           PENSTOCK_FIND(BIO_up_ref) && PENSTOCK_FIND(BIO_set_data) &&
           PENSTOCK_FIND(BIO_get_data) && PENSTOCK_FIND(BIO_set_init) &&
           PENSTOCK_FIND(BIO_set_flags) && PENSTOCK_FIND(BIO_clear_flags) &&
           PENSTOCK_FIND(BIO_get_new_index) && PENSTOCK_FIND(BIO_meth_new) &&
           PENSTOCK_FIND(BIO_meth_set_read) && PENSTOCK_FIND(BIO_meth_set_write) &&
           PENSTOCK_FIND(BIO_meth_set_ctrl) && PENSTOCK_FIND(ERR_peek_error) &&
           PENSTOCK_FIND(ERR_clear_error) && PENSTOCK_FIND(OpenSSL_version) &&
           PENSTOCK_FIND(CRYPTO_get_ex_new_index);
}

#undef PENSTOCK_FIND

/// LibreSSL, BoringSSL and AWS-LC have functions of these names with other types.
bool is_openssl(const OpenSsl& openssl) noexcept {
    constexpr const char* name = "OpenSSL ";
    return std::strncmp(openssl.OpenSSL_version(0), name, std::strlen(name)) == 0;
}

bool begin_to_capture(const OpenSsl& openssl) noexcept {
    return openssl.CRYPTO_get_ex_new_index(crypto_ex_index_ssl, 0, nullptr, &note_new_ssl, nullptr,
                                           nullptr) >= 0;
}

/// The OpenSSL of the process. Interpreters with their own GIL share it.
class Finding {
public:
    [[nodiscard]] bool known() const noexcept { return known_.load(std::memory_order_acquire); }

    /// Null when it cannot be reached. Valid once the lookup is done.
    [[nodiscard]] const OpenSsl* openssl() const noexcept { return usable_ ? &openssl_ : nullptr; }

    /// Looks the functions up, unless another thread has done so. Runs no Python code: a thread
    /// that waits for the lock holds a GIL.
    void look_up_functions(void* library) noexcept {
        const std::lock_guard lock(mutex_);
        if (!known()) {
            usable_ =
                find_all(library, openssl_) && is_openssl(openssl_) && begin_to_capture(openssl_);
            known_.store(true, std::memory_order_release);
        }
    }

private:
    std::mutex mutex_;
    std::atomic<bool> known_{false};
    bool usable_ = false;
    OpenSsl openssl_{};
};

Finding finding;

} // namespace

const OpenSsl* interpreter_openssl() noexcept {
    if (!finding.known()) {
        // Not recorded if `_ssl` is missing: other interpreters of the process may have it.
        void* library = open_ssl_module();
        if (library == nullptr) {
            return nullptr;
        }
        finding.look_up_functions(library);
    }
    return finding.openssl();
}

SslCapture::SslCapture() noexcept {
    ++capturing;
    captured = nullptr;
}

SslCapture::~SslCapture() {
    --capturing;
    captured = nullptr;
}

ssl_st* SslCapture::last() const noexcept {
    return captured;
}

} // namespace penstock::python
