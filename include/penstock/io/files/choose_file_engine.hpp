#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/io/files/file_engine.hpp>
#include <penstock/io/files/file_engine_options.hpp>

namespace penstock::io {

/// Makes an engine that runs file operations as plain system calls on a bounded pool of threads.
/// The threads block all signals, so that the program's handlers still run on the program's own
/// threads.
///
/// Throws `std::system_error` when the kernel refuses an eventfd or a page of memory. Threads are
/// started later; if not even one can be started, operations end with -EAGAIN.
[[nodiscard]] std::unique_ptr<FileEngine> make_worker_engine(const FileEngineOptions& options = {});

/// Makes an engine on io_uring. Operations that the running kernel has no opcode for run on worker
/// threads. All support is detected at run time.
///
/// Throws `std::system_error` when the kernel refuses the ring: EPERM (a container's seccomp
/// filter, or sysctl kernel.io_uring_disabled), ENOSYS (no io_uring, an io_uring that lacks what is
/// needed, or a build without liburing), ENOMEM (RLIMIT_MEMLOCK, before Linux 5.12), EINVAL,
/// EACCES.
[[nodiscard]] std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options = {});

/// The engine that the environment variable PENSTOCK_FILES asks for.
enum class FileEnginePreference : std::uint8_t {
    automatic, ///< io_uring, or worker threads where it is refused
    uring,     ///< io_uring, or an error
    threads,   ///< worker threads
};

/// Reads PENSTOCK_FILES. Returns `automatic` if it is unset or empty. Throws
/// `std::invalid_argument` for a value other than auto, uring and threads.
[[nodiscard]] FileEnginePreference file_engine_preference();

struct FileEngineChoice {
    std::unique_ptr<FileEngine> engine;
    std::string reason; ///< one line that says why it is this engine
};

/// Makes the engine that is asked for. Throws `std::system_error`, whose text names the remedy,
/// when io_uring is asked for and refused.
[[nodiscard]] FileEngineChoice choose_file_engine(FileEnginePreference preference,
                                                  const FileEngineOptions& options = {});

/// The same, for the engine that the environment asks for.
[[nodiscard]] FileEngineChoice choose_file_engine();

} // namespace penstock::io
