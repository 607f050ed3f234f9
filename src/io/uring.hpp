#pragma once

#include <cstdint>

#include <liburing.h>

#include <penstock/io/file_engine_options.hpp>

namespace penstock::io {

/// A ring, with what the running kernel knows of it found out by asking and trying.
///
/// It is used by one thread at a time, but not always by the same one: a loop may run on another thread
/// the next time. That is why IORING_SETUP_SINGLE_ISSUER is not asked for; without DEFER_TASKRUN, which
/// misses wake-ups of an epoll, it would gain nothing that can be measured.
class Uring {
public:
    /// Completions are told to `event_fd`. Not by IORING_REGISTER_EVENTFD_ASYNC, which leaves out those
    /// that come while submitting.
    ///
    /// Throws `std::system_error` with the kernel's error, or ENOSYS for a kernel whose io_uring lacks
    /// what is needed (Linux 5.6's: reads, writes and cancels, nothing lost when the queue is full).
    Uring(const FileEngineOptions& options, int event_fd);

    /// Nothing may be in flight. In a forked child only the descriptor is closed.
    ~Uring();
    Uring(const Uring&) = delete;
    Uring& operator=(const Uring&) = delete;

    /// Marks this copy as a forked child's: its rings are not mapped there.
    void abandon() noexcept { abandoned_ = true; }

    [[nodiscard]] bool supports(unsigned opcode) const noexcept {
        return opcode < 64 && (opcodes_ >> opcode & 1U) != 0;
    }

    static constexpr unsigned most_fixed_files = 64;
    static constexpr unsigned fewest_entries = 4; ///< a chain has to fit

    /// The length of the table of fixed files; 0 where the kernel has none.
    [[nodiscard]] unsigned fixed_files() const noexcept { return fixed_files_; }

    /// How many requests may be on their way at once so that their answers all fit.
    [[nodiscard]] unsigned capacity() const noexcept { return capacity_; }

    [[nodiscard]] unsigned room() const noexcept { return io_uring_sq_space_left(&ring_); }
    [[nodiscard]] unsigned prepared() const noexcept { return io_uring_sq_ready(&ring_); }

    /// Where the next request is described; there must be room.
    [[nodiscard]] io_uring_sqe* next() noexcept { return io_uring_get_sqe(&ring_); }

    /// Submits what is prepared. 0, or a negated errno when some of it is left: -EAGAIN and -EBUSY
    /// where the kernel wants answers to be taken first, or has no memory.
    int submit() noexcept;

    [[nodiscard]] bool has_answers() const noexcept {
        return io_uring_cq_ready(&ring_) != 0 || io_uring_cq_has_overflow(&ring_);
    }

    struct Answer {
        std::uint64_t user_data;
        std::int32_t result;
    };

    /// Takes the next answer; false when there is none.
    bool take(Answer& answer) noexcept;

private:
    int set_up(unsigned entries) noexcept;
    int find_out_opcodes(std::uint64_t withheld) noexcept;
    void bind_to_this_thread() noexcept;
    void unbind() noexcept;

    io_uring ring_{};
    std::uint64_t opcodes_ = 0;
    std::uint64_t thread_ = 0; ///< which has the ring's descriptor registered; 0: none
    unsigned plain_flags_ = 0; ///< liburing's own, from before that
    unsigned features_ = 0;
    unsigned capacity_ = 0;
    unsigned failing_submissions_;
    unsigned fixed_files_ = 0;
    bool abandoned_ = false;
};

} // namespace penstock::io
