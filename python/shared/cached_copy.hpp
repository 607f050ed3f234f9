#pragma once

#include <Python.h>

#include <cstdint>

#include <penstock/io/files/cached_read.hpp>

namespace penstock::python {

/// Larger copies are made without the GIL. Releasing it costs as much as copying this many bytes.
inline constexpr std::int64_t worth_releasing = std::int64_t{64} << 10;

/// The largest file that is copied whole without waiting.
inline constexpr auto max_cached_file = static_cast<std::int64_t>(io::largest_cached_read);

/// Calls `copy`, which copies `size` bytes from the page cache, with or without the GIL. Returns
/// its result.
template <typename Copy> auto copy_from_cache(std::int64_t size, Copy copy) noexcept {
    if (size <= worth_releasing) {
        return copy();
    }
    PyThreadState* thread = PyEval_SaveThread();
    auto result = copy();
    PyEval_RestoreThread(thread);
    return result;
}

} // namespace penstock::python
