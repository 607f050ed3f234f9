#pragma once

#include <algorithm>
#include <thread>

#include <penstock/io/files/file_engine_options.hpp>

namespace penstock::io {

/// The largest number of threads of an engine: its own, or the kernel's on its behalf.
[[nodiscard]] inline unsigned thread_limit(const FileEngineOptions& options) noexcept {
    return options.max_threads != 0 ? options.max_threads
                                    : std::clamp(std::thread::hardware_concurrency() * 4, 8U, 32U);
}

} // namespace penstock::io
