#pragma once

#include <algorithm>
#include <thread>

#include <penstock/io/file_engine_options.hpp>

namespace penstock::io {

/// The bound on an engine's threads, its own or the kernel's.
[[nodiscard]] inline unsigned thread_limit(const FileEngineOptions& options) noexcept {
    return options.max_threads != 0 ? options.max_threads
                                    : std::clamp(std::thread::hardware_concurrency() * 4, 8U, 32U);
}

} // namespace penstock::io
