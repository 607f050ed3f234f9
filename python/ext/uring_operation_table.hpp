#pragma once

#include "py_ref.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

namespace penstock::python {

struct BufferRingObject;
struct ReadBatch;

/// What an operation of several buffers hands to the kernel by address.
struct Vectors {
    std::vector<Py_buffer> views;
    std::vector<iovec> parts;
    msghdr message{};

    Vectors() = default;
    Vectors(const Vectors&) = delete;
    Vectors& operator=(const Vectors&) = delete;
    ~Vectors();
};

/// What an operation keeps alive and in place until the kernel's final word on it. Emptied with the
/// GIL held; whatever a buffer's exporter does then may run Python code.
struct Holdings {
    PyObject* bytes = nullptr;        ///< owned: bytes being filled, sent, or naming a path
    Py_buffer view{};                 ///< an exported buffer; `obj` is null when there is none
    std::unique_ptr<Vectors> vectors; ///< whatever is more than one buffer

    Holdings() noexcept = default;
    Holdings(Holdings&& other) noexcept;
    Holdings& operator=(Holdings&& other) noexcept;
    ~Holdings() { release(); }

    void release() noexcept;

    /// Forgets everything without releasing it: the kernel may still write there.
    void leak() noexcept;

    int traverse(visitproc visit, void* arg) const noexcept;
};

/// An operation from its preparation until the program has taken its final completion.
struct Operation {
    PyObject* tag = nullptr; ///< owned; the program's user_data. Null in a free slot and in a batch
    Holdings holdings;
    BufferRingObject* buffers = nullptr; ///< owned; the kernel picks one of its buffers
    ReadBatch* batch = nullptr;          ///< of `read_offsets`; not owned
    Py_hash_t hash = 0;                  ///< of the tag
    std::uint32_t generation = 1;
    std::uint32_t next = 0; ///< slot of the list that this one is in
    std::uint32_t batch_index = 0;
    bool used = false;
    bool started = false;      ///< has a place in the submission queue, or had one
    bool done = false;         ///< the kernel has said its final word
    bool fills_bytes = false;  ///< the kernel writes into `holdings.bytes`
    bool skip_success = false; ///< only a failure is told
    bool yields_fd = false;    ///< a result of 0 or more is a descriptor that somebody must close
};

/// Lets go of what a removed operation held. This may run Python code.
void drop(Operation&& operation) noexcept;

/// The operations of a ring, by slot and by tag.
///
/// A submission's 64 bits of user_data are the slot and its generation, never a pointer and never
/// the program's own number: a completion that does not belong here finds nothing.
///
/// Tags are equal as keys of a dict are. Small integers, the usual tags, have a table of their own.
class OperationTable {
public:
    static constexpr std::uint32_t no_slot = 0xFFFFFFFF;

    /// The slot that carries `tag`; `no_slot` if there is none, and also with an exception set when
    /// the tag has no hash or its comparison fails. May run Python code.
    std::uint32_t find(PyObject* tag, Py_hash_t hash) noexcept;

    /// Whether the tag is free. False with an exception set if it is in flight or has no hash. May
    /// run Python code; what that has prepared is taken into account.
    bool check_free(PyObject* tag, Py_hash_t& hash) noexcept;

    /// The slot of the operation with this very tag, found without Python code; `no_slot` if there is none.
    [[nodiscard]] std::uint32_t slot_with(PyObject* tag) const noexcept;

    /// Takes a slot for an operation with this tag, which must be free; null tags are not listed. The
    /// operation is not in flight yet. `no_slot` with an exception set when there is no memory.
    std::uint32_t add(PyObject* tag, Py_hash_t hash) noexcept;

    /// From here on the operation is in flight.
    Operation& start(std::uint32_t slot) noexcept;

    /// The kernel is done with the operation: it is no longer in flight, but keeps its tag. What it
    /// held is moved out, for the caller to drop once all is in order.
    Operation finish(std::uint32_t slot) noexcept;

    /// Frees the slot. What it held is moved out, for the caller to drop once all is in order.
    Operation remove(std::uint32_t slot) noexcept;

    /// Takes the operation out as `remove` does, but keeps what it held until `drop_withdrawn`: letting
    /// go of one runs Python code, which may change the queue that its caller walks through.
    void withdraw(std::uint32_t slot) noexcept;
    void drop_withdrawn() noexcept;

    Operation& at(std::uint32_t slot) noexcept { return slots_[slot]; }

    /// What is submitted as user_data for the slot.
    [[nodiscard]] std::uint64_t key(std::uint32_t slot) const noexcept {
        return static_cast<std::uint64_t>(slots_[slot].generation) << 32 | slot;
    }

    /// The slot of a completion's user_data; `no_slot` if no operation of this table has it.
    [[nodiscard]] std::uint32_t slot_of(std::uint64_t key) const noexcept {
        const auto slot = static_cast<std::uint32_t>(key);
        return slot < slots_.size() && slots_[slot].used &&
                       slots_[slot].generation == static_cast<std::uint32_t>(key >> 32)
                   ? slot
                   : no_slot;
    }

    /// Operations that the kernel has, or will have, something to say about.
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }

    /// Forgets everything without releasing it: the kernel may still write to what is held.
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
    std::uint64_t tags_listed_ = 0; ///< over all time
};

/// The value of an exact int from 0 to a few ten thousand, else -1.
Py_ssize_t small_tag_of(PyObject* tag) noexcept;

} // namespace penstock::python
