// Checks the requirements of O_DIRECT, to explain them before the kernel answers EINVAL.

#include "draft.hpp"

#include <fcntl.h>
#include <sys/stat.h>

namespace penstock::python::uring {

namespace {

/// Multiples of this meet the requirements of every device.
constexpr std::uint64_t always_aligned = 4096;

bool is_direct(RingObject* self, int fd) noexcept {
    DirectMark& mark = self->direct_marks[static_cast<std::size_t>(fd) % self->direct_marks.size()];
    // Not cached longer: the number may belong to another file at the next submission.
    if (mark.fd != fd || mark.round != self->submit_round) {
        const int flags = fcntl(fd, F_GETFL);
        mark = {
            .fd = fd, .round = self->submit_round, .direct = flags >= 0 && (flags & O_DIRECT) != 0};
    }
    return mark.direct;
}

bool refuse(const char* what, unsigned long long value, int fd, unsigned alignment) noexcept {
    PyErr_Format(
        PyExc_ValueError,
        "%s %llu is not a multiple of %u, as descriptor %d with O_DIRECT needs; a BufferPool "
        "has aligned buffers, and the tail of a file is written without O_DIRECT",
        what, value, alignment, fd);
    return false;
}

} // namespace

bool check_alignment(RingObject* self, int fd, std::uintptr_t start, std::size_t length,
                     std::uint64_t offset) noexcept {
    const std::uint64_t position = offset == current_position ? 0 : offset;
    if (((start | length | position) % always_aligned) == 0 || !is_direct(self, fd)) {
        return true;
    }
#ifdef STATX_DIOALIGN
    struct statx about{};
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0 ||
        (about.stx_mask & STATX_DIOALIGN) == 0 || about.stx_dio_mem_align == 0) {
        return true; // the kernel does not report the requirements
    }
    if (length % about.stx_dio_offset_align != 0) {
        return refuse("the length", length, fd, about.stx_dio_offset_align);
    }
    if (position % about.stx_dio_offset_align != 0) {
        return refuse("the offset", position, fd, about.stx_dio_offset_align);
    }
    // Last: the caller may not have given the buffer.
    if (start % about.stx_dio_mem_align != 0) {
        return refuse("the buffer's address", start, fd, about.stx_dio_mem_align);
    }
#endif
    return true;
}

bool check_alignment(RingObject* self, const Draft& draft) noexcept {
    if (draft.buffers || draft.entry.fd < 0) {
        return true;
    }
    return check_alignment(self, draft.entry.fd, draft.entry.address, draft.entry.length,
                           draft.entry.offset);
}

} // namespace penstock::python::uring
