#pragma once

#include <cstddef>

#include <malloc.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PENSTOCK_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PENSTOCK_TEST_SANITIZED
#endif
#endif
#ifdef PENSTOCK_TEST_SANITIZED
#include <sanitizer/allocator_interface.h>
#endif

namespace penstock::testing {

/// The memory that the program has allocated and not freed. A sanitizer has an allocator of its
/// own, of which mallinfo2 knows nothing.
inline std::size_t allocated_bytes() {
#ifdef PENSTOCK_TEST_SANITIZED
    return __sanitizer_get_current_allocated_bytes();
#else
    const struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
}

} // namespace penstock::testing
