#pragma once

#include "parameters.hpp"
#include "submission_queue.hpp"

#include <limits>

namespace penstock::python::uring {

/// The file's own position: the meaning of `offset=-1`.
inline constexpr std::uint64_t current_position = std::numeric_limits<std::uint64_t>::max();

/// The options that every operation accepts beside its own parameters.
struct Options {
    PyObject* tag = nullptr; ///< borrowed; null for an automatic one
    std::uint8_t flags = 0;  ///< IOSQE_*
    bool skip_success = false;
};

inline constexpr std::array option_names{
    Name::user_data,  Name::link,        Name::hardlink,     Name::drain,
    Name::fixed_file, Name::force_async, Name::skip_success,
};

/// Reads the options in the order of `option_names`.
bool read_options(PyObject* const* given, Options& options) noexcept;

/// The parameters of a prep method: its own, then `user_data`, then the options, which are
/// keyword-only.
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
        return assign_arguments(state, function, arguments, count, keywords,
                                {names_.data(), places_.data(), total, Own + 1, required}) &&
               read_options(places_.data() + Own, options);
    }

    PyObject* operator[](std::size_t index) const noexcept { return places_[index]; }

private:
    static constexpr std::size_t total = Own + option_names.size();

    std::array<Name, total> names_{};
    std::array<PyObject*, total> places_{};
};

/// A submission in the layout of io_uring_enter(2). liburing's own struct ends in an array of no
/// size and cannot be a member.
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

/// A prepared operation that has no place in the queue yet: its converted arguments. Converting may
/// run Python code, so all drafts of a call are complete before the first draft uses the queue. A
/// draft that gets no place releases everything that it owns.
struct Draft {
    Entry entry{};
    Holdings holdings;
    Ref buffers;                      ///< the buffer ring from which the kernel picks
    BufferPoolObject* pool = nullptr; ///< owner of the buffer that `holdings` keeps
    bool fills_bytes = false;
    bool yields_fd = false;
    bool fixed = false; ///< must lie within the registered buffer `entry.buffer`

    explicit Draft(unsigned opcode) noexcept { entry.opcode = static_cast<std::uint8_t>(opcode); }

    void point_to(const void* address, std::size_t length) noexcept {
        entry.address = reinterpret_cast<std::uintptr_t>(address);
        entry.length = static_cast<std::uint32_t>(length);
    }
};

/// Assigns a tag and a place in the queue. Returns the tag. Null with an exception set, and then
/// nothing was prepared.
PyObject* commit(RingObject* self, Draft& draft, const Options& options) noexcept;

/// Tags that are reserved for operations of one call. Destruction releases those that got no place
/// in the queue.
class Reservation {
public:
    explicit Reservation(RingObject* ring) noexcept : ring_(ring) {}
    ~Reservation();
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;

    /// Allocates room for `count` operations. False with an exception set.
    bool reserve(std::size_t count) noexcept;

    /// Reserves a free tag, or a number where `tag` is null or None. Returns it, owned. Null with
    /// an exception set. May run Python code.
    PyObject* add(PyObject* tag) noexcept;

    /// Puts the drafts into the queue, each with the tag of the same index: all of them, or none
    /// with an exception set. `draft_of(i)` makes or finds a draft and runs no Python code.
    template <typename DraftOf>
    bool commit(const DraftOf& draft_of, const Options& options) noexcept;

private:
    /// Checks that each tag still has its slot, since Python code may have run. False with an
    /// exception set.
    bool check_reserved() noexcept;

    RingObject* ring_;
    std::vector<std::uint64_t> keys_;
};

/// Whether the draft still fits the ring: registrations may have changed since the arguments were
/// read. False with an exception set.
bool check_draft(RingObject* self, const Draft& draft) noexcept;

/// Whether the queue has room for `count` operations. False with an exception set.
bool check_room(RingObject* self, std::size_t count) noexcept;

/// Fills the next place of the queue, which must exist, for the operation of a slot. Runs no Python
/// code.
Operation& place(RingObject* self, Draft& draft, const Options& options,
                 std::uint32_t slot) noexcept;

template <typename DraftOf>
bool Reservation::commit(const DraftOf& draft_of, const Options& options) noexcept {
    const std::size_t count = keys_.size();
    if (!check_usable(ring_) || !check_reserved()) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        if (!check_draft(ring_, draft_of(i))) {
            return false;
        }
    }
    // The last step that may fail. Nothing from here on runs Python code.
    if (!check_room(ring_, count)) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        place(ring_, draft_of(i), options, static_cast<std::uint32_t>(keys_[i]));
    }
    keys_.clear();
    return true;
}

/// The target of a read: a size, a writable buffer, a pool's buffer, or a buffer ring.
bool take_target(RingObject* self, Draft& draft, PyObject* target) noexcept;

/// The source of a write.
bool take_source(RingObject* self, Draft& draft, PyObject* source) noexcept;

/// A descriptor or an object with `fileno()`. With `fixed_file`, the index of a registered file.
bool take_fd(Draft& draft, PyObject* object, const Options& options) noexcept;

/// A file offset: 0 or more, or -1 (the default) for the file's own position.
bool take_offset(Draft& draft, PyObject* object) noexcept;

/// A 32-bit integer, 0 by default.
bool take_flags(PyObject* object, std::uint32_t& flags) noexcept;

/// Whether a transfer meets the requirements of O_DIRECT for its address, length and offset, as far
/// as the kernel reports them (statx(2), STATX_DIOALIGN). False with ValueError set.
bool check_alignment(RingObject* self, int fd, std::uintptr_t start, std::size_t length,
                     std::uint64_t offset) noexcept;

/// The same for the draft's transfer.
bool check_alignment(RingObject* self, const Draft& draft) noexcept;

} // namespace penstock::python::uring
