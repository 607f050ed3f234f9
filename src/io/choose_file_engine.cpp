#include <penstock/io/choose_file_engine.hpp>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace penstock::io {

namespace {

/// Why the kernel refused the ring, or null for an error that no engine would be spared.
const char* refusal(int error) noexcept {
    switch (error) {
    case EPERM:
        return "io_uring is forbidden here (EPERM): by a container's seccomp filter, or by sysctl "
               "kernel.io_uring_disabled";
    case EACCES:
        return "io_uring is forbidden here (EACCES)";
    case ENOSYS:
#ifdef PENSTOCK_HAS_URING
        return "this kernel has no io_uring that will do (ENOSYS)";
#else
        return "this build has no io_uring: liburing was not found (ENOSYS)";
#endif
    case EINVAL:
        return "this kernel's io_uring does not take what it is asked for (EINVAL)";
    case ENOMEM:
        return "the kernel has no memory for io_uring (ENOMEM): raise RLIMIT_MEMLOCK";
    default:
        return nullptr;
    }
}

} // namespace

#ifndef PENSTOCK_HAS_URING
std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options) {
    const int error = options.refuse_ring != 0 ? options.refuse_ring : ENOSYS;
    throw std::system_error(error, std::system_category(), "io_uring");
}
#endif

FileEngineWish file_engine_wish() {
    const char* value = std::getenv("PENSTOCK_FILES");
    const std::string_view wish = value != nullptr ? value : "";
    if (wish.empty() || wish == "auto") {
        return FileEngineWish::automatic;
    }
    if (wish == "uring") {
        return FileEngineWish::uring;
    }
    if (wish == "threads") {
        return FileEngineWish::threads;
    }
    throw std::invalid_argument("PENSTOCK_FILES is '" + std::string(wish) +
                                "'; set it to auto, uring or threads, or unset it");
}

FileEngineChoice choose_file_engine(FileEngineWish wish, const FileEngineOptions& options) {
    if (wish == FileEngineWish::threads) {
        return {make_worker_engine(options), "worker threads: PENSTOCK_FILES asks for them"};
    }
    try {
        return {make_uring_engine(options), wish == FileEngineWish::uring
                                                ? "io_uring: PENSTOCK_FILES asks for it"
                                                : "io_uring: the kernel allows it"};
    } catch (const std::system_error& error) {
        const char* why = refusal(error.code().value());
        if (why == nullptr) {
            throw;
        }
        if (wish == FileEngineWish::uring) {
            throw std::system_error(error.code(),
                                    std::string(why) + "; set PENSTOCK_FILES to auto or threads");
        }
        return {make_worker_engine(options), std::string("worker threads: ") + why};
    }
}

FileEngineChoice choose_file_engine() {
    return choose_file_engine(file_engine_wish());
}

} // namespace penstock::io
