#pragma once

#include <cstddef>

namespace penstock::detail {

/// Allocates coroutine frames, and objects that live as long as one. Each thread caches freed
/// blocks in a few size classes and reuses them. A task that starts and ends a million times calls
/// the C library's allocator once.
///
/// A thread caches at most 256 KiB of each size class. Blocks may be freed on another thread. Under
/// AddressSanitizer nothing is cached, so that it sees every use after free.
///
/// Throws `std::bad_alloc`.
[[nodiscard]] void* allocate_frame(std::size_t size);

/// `size` must be the allocated size.
void free_frame(void* memory, std::size_t size) noexcept;

/// A base for objects in such memory.
struct FrameAllocated {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        free_frame(memory, size);
    }
};

} // namespace penstock::detail
