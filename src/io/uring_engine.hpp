#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "io/operation_list.hpp"
#include "io/pooled_engine.hpp"
#include "io/uring.hpp"

namespace penstock::io {

/// The engine that stands on io_uring. What the running kernel has no opcode for goes to the worker
/// threads of the engine below, whose descriptor the ring shares.
///
/// What the kernel itself cannot do without blocking it gives to threads of its own: all but reads and
/// O_DIRECT writes, and on ext4 and tmpfs every buffered write, which then costs more than twice the
/// CPU of pwrite(2) on the spot (benchmarks/cpp/file_floor, write-blocks beside uring-write-blocks). The
/// engine does not do it on the spot all the same: a write waits where too much is dirty already, and
/// RWF_NOWAIT, which would not wait, is refused there (EOPNOTSUPP). To take them to the worker threads
/// of this engine was rejected too: cheaper at 32 in flight, dearer at one, and no difference at four
/// (PENSTOCK_FILES=threads beside uring). Few large writes are what helps.
class UringEngine final : public PooledEngine {
public:
    /// Throws what `Uring` does.
    explicit UringEngine(const FileEngineOptions& options);
    ~UringEngine() override;

    [[nodiscard]] std::string_view name() const noexcept override { return "uring"; }

private:
    /// What a request's answer means; in the low bits of its user data, whose rest is the operation's
    /// address, or the fixed file's slot.
    enum class Part : std::uint8_t {
        all,       ///< the operation is this one request
        open,      ///< of a `read_file`: into a slot
        read,      ///< of a `read_file`: what there is room for
        tail,      ///< of a `read_file`: one byte more, which tells the end of the file
        slot,      ///< the slot has been closed
        cancelled, ///< a cancel has been looked at; whatever came of it the operation itself tells
    };

    static constexpr unsigned part_bits = 3;
    static constexpr std::uint64_t part_mask = (1U << part_bits) - 1;
    static_assert(alignof(FileOperation) > part_mask);

    void take(FileOperation& operation) noexcept override;
    void submit() noexcept override;
    void stop(FileOperation& operation) noexcept override;
    void stop_all() noexcept override;
    [[nodiscard]] FileOperation* pop_completed() noexcept override;
    [[nodiscard]] bool has_completed() noexcept override;
    void resume(FileOperation& operation) noexcept override;
    void let_go(FileOperation& operation) noexcept override;
    void release() noexcept override;
    void abandon() noexcept override;

    // Towards the kernel.
    [[nodiscard]] bool ring_can(const FileOperation& operation) const noexcept;
    void enter_or_wait(FileOperation& operation) noexcept;
    [[nodiscard]] bool enter(FileOperation& operation) noexcept;
    void enter_read_file(FileOperation& operation) noexcept;
    void enter_due() noexcept;
    void enter_cancels() noexcept;
    void enter_cancel(FileOperation& operation) noexcept;
    void owe_cancel(FileOperation& operation) noexcept;
    void await(FileOperation& operation, Part part) noexcept;
    void close_slot(unsigned slot) noexcept;
    [[nodiscard]] bool make_way(unsigned requests) noexcept;
    void push() noexcept;
    void tag(io_uring_sqe* request, FileOperation& operation, Part part) noexcept;

    // Back from it.
    [[nodiscard]] FileOperation* take_answer(const Uring::Answer& answer) noexcept;
    [[nodiscard]] bool settle(FileOperation& operation, std::int32_t result) noexcept;
    [[nodiscard]] bool settle_transfer(FileOperation& operation, std::int32_t result) noexcept;
    [[nodiscard]] bool settle_read_file(FileOperation& operation) noexcept;
    void hand_to_pool(FileOperation& operation) noexcept;

    /// Numbers of fixed files; as large as the table, so it is never full.
    class SlotStack {
    public:
        [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
        void push(unsigned slot) noexcept { slots_[count_++] = static_cast<std::uint8_t>(slot); }
        unsigned pop() noexcept { return slots_[--count_]; }

    private:
        std::array<std::uint8_t, Uring::most_fixed_files> slots_{};
        std::size_t count_ = 0;
    };

    std::unique_ptr<Uring> ring_; ///< null once closed
    const std::uint32_t max_transfer_;
    unsigned unanswered_ = 0;  ///< requests whose answers are still to come
    unsigned cancels_due_ = 0; ///< running operations whose cancel is still to be entered
    bool cancels_missed_ = false;
    bool quiet_writes_;    ///< the kernel knows RWF_NOSIGNAL, as far as it has not said otherwise
    bool stalled_ = false; ///< the kernel did not take all that was prepared
    bool pushing_ = false;
    OperationList waiting_; ///< for room in the ring
    OperationList running_; ///< in the kernel's hands
    OperationList done_;    ///< completed while answers were taken to make room
    SlotStack free_slots_;
    SlotStack slots_to_close_; ///< for which the ring had no room
};

} // namespace penstock::io
