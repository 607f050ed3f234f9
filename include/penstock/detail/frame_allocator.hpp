#pragma once

#include <cstddef>

namespace penstock::detail {

/// Memory for coroutine frames and for what lives as long as one: blocks of a few sizes, kept by the
/// thread that freed them last and handed out again, so that a task that starts and ends a million
/// times asks the C library for memory once.
///
/// A thread keeps at most 256 KiB of each size. Blocks may be freed on another thread than they were
/// allocated on. Under AddressSanitizer nothing is kept, so that it sees each frame's end.
///
/// Throws `std::bad_alloc`.
[[nodiscard]] void* allocate_frame(std::size_t size);

/// `size` as it was allocated.
void free_frame(void* memory, std::size_t size) noexcept;

/// A base for objects that live in such memory.
struct FrameAllocated {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        free_frame(memory, size);
    }
};

} // namespace penstock::detail
