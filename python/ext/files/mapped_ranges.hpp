#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace penstock::python {

/// A mapped range of a file whose faults do not end the process. Where the file has become shorter,
/// or the device fails, the kernel answers an access with SIGBUS. The handler puts zeros there, up
/// to the end of the range, and the range is `lost`.
///
/// A signal handler belongs to the process, so this is the extension's one process global. It is
/// installed with the first range. Of other faults it knows nothing: it gives them back to the
/// handler that was there before.
struct MappedRange {
    std::atomic<bool> used;
    std::atomic<bool> lost;
    std::atomic<std::uintptr_t> begin; ///< a page
    std::atomic<std::uintptr_t> end;
};

/// Guards a mapping. Null with errno set: ENOMEM for more than 4096 at a time.
MappedRange* guard_range(void* begin, std::size_t size) noexcept;

/// Ends the guard of a range that nobody reads any more. The caller unmaps it next.
void release_range(MappedRange* range) noexcept;

} // namespace penstock::python
