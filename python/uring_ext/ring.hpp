#pragma once

#include "module.hpp"
#include "operation_table.hpp"
#include "recycled_bytes.hpp"

#include <array>
#include <deque>
#include <optional>

#include <liburing.h>
#include <penstock/io/fork_mark.hpp>

namespace penstock::python::uring {

struct BufferPoolObject;

inline constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

/// In nanoseconds of the monotonic clock.
std::int64_t monotonic_now() noexcept;

/// A completion that the program has not received yet.
struct Finished {
    PyObject* tag = nullptr;                      ///< owned; null for a message from another ring
    std::uint32_t slot = OperationTable::no_slot; ///< freed with this, the final completion
    PyObject* bytes = nullptr;                    ///< owned: the data that was read, or null
    std::uint64_t message = 0;
    std::int32_t result = 0;
    std::uint32_t flags = 0;
    bool yields_fd = false;
};

/// The operations of one `read_offsets` call, on its stack.
struct ReadBatch {
    PyObject* list; ///< of bytes, filled in place
    std::size_t in_flight = 0;
    std::size_t filled = 0; ///< number of filled entries
    std::int32_t error = 0; ///< errno of the first failure
    std::uint32_t failed_index = 0;
    bool discarded = false; ///< Python code that ran meanwhile has discarded one of the operations
};

/// user_data of completions without an operation in the table: a message that another ring's
/// `msg_ring` posted (its number follows), or a request of the ring's own, whose completion is
/// dropped.
inline constexpr std::uint64_t message_mark = std::uint64_t{1} << 63;
inline constexpr std::uint64_t internal_mark = message_mark | std::uint64_t{1} << 62;

/// Whether a descriptor was opened with O_DIRECT, as found since the last submission.
struct DirectMark {
    int fd = -1;
    std::uint32_t round = 0;
    bool direct = false;
};

/// penstock._uring.Ring: a submission queue, a completion queue, and the operations in flight
/// between them.
///
/// Only the thread and the process that made a ring may use it.
struct RingObject {
    /// `abandoned`: closed while the kernel had unfinished operations; the memory that it may write
    /// to is kept.
    enum class Life : unsigned char { closed, open, closing, abandoned };

    PyObject_HEAD ModuleState* state;
    io_uring ring;
    OperationTable operations;
    std::deque<Finished> finished;
    RecycledBytes recycled;
    std::array<DirectMark, 16> direct_marks;
    BufferPoolObject* pool;            ///< owned; its buffers are the registered ones
    std::vector<Py_buffer> registered; ///< the registered buffers when there is no pool
    std::uint64_t next_ticket;         ///< the next automatic tag
    std::size_t unsubmitted_bytes;     ///< number of bytes that submitting may copy at once
    unsigned long owner;               ///< thread id
    io::ForkMark* fork_mark; ///< of the process that made the ring; owned, null before that
    std::uint32_t submit_round;
    std::uint32_t registered_files;
    std::uint16_t next_buffer_group;
    Life life;
};

/// False with an exception set if the ring is closed, or belongs to another thread or to the parent
/// process. Must be checked again wherever Python code may have run.
bool check_usable(RingObject* ring) noexcept;

/// Whether this process was forked from the ring's. The queues are then not mapped.
bool is_forked(const RingObject* ring) noexcept;

/// Whether the ring's queues are mapped.
inline bool is_mapped(const RingObject* ring) noexcept {
    return (ring->life == RingObject::Life::open || ring->life == RingObject::Life::closing) &&
           !is_forked(ring);
}

/// Takes every completion that the kernel has delivered, without a system call.
void reap(RingObject* ring) noexcept;

/// Makes a system call for completions that the kernel has deferred or had no room for, if there
/// are any.
void fetch_deferred(RingObject* ring) noexcept;

/// Submits the prepared operations. Returns their number, or -1 with an exception set.
Py_ssize_t submit(RingObject* ring) noexcept;

/// Submits, and waits until `wanted` completions are available, `deadline` (nanoseconds of the
/// monotonic clock) is reached, or nothing is in flight. Returns the number of submitted
/// operations, or -1 with an exception set.
Py_ssize_t submit_and_wait(RingObject* ring, std::size_t wanted,
                           std::optional<std::int64_t> deadline) noexcept;

/// Submits, and waits until the batch has at most `keep` operations in flight. False with an
/// exception set if that fails or a signal handler raised. The caller must call `end_batch`
/// afterwards.
bool wait_for_batch(RingObject* ring, ReadBatch& batch, std::size_t keep) noexcept;

/// Ends the batch's operations in flight. The kernel may use the batch's memory until then. Keeps a
/// raised exception.
void end_batch(RingObject* ring, ReadBatch& batch) noexcept;

/// Submits, and waits until a completion with this tag (compared by identity) is available, or
/// nothing is in flight. False with an exception set.
bool wait_for_operation(RingObject* ring, PyObject* tag) noexcept;

/// Whether a completion with this tag (compared by identity) is available.
bool has_finished(const RingObject* ring, PyObject* tag) noexcept;

/// Ends one operation: discards it, or cancels it and waits until the kernel has finished it. Keeps
/// a raised exception.
void end_operation(RingObject* ring, std::uint64_t key) noexcept;

/// Whether the chain of operations that was prepared last is complete. The kernel ends a chain with
/// the submission, so it must not be split, and no operation of the ring's own (`key`) may join it.
/// False with ValueError set.
bool check_chain_complete(RingObject* ring, std::uint64_t key = 0) noexcept;

/// Abandons the ring while the kernel may still write: that memory is never freed.
void abandon(RingObject* ring) noexcept;

/// Releases the registered buffers after the kernel has.
void release_registered(RingObject* ring) noexcept;

/// Discards operations that are prepared and not submitted. Returns their number.
std::size_t discard_prepared(RingObject* ring) noexcept;

/// Cancels everything and waits until the kernel has finished all operations. False if that is
/// impossible: the kernel may then still use the buffers. Keeps a raised exception.
bool drain(RingObject* ring) noexcept;

/// Whether `count` more operations can be prepared. Where a kernel thread submits, waits until it
/// has freed the places of submitted operations.
bool make_room(RingObject* ring, std::size_t count) noexcept;

extern PyMethodDef submission_methods[];
extern PyMethodDef completion_methods[];
extern PyMethodDef prepare_methods[];
extern PyMethodDef batch_methods[];
extern PyMethodDef registration_methods[];

} // namespace penstock::python::uring
