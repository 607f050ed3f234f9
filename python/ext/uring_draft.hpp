#pragma once

#include "uring_parameters.hpp"
#include "uring_submission_queue.hpp"

#include <limits>

namespace penstock::python {

/// "At the file's own position": what `offset=-1` means.
inline constexpr std::uint64_t current_position = std::numeric_limits<std::uint64_t>::max();

/// What every operation may be given beside its own parameters.
struct Options {
    PyObject* tag = nullptr; ///< borrowed; null for "choose one"
    std::uint8_t flags = 0;  ///< IOSQE_*
    bool skip_success = false;
};

inline constexpr std::array option_names{
    Name::user_data,  Name::link,        Name::hardlink,     Name::drain,
    Name::fixed_file, Name::force_async, Name::skip_success,
};

/// Reads the options from their places, in the order of `option_names`.
bool read_options(PyObject* const* given, Options& options) noexcept;

/// The parameters of a prep method: its own, then `user_data`, then the options, which need their
/// names.
template <std::size_t Own> class PrepareParameters {
public:
    PrepareParameters(std::initializer_list<Name> names) noexcept {
        std::size_t i = 0;
        for (const Name name : names) {
            names_[i++] = name;
        }
        for (const Name name : option_names) {
            names_[i++] = name;
        }
    }

    bool parse(const ModuleState* state, const char* function, PyObject* const* arguments,
               Py_ssize_t count, PyObject* keywords, std::size_t required,
               Options& options) noexcept {
        return place_arguments(state, function, arguments, count, keywords,
                               {names_.data(), places_.data(), total, Own + 1, required}) &&
               read_options(places_.data() + Own, options);
    }

    PyObject* operator[](std::size_t index) const noexcept { return places_[index]; }

private:
    static constexpr std::size_t total = Own + option_names.size();

    std::array<Name, total> names_{};
    std::array<PyObject*, total> places_{};
};

/// A submission as io_uring_enter(2) lays it out. liburing's own struct ends in an array of no size
/// and cannot be a member.
struct Entry {
    std::uint8_t opcode;
    std::uint8_t flags;
    std::uint16_t ioprio;
    std::int32_t fd;
    std::uint64_t offset; ///< or a second address
    std::uint64_t address;
    std::uint32_t length;
    std::uint32_t operation_flags;
    std::uint64_t user_data;
    std::uint16_t buffer; ///< index of a registered buffer, or a buffer group
    std::uint16_t personality;
    std::uint32_t file_index;
    std::uint64_t third_address;
    std::uint64_t padding;
};

static_assert(sizeof(Entry) == sizeof(io_uring_sqe));

/// An operation that has no place in the queue yet: its arguments, converted. Converting may run Python
/// code, so all of a call's drafts are finished before the first touches the queue. If a draft never
/// gets a place, all that it holds is let go.
struct Draft {
    Entry entry{};
    Holdings holdings;
    Ref buffers;                      ///< the buffer ring that the kernel picks from
    BufferPoolObject* pool = nullptr; ///< whose buffer `holdings` keeps
    bool fills_bytes = false;
    bool yields_fd = false;
    bool fixed = false; ///< must lie within the registered buffer `entry.buffer`

    explicit Draft(unsigned opcode) noexcept { entry.opcode = static_cast<std::uint8_t>(opcode); }

    void point_to(const void* address, std::size_t length) noexcept {
        entry.address = reinterpret_cast<std::uintptr_t>(address);
        entry.length = static_cast<std::uint32_t>(length);
    }
};

/// Gives the draft its tag and its place in the queue. Returns the tag; null with an exception set,
/// and then nothing was prepared.
PyObject* commit(RingObject* self, Draft& draft, const Options& options) noexcept;

/// Tags that operations will have, kept from all others meanwhile. What gets no place in the queue is
/// let go with this.
class Reservation {
public:
    explicit Reservation(RingObject* ring) noexcept : ring_(ring) {}
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    /// Room for so many. False with an exception set.
    bool reserve(std::size_t count) noexcept;

    /// Reserves a tag that is free, or a number where `tag` is null or None. Returns it, owned; null with an
    /// exception set. May run Python code.
    PyObject* add(PyObject* tag) noexcept;

    /// Gives the drafts their places in the queue, each with the tag of the same number: all of them, or
    /// none and an exception. `draft_of(i)` makes or finds one; it runs no Python code.
    template <typename DraftOf>
    bool commit(const DraftOf& draft_of, const Options& options) noexcept;

private:
    /// The slot of each tag, whatever Python code did meanwhile. False with an exception set.
    bool check_kept() noexcept;

    RingObject* ring_;
    std::vector<std::uint64_t> keys_;
};

/// Whether the draft still fits the ring as it is now: what is registered may have changed since the
/// arguments were read. False with an exception set.
bool check_draft(RingObject* self, const Draft& draft) noexcept;

/// Whether `count` operations have room in the queue. False with an exception set.
bool check_room(RingObject* self, std::size_t count) noexcept;

/// Fills the next place of the queue, which must be there, for the operation of a slot. Runs no Python code.
Operation& place(RingObject* self, Draft& draft, const Options& options,
                 std::uint32_t slot) noexcept;

template <typename DraftOf>
bool Reservation::commit(const DraftOf& draft_of, const Options& options) noexcept {
    const std::size_t count = keys_.size();
    if (!check_usable(ring_) || !check_kept()) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (!check_draft(ring_, draft_of(i))) {
            return false;
        }
    }
    // The last that may give up; nothing from here on runs Python code.
    if (!check_room(ring_, count)) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        place(ring_, draft_of(i), options, static_cast<std::uint32_t>(keys_[i]));
    }
    keys_.clear();
    return true;
}

/// What the kernel shall write to: a size, a writable buffer, a pool's buffer, or a buffer ring.
bool take_target(RingObject* self, Draft& draft, PyObject* target) noexcept;

/// What the kernel shall read from.
bool take_source(RingObject* self, Draft& draft, PyObject* source) noexcept;

/// A descriptor or an object with `fileno()`; with `fixed_file` the index of a registered file.
bool take_fd(Draft& draft, PyObject* object, const Options& options) noexcept;

/// A file offset: 0 or more, or -1 for the file's own position; absent is -1.
bool take_offset(Draft& draft, PyObject* object) noexcept;

/// A whole number of 32 bits; absent is 0.
bool take_flags(PyObject* object, std::uint32_t& flags) noexcept;

/// Whether a transfer fits what O_DIRECT asks of its address, length and offset, as far as the
/// kernel tells (statx(2), STATX_DIOALIGN). False with a ValueError set.
bool check_alignment(RingObject* self, int fd, std::uintptr_t start, std::size_t length,
                     std::uint64_t offset) noexcept;

/// The same for the draft's transfer.
bool check_alignment(RingObject* self, const Draft& draft) noexcept;

} // namespace penstock::python
