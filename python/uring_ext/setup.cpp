#include "setup.hpp"

#include "shared/lease.hpp"

#include <cerrno>
#include <ctime>

namespace penstock::python::uring {

int set_up_ring(unsigned entries, io_uring& ring, io_uring_params& params) noexcept {
    constexpr long longest_pause = 128'000'000; // nanoseconds
    const io_uring_params asked = params;
    for (long pause = 1'000'000;; pause *= 2) {
        ring = {};
        params = asked;
        const int result = io_uring_queue_init_params(entries, &ring, &params);
        if (result != -ENOMEM || pause > longest_pause) {
            return result;
        }
        const timespec time{.tv_sec = 0, .tv_nsec = pause};
        PyThreadState* thread = PyEval_SaveThread();
        nanosleep(&time, nullptr);
        PyEval_RestoreThread(thread);
    }
}

} // namespace penstock::python::uring
