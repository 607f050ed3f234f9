#pragma once

#include <liburing.h>

namespace penstock::python {

/// io_uring_setup(2), and the queues mapped: 0 or a negated errno.
///
/// The kernel gives the memory of a closed ring back some time after the close. So a ring that exceeds
/// RLIMIT_MEMLOCK is asked for again for a quarter of a second, with the GIL released.
int set_up_ring(unsigned entries, io_uring& ring, io_uring_params& params) noexcept;

} // namespace penstock::python
