// What ThreadSanitizer must not report about OpenSSL, whose code is not instrumented.

// Threads that share a tls::Context share its sessions. OpenSSL counts a session's references by
// atomic instructions that ThreadSanitizer does not see. It does see memcpy and free, so a session
// that one thread copies, releases, and another then frees looked like a data race:
// OPENSSL_sk_dup against OPENSSL_sk_free. Calls that OpenSSL itself makes are not checked. What it
// calls back is.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
    return "called_from_lib:libcrypto.so\n"
           "called_from_lib:libssl.so\n";
}
#endif
#endif
