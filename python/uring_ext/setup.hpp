#pragma once

#include <liburing.h>

namespace penstock::python::uring {

/// io_uring_setup(2), and the mapping of the queues. Returns 0 or a negated errno.
///
/// The kernel frees the memory of a closed ring some time after the close. So a ring that exceeds
/// RLIMIT_MEMLOCK is retried for a quarter of a second, with the GIL released.
int set_up_ring(unsigned entries, io_uring& ring, io_uring_params& params) noexcept;

} // namespace penstock::python::uring
