#pragma once

#include "uring_module.hpp"
#include "uring_operation_table.hpp"
#include "uring_recycled_bytes.hpp"

#include <array>
#include <deque>
#include <optional>

#include <liburing.h>

namespace penstock::python {

struct BufferPoolObject;

inline constexpr std::int64_t nanoseconds_per_second = 1'000'000'000;

/// Of the monotonic clock, in nanoseconds.
std::int64_t monotonic_now() noexcept;

/// A completion that the program has not been given yet.
struct Finished {
    PyObject* tag = nullptr;                      ///< owned; null for a message from another ring
    std::uint32_t slot = OperationTable::no_slot; ///< to be freed with this, the final completion
    PyObject* bytes = nullptr;                    ///< owned: what was read, or null
    std::uint64_t message = 0;
    std::int32_t result = 0;
    std::uint32_t flags = 0;
    bool yields_fd = false;
};

/// The operations of one `read_offsets` call, on its stack.
struct ReadBatch {
    PyObject* list; ///< of bytes, filled in place
    std::size_t in_flight = 0;
    std::size_t filled = 0; ///< places of the list
    std::int32_t error = 0; ///< of the first that failed: an errno
    std::uint32_t failed_index = 0;
    bool discarded = false; ///< Python code that ran meanwhile has taken one of them back
};

/// user_data of what is no operation of the ring's table: a message that another ring's `msg_ring`
/// posted here (its number follows), or a request of the ring's own, whose completion is dropped.
inline constexpr std::uint64_t message_mark = std::uint64_t{1} << 63;
inline constexpr std::uint64_t internal_mark = message_mark | std::uint64_t{1} << 62;

/// Whether a descriptor was opened with O_DIRECT, as seen since the last submission.
struct DirectMark {
    int fd = -1;
    std::uint32_t round = 0;
    bool direct = false;
};

/// penstock._uring.Ring: a submission queue and a completion queue of the kernel, and what is in
/// flight between them.
///
/// Only one thread may use it, and only the process that made it.
struct RingObject {
    /// `abandoned`: closed, but the kernel was not done with all; what it may write to stays.
    enum class Life : unsigned char { closed, open, closing, abandoned };

    PyObject_HEAD ModuleState* state;
    io_uring ring;
    OperationTable operations;
    std::deque<Finished> finished;
    RecycledBytes recycled;
    std::array<DirectMark, 16> direct_marks;
    BufferPoolObject* pool;            ///< owned; its buffers are the registered ones
    std::vector<Py_buffer> registered; ///< the registered buffers, where there is no pool
    std::uint64_t next_ticket;         ///< tag of an operation that was given none
    std::size_t unsubmitted_bytes;     ///< what submitting may copy at once
    unsigned long owner;               ///< thread
    unsigned fork_generation;
    std::uint32_t submit_round;
    std::uint32_t registered_files;
    std::uint16_t next_buffer_group;
    Life life;
};

/// False with an exception set if the ring is closed, belongs to another thread or to the parent
/// process. To be asked again wherever Python code may have run.
bool check_usable(RingObject* ring) noexcept;

/// Whether this process was forked from the ring's. Its queues are then not even mapped.
bool is_forked(const RingObject* ring) noexcept;

/// Whether the ring's queues are there to be looked into.
inline bool is_mapped(const RingObject* ring) noexcept {
    return (ring->life == RingObject::Life::open || ring->life == RingObject::Life::closing) &&
           !is_forked(ring);
}

/// Takes every completion that the kernel has delivered, without entering it.
void reap(RingObject* ring) noexcept;

/// Enters the kernel for completions that it has deferred or had no room for, if there are such.
void fetch_deferred(RingObject* ring) noexcept;

/// Submits what is prepared; -1 with an exception set on failure, else the number of operations.
Py_ssize_t submit(RingObject* ring) noexcept;

/// Submits, and waits until `wanted` completions are at hand, `deadline` (nanoseconds of the
/// monotonic clock) has come, or nothing is in flight. Returns what was submitted; -1 with an
/// exception set.
Py_ssize_t submit_and_wait(RingObject* ring, std::size_t wanted,
                           std::optional<std::int64_t> deadline) noexcept;

/// Submits, and waits until the batch has at most `keep` operations in flight. False with an
/// exception set if that fails or a signal handler raised; `end_batch` must follow.
bool wait_for_batch(RingObject* ring, ReadBatch& batch, std::size_t keep) noexcept;

/// Ends what is in flight of the batch, whose memory is the kernel's until then. Keeps a raised
/// exception.
void end_batch(RingObject* ring, ReadBatch& batch) noexcept;

/// Submits, and waits until a completion of the operation with this very tag is at hand, or nothing is
/// in flight. False with an exception set.
bool wait_for_operation(RingObject* ring, PyObject* tag) noexcept;

/// Whether a completion with this very tag is at hand.
bool has_finished(const RingObject* ring, PyObject* tag) noexcept;

/// Ends one operation: takes it back, or cancels it and waits until the kernel is done with it. Keeps a
/// raised exception.
void end_operation(RingObject* ring, std::uint64_t key) noexcept;

/// Whether the chain of operations prepared last is complete: the kernel ends it with the submission, so it
/// must not be cut in two, nor may an operation of the ring's own (`key`) join it. False with a
/// ValueError set.
bool check_chain_complete(RingObject* ring, std::uint64_t key = 0) noexcept;

/// Gives the ring up while the kernel may still write: what it may write to is never freed.
void abandon(RingObject* ring) noexcept;

/// Lets go of the registered buffers, once the kernel has.
void release_registered(RingObject* ring) noexcept;

/// Takes back what was prepared and not submitted; the number of operations.
std::size_t discard_prepared(RingObject* ring) noexcept;

/// Cancels everything and waits until the kernel is done with all. False if that was impossible,
/// and then buffers are still the kernel's. Keeps a raised exception.
bool drain(RingObject* ring) noexcept;

/// Whether `count` more operations can be prepared. Where a kernel thread does the submitting, waits
/// until it has freed the places of what was submitted.
bool make_room(RingObject* ring, std::size_t count) noexcept;

extern PyMethodDef submission_methods[];
extern PyMethodDef completion_methods[];
extern PyMethodDef prepare_methods[];
extern PyMethodDef batch_methods[];
extern PyMethodDef registration_methods[];

} // namespace penstock::python
