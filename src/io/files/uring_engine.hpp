#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "io/files/operation_list.hpp"
#include "io/files/pooled_engine.hpp"
#include "io/files/uring.hpp"

namespace penstock::io {

/// The engine on io_uring. Operations that the running kernel has no opcode for go to the worker
/// threads of the base class; the ring shares their descriptor.
///
/// The kernel executes reads and O_DIRECT writes without a thread. It passes other requests that
/// would block to threads of its own. On ext4 and tmpfs these include every buffered write, which
/// then costs more than twice the CPU of a direct pwrite(2) (benchmarks/cpp/file_floor,
/// write-blocks beside uring-write-blocks). Rejected: writing on the loop's thread. A write waits
/// when too many pages are dirty, and these file systems refuse RWF_NOWAIT, which would prevent
/// that (EOPNOTSUPP). Also rejected: writing on this engine's own worker threads. That is cheaper
/// with 32 writes in flight, more expensive with one, and equal with four (PENSTOCK_FILES=threads
/// beside uring). Programs should make few large writes.
///
/// Nothing in the ring waits for another process: such requests would use up the queues, or a
/// thread of the kernel each, and could not be cancelled once the kernel refuses the ring.
/// Transfers to pipes, sockets and devices wait in the epoll of the base class (`FileWorkers`), and
/// opens of FIFOs on its patient threads. Exceptions: a transfer at a position on a descriptor that
/// has none, and a `read_file` of a FIFO whose name was not in the cache.
///
/// When the kernel refuses io_uring_enter(2) for good (a seccomp filter was installed, the
/// descriptor was closed), the requests that it has not taken go to the worker threads, as all
/// later operations do. Those that it has taken complete through the ring: the completion queue is
/// shared memory, filled whenever this thread returns from the kernel, and needs no further call.
class UringEngine final : public PooledEngine {
public:
    /// Throws what `Uring` throws. `kernel` must outlive the engine.
    UringEngine(const FileEngineOptions& options, RingKernel& kernel);
    ~UringEngine() override;

    [[nodiscard]] std::string_view name() const noexcept override {
        return refusal_ == 0 ? "uring" : "threads";
    }
    [[nodiscard]] int ring_refusal() const noexcept override { return refusal_; }

private:
    /// The part of an operation that a request performs. It is in the low bits of the request's
    /// user data; the rest is the operation's address, or the fixed file's slot.
    enum class Part : std::uint8_t {
        all,    ///< the operation is this one request
        open,   ///< of a `read_file`: opens into a slot
        read,   ///< of a `read_file`: reads what fits into the buffer
        tail,   ///< of a `read_file`: reads one byte more, which shows the end of the file
        slot,   ///< the close of a slot
        cancel, ///< a cancellation; the outcome arrives with the operation's own completion
    };

    static constexpr unsigned part_bits = 3;
    static constexpr std::uint64_t part_mask = (1U << part_bits) - 1;
    static_assert(alignof(FileOperation) > part_mask);

    void add(FileOperation& operation) noexcept override;
    void submit() noexcept override;
    void request_cancel(FileOperation& operation) noexcept override;
    bool request_withdrawal(FileOperation& operation) noexcept override;
    void request_cancel_all() noexcept override;
    [[nodiscard]] FileOperation* pop_completed() noexcept override;
    [[nodiscard]] bool has_completed() noexcept override;
    void resume(FileOperation& operation) noexcept override;
    void close_opened_file(FileOperation& operation) noexcept override;
    void release() noexcept override;
    void abandon() noexcept override;

    // Submission.
    [[nodiscard]] bool ring_supports(const FileOperation& operation) const noexcept;
    void prepare_or_queue(FileOperation& operation) noexcept;
    void queue(FileOperation& operation) noexcept;
    [[nodiscard]] bool prepare(FileOperation& operation) noexcept;
    void prepare_read_file(FileOperation& operation) noexcept;
    void prepare_pending() noexcept;
    void prepare_cancels() noexcept;
    void prepare_cancel(FileOperation& operation) noexcept;
    void schedule_cancel(FileOperation& operation) noexcept;
    void expect_next(FileOperation& operation, Part part) noexcept;
    void close_slot(unsigned slot) noexcept;
    [[nodiscard]] bool reserve(unsigned requests) noexcept;
    void submit_prepared() noexcept;
    void leave_ring(int error) noexcept;
    void take_back(std::uint64_t user_data) noexcept;
    void pass_to_workers(FileOperation& operation) noexcept;
    void tag(io_uring_sqe* request, FileOperation& operation, Part part) noexcept;

    // Completion.
    [[nodiscard]] FileOperation* handle_completion(const Uring::Completion& completion) noexcept;
    [[nodiscard]] bool handle_result(FileOperation& operation, std::int32_t result) noexcept;
    [[nodiscard]] bool handle_transfer_result(FileOperation& operation,
                                              std::int32_t result) noexcept;
    [[nodiscard]] bool handle_read_file_results(FileOperation& operation) noexcept;
    void move_to_workers(FileOperation& operation) noexcept;

    /// Numbers of fixed files. As large as the table, so it is never full.
    class SlotStack {
    public:
        [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
        void push(unsigned slot) noexcept { slots_[count_++] = static_cast<std::uint8_t>(slot); }
        unsigned pop() noexcept { return slots_[--count_]; }

    private:
        std::array<std::uint8_t, Uring::max_fixed_files> slots_{};
        std::size_t count_ = 0;
    };

    std::unique_ptr<Uring> ring_; ///< null after `close`
    const std::uint32_t max_transfer_;
    unsigned requests_in_flight_ = 0;
    unsigned cancels_pending_ = 0; ///< running operations whose cancellation is not prepared yet
    bool cancels_missed_ = false;  ///< the kernel did not find the request of a cancellation
    bool nosignal_writes_; ///< the kernel supports RWF_NOSIGNAL, unless a write has failed with it
    bool stalled_ = false; ///< the kernel has not taken all that was prepared
    int refusal_ = 0;      ///< the errno with which the kernel has refused the ring for good
    bool submitting_ = false;
    OperationList waiting_; ///< for room in the ring
    OperationList running_; ///< submitted, or prepared
    OperationList done_;    ///< completed while completions were taken to make room
    SlotStack free_slots_;
    SlotStack slots_to_close_; ///< the ring had no room for their requests
};

} // namespace penstock::io
