#pragma once

#include <cerrno>
#include <cstdint>

#include <liburing.h>

#include <penstock/io/files/file_engine_options.hpp>

#include "io/files/ring_kernel.hpp"

namespace penstock::io {

/// A ring, and the features that the running kernel supports, found by probing and trying.
///
/// Only one thread at a time uses it, but the thread may change: a loop may run on another thread
/// the next time. Therefore IORING_SETUP_SINGLE_ISSUER is not set. Without DEFER_TASKRUN, which
/// loses wake-ups of an epoll, it has no measurable effect.
class Uring {
public:
    /// Completions are signalled on `event_fd`. Not through IORING_REGISTER_EVENTFD_ASYNC, which
    /// omits completions that arrive during a submission. `kernel` must outlive the ring.
    ///
    /// Throws `std::system_error` with the kernel's error, or ENOSYS for a kernel whose io_uring
    /// lacks what is needed: reads, writes, cancellation, and no completion lost when the queue is
    /// full (Linux 5.6).
    Uring(const FileEngineOptions& options, int event_fd, RingKernel& kernel);

    /// Nothing may be in flight. In a forked child only the descriptor is closed.
    ~Uring();
    Uring(const Uring&) = delete;
    Uring& operator=(const Uring&) = delete;

    /// Marks this copy as a forked child's: the queues are not mapped there.
    void abandon() noexcept { abandoned_ = true; }

    [[nodiscard]] bool supports(unsigned opcode) const noexcept {
        return opcode < 64 && (opcodes_ >> opcode & 1U) != 0;
    }

    static constexpr unsigned max_fixed_files = 64;
    static constexpr unsigned min_entries = 4; ///< a chain of requests must fit

    /// The length of the table of fixed files; 0 if the kernel has none.
    [[nodiscard]] unsigned fixed_files() const noexcept { return fixed_files_; }

    /// The number of requests that may be in flight so that all their completions fit into the
    /// queue.
    [[nodiscard]] unsigned capacity() const noexcept { return capacity_; }

    [[nodiscard]] unsigned room() const noexcept { return io_uring_sq_space_left(&ring_); }
    [[nodiscard]] unsigned prepared() const noexcept { return io_uring_sq_ready(&ring_); }

    /// The next request to fill in. There must be room.
    [[nodiscard]] io_uring_sqe* next() noexcept { return io_uring_get_sqe(&ring_); }

    /// Submits the prepared requests. Returns 0, or a negated errno if some of them are left:
    /// -EAGAIN and -EBUSY when completions must be taken first, or the kernel has no memory. After
    /// any other error the kernel takes no more requests: a sandbox forbids io_uring_enter(2), or
    /// the descriptor is closed.
    int submit() noexcept;

    /// Whether an error of `submit` is for good.
    [[nodiscard]] static bool is_final(int error) noexcept {
        return error != 0 && error != -EAGAIN && error != -EBUSY;
    }

    /// Takes the next prepared request that the kernel has not taken, and sets its user data; false
    /// if there is none. After a final error: the kernel never sees these.
    bool take_back(std::uint64_t& user_data) noexcept;

    /// Asks the kernel to cancel all requests that it has (io_uring_register(2)), even after a
    /// final error. The kernel may refuse that too.
    void cancel_all() noexcept;

    [[nodiscard]] bool has_completions() const noexcept {
        return io_uring_cq_ready(&ring_) != 0 || io_uring_cq_has_overflow(&ring_);
    }

    struct Completion {
        std::uint64_t user_data;
        std::int32_t result;
    };

    /// Takes the next completion; false if there is none.
    bool pop(Completion& completion) noexcept;

private:
    int set_up(unsigned entries) noexcept;
    int probe_opcodes() noexcept;
    void bind_to_this_thread() noexcept;
    void unbind() noexcept;

    RingKernel& kernel_;
    io_uring ring_{};
    std::uint64_t opcodes_ = 0;
    std::uint64_t thread_ = 0;   ///< the thread that has registered the ring's descriptor; 0: none
    unsigned unbound_flags_ = 0; ///< liburing's own flags, from before the registration
    unsigned features_ = 0;
    unsigned capacity_ = 0;
    unsigned taken_back_ = 0;
    unsigned fixed_files_ = 0;
    bool abandoned_ = false;
};

} // namespace penstock::io
