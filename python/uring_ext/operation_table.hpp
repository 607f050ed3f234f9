#pragma once

#include "shared/py_ref.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

namespace penstock::python::uring {

struct BufferRingObject;
struct ReadBatch;

/// The memory of a vectored operation that the kernel gets by address.
struct Vectors {
    std::vector<Py_buffer> views;
    std::vector<iovec> parts;
    msghdr message{};

    Vectors() = default;
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
    ~Vectors();
};

/// The objects that an operation keeps alive and in place until its final completion. Emptied with
/// the GIL held; releasing a buffer may run the exporter's Python code.
struct Holdings {
    PyObject* bytes = nullptr;        ///< owned: bytes to fill, to send, or that name a path
    Py_buffer view{};                 ///< an exported buffer; `obj` is null when there is none
    std::unique_ptr<Vectors> vectors; ///< for more than one buffer

    Holdings() noexcept = default;
    Holdings(Holdings&& other) noexcept;
    Holdings& operator=(Holdings&& other) noexcept;
    ~Holdings() { release(); }

    void release() noexcept;

    /// Drops everything without releasing it: the kernel may still write there.
    void leak() noexcept;

    int traverse(visitproc visit, void* arg) const noexcept;
};

/// An operation, from its preparation until the program has taken its final completion.
struct Operation {
    PyObject* tag = nullptr; ///< owned; the program's user_data. Null in a free slot and in a batch
    Holdings holdings;
    BufferRingObject* buffers = nullptr; ///< owned; the kernel picks one of its buffers
    ReadBatch* batch = nullptr;          ///< of `read_offsets`; not owned
    Py_hash_t hash = 0;                  ///< of the tag
    std::uint32_t generation = 1;
    std::uint32_t next = 0; ///< next slot of the same list
    std::uint32_t batch_index = 0;
    bool used = false;
    bool started = false;      ///< has or had a place in the submission queue
    bool done = false;         ///< the final completion has arrived
    bool fills_bytes = false;  ///< the kernel writes into `holdings.bytes`
    bool skip_success = false; ///< only a failure is reported
    bool yields_fd = false;    ///< a result of 0 or more is a descriptor that must be closed
};

/// Releases the objects of a removed operation. May run Python code.
void drop(Operation&& operation) noexcept;

/// The operations of a ring, by slot and by tag.
///
/// The 64 bits of user_data in a submission are the slot and its generation, never a pointer and
/// never the program's own number. A completion that does not belong to this table finds no
/// operation.
///
/// Tags are equal as keys of a dict are. Small integers, the usual tags, have a table of their own.
class OperationTable {
public:
    static constexpr std::uint32_t no_slot = 0xFFFFFFFF;

    /// The slot with this tag. `no_slot` if there is none, and with an exception set when the tag
    /// has no hash or its comparison fails. May run Python code.
    std::uint32_t find(PyObject* tag, Py_hash_t hash) noexcept;

    /// Whether the tag is free. False with an exception set if it is in flight or has no hash. May
    /// run Python code, and sees the operations that this code prepares.
    bool check_free(PyObject* tag, Py_hash_t& hash) noexcept;

    /// The slot with this tag, compared by identity. Runs no Python code. `no_slot` if there is
    /// none.
    [[nodiscard]] std::uint32_t slot_with(PyObject* tag) const noexcept;

    /// Takes a slot for an operation with this tag, which must be free. Null tags are not listed.
    /// The operation is not in flight yet. `no_slot` with an exception set when there is no memory.
    std::uint32_t add(PyObject* tag, Py_hash_t hash) noexcept;

    /// Marks the operation as in flight.
    Operation& start(std::uint32_t slot) noexcept;

    /// The kernel has finished the operation. It is no longer in flight but keeps its tag. Moves
    /// out its objects, for the caller to release at the end.
    Operation finish(std::uint32_t slot) noexcept;

    /// Frees the slot. Moves out its objects, for the caller to release at the end.
    Operation remove(std::uint32_t slot) noexcept;

    /// Removes the operation like `remove`, but keeps its objects until `drop_withdrawn`. Releasing
    /// runs Python code, which may change the queue that the caller iterates over.
    void withdraw(std::uint32_t slot) noexcept;
    void drop_withdrawn() noexcept;

    Operation& at(std::uint32_t slot) noexcept { return slots_[slot]; }

    /// The user_data of a submission for the slot.
    [[nodiscard]] std::uint64_t key(std::uint32_t slot) const noexcept {
        return static_cast<std::uint64_t>(slots_[slot].generation) << 32 | slot;
    }

    /// The slot of a completion's user_data. `no_slot` if no operation of this table has it.
    [[nodiscard]] std::uint32_t slot_of(std::uint64_t key) const noexcept {
        const auto slot = static_cast<std::uint32_t>(key);
        return slot < slots_.size() && slots_[slot].used &&
                       slots_[slot].generation == static_cast<std::uint32_t>(key >> 32)
                   ? slot
                   : no_slot;
    }

    /// The number of operations that the kernel has, or will have, to complete.
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

    /// Drops everything without releasing it: the kernel may still write there.
    void leak() noexcept;

    int traverse(visitproc visit, void* arg) const noexcept;

private:
    static constexpr Py_ssize_t small_tags = 1 << 16;

    bool grow() noexcept;
    std::uint32_t find_among_others(PyObject* tag, Py_hash_t hash) noexcept;
    void unlist(std::uint32_t slot) noexcept;
    Operation take(std::uint32_t slot) noexcept;

    std::vector<Operation> slots_;
    std::vector<std::uint32_t> by_small_int_; ///< slot + 1, by tag
    std::unordered_multimap<Py_hash_t, std::uint32_t> by_hash_;
    std::uint32_t first_free_ = no_slot;
    std::uint32_t first_withdrawn_ = no_slot;
    std::size_t in_flight_ = 0;
    std::uint64_t tags_listed_ = 0; ///< total so far
};

/// The value of an exact int from 0 to a few ten thousand, else -1.
Py_ssize_t small_tag_of(PyObject* tag) noexcept;

} // namespace penstock::python::uring
