#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <penstock/io/file_engine.hpp>
#include <penstock/io/file_engine_options.hpp>

namespace penstock::io {

/// File operations as plain system calls on a bounded pool of threads. They block all signals, so that
/// the program's handlers go on to run where they did.
///
/// Throws `std::system_error` when the kernel refuses an eventfd or a page. Threads come later; where
/// not even one can be had, operations end with -EAGAIN.
[[nodiscard]] std::unique_ptr<FileEngine> make_worker_engine(const FileEngineOptions& options = {});

/// File operations through io_uring; what the running kernel has no opcode for goes to worker threads.
/// Everything is found out at run time.
///
/// Throws `std::system_error` when the kernel refuses the ring: EPERM (a container's seccomp filter, or
/// sysctl kernel.io_uring_disabled), ENOSYS (no io_uring, or none that has what is needed, or this
/// program was built without liburing), ENOMEM (RLIMIT_MEMLOCK, before Linux 5.12), EINVAL, EACCES.
[[nodiscard]] std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options = {});

/// What PENSTOCK_FILES says.
enum class FileEngineWish : std::uint8_t {
    automatic, ///< the ring, or worker threads where it is refused
    uring,     ///< the ring, or an error
    threads,   ///< worker threads
};

/// The environment's wish; `automatic` where the variable is not set or empty. Throws
/// `std::invalid_argument` for anything but auto, uring and threads.
[[nodiscard]] FileEngineWish file_engine_wish();

struct FileEngineChoice {
    std::unique_ptr<FileEngine> engine;
    std::string reason; ///< one line: why this engine
};

/// Makes the engine that is wished for. Throws `std::system_error`, whose text tells the remedy, when
/// the ring is wished for and refused.
[[nodiscard]] FileEngineChoice choose_file_engine(FileEngineWish wish,
                                                  const FileEngineOptions& options = {});

/// The same for the environment's wish.
[[nodiscard]] FileEngineChoice choose_file_engine();

} // namespace penstock::io
