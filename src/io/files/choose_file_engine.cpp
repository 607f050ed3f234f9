#include <penstock/io/files/choose_file_engine.hpp>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "io/files/engine_making.hpp"

namespace penstock::io {

namespace {

/// Why the kernel refused the ring; null for an error that would also affect worker threads.
const char* refusal(int error) noexcept {
    switch (error) {
    case EPERM:
        return "io_uring is forbidden here (EPERM): by a container's seccomp filter, or by sysctl "
               "kernel.io_uring_disabled";
    case EACCES:
        return "io_uring is forbidden here (EACCES)";
    case ENOSYS:
#ifdef PENSTOCK_HAS_URING
        return "this kernel has no io_uring, or lacks io_uring features that are required (ENOSYS)";
#else
        return "this build has no io_uring: liburing was not found (ENOSYS)";
#endif
    case EINVAL:
        return "this kernel's io_uring rejects the required parameters (EINVAL)";
    case ENOMEM:
        return "the kernel has no memory for io_uring (ENOMEM): raise RLIMIT_MEMLOCK";
    default:
        return nullptr;
    }
}

} // namespace

#ifndef PENSTOCK_HAS_URING
std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& /*options*/,
                                              RingKernel& /*kernel*/) {
    throw std::system_error(ENOSYS, std::system_category(), "io_uring");
}
#endif

std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options) {
    return make_uring_engine(options, RingKernel::running());
}

FileEnginePreference file_engine_preference() {
    const char* value = std::getenv("PENSTOCK_FILES");
    const std::string_view preference = value != nullptr ? value : "";
    if (preference.empty() || preference == "auto") {
        return FileEnginePreference::automatic;
    }
    if (preference == "uring") {
        return FileEnginePreference::uring;
    }
    if (preference == "threads") {
        return FileEnginePreference::threads;
    }
    throw std::invalid_argument("PENSTOCK_FILES is '" + std::string(preference) +
                                "'; set it to auto, uring or threads, or unset it");
}

FileEngineChoice choose_file_engine(FileEnginePreference preference,
                                    const FileEngineOptions& options, const MakeEngine& make_ring) {
    if (preference == FileEnginePreference::threads) {
        return {make_worker_engine(options), "worker threads: required by PENSTOCK_FILES"};
    }
    try {
        return {make_ring(options), preference == FileEnginePreference::uring
                                        ? "io_uring: required by PENSTOCK_FILES"
                                        : "io_uring: the kernel allows it"};
    } catch (const std::system_error& error) {
        const char* why = refusal(error.code().value());
        if (why == nullptr) {
            throw;
        }
        if (preference == FileEnginePreference::uring) {
            throw std::system_error(error.code(),
                                    std::string(why) + "; set PENSTOCK_FILES to auto or threads");
        }
        return {make_worker_engine(options), std::string("worker threads: ") + why};
    }
}

FileEngineChoice choose_file_engine(FileEnginePreference preference,
                                    const FileEngineOptions& options) {
    return choose_file_engine(
        preference, options, [](const FileEngineOptions& ring) { return make_uring_engine(ring); });
}

FileEngineChoice choose_file_engine() {
    return choose_file_engine(file_engine_preference());
}

} // namespace penstock::io
