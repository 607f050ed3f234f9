#include "io/files/ring_kernel.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#ifdef PENSTOCK_HAS_URING
#include <liburing.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace penstock::io {

#ifdef PENSTOCK_HAS_URING

int RingKernel::set_up(unsigned entries, io_uring& ring, io_uring_params& parameters) noexcept {
    const int error = io_uring_queue_init_params(entries, &ring, &parameters);
    if (error != 0) {
        return error;
    }
    if (::syscall(SYS_io_uring_enter, ring.ring_fd, 0, 0, 0, nullptr, 0) < 0) {
        const int refused = -errno;
        io_uring_queue_exit(&ring);
        return refused;
    }
    return 0;
}

std::uint64_t RingKernel::supported_opcodes(io_uring& ring) noexcept {
    struct Free {
        void operator()(io_uring_probe* probe) const noexcept { io_uring_free_probe(probe); }
    };
    const std::unique_ptr<io_uring_probe, Free> probe(io_uring_get_probe_ring(&ring));
    std::uint64_t opcodes = 0;
    for (int opcode = 0; probe != nullptr && opcode < std::min<int>(probe->ops_len, 64); ++opcode) {
        if (io_uring_opcode_supported(probe.get(), opcode) != 0) {
            opcodes |= std::uint64_t{1} << opcode;
        }
    }
    return opcodes;
}

int RingKernel::submit(io_uring& ring) noexcept {
    return io_uring_submit(&ring);
}

#else

int RingKernel::set_up(unsigned /*entries*/, io_uring& /*ring*/,
                       io_uring_params& /*parameters*/) noexcept {
    return -ENOSYS;
}

std::uint64_t RingKernel::supported_opcodes(io_uring& /*ring*/) noexcept {
    return 0;
}

int RingKernel::submit(io_uring& /*ring*/) noexcept {
    return -ENOSYS;
}

#endif

RingKernel& RingKernel::running() noexcept {
    static RingKernel kernel;
    return kernel;
}

} // namespace penstock::io
