#pragma once

#include <Python.h>

#include <cstdint>

namespace penstock::python {

/// Copies larger than this are made without the GIL; letting go of it costs what smaller ones do.
inline constexpr std::int64_t worth_releasing = std::int64_t{64} << 10;

/// The largest file that is copied whole without waiting. A larger one may be in the cache in part; what
/// was copied of it would be copied in vain.
inline constexpr std::int64_t largest_file_at_once = std::int64_t{2} << 20;

/// Calls what copies `size` bytes out of the page cache, with or without the GIL, and returns its result.
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
