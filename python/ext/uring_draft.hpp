#pragma once

#include "uring_parameters.hpp"
#include "uring_ring.hpp"

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

/// An operation that has no place in the queue yet. If it never gets one, all that it holds is let go.
struct Draft {
    Entry entry{};
    Holdings holdings;
    Ref buffers; ///< the buffer ring that the kernel picks from
    bool fills_bytes = false;
    bool yields_fd = false;

    explicit Draft(unsigned opcode) noexcept { entry.opcode = static_cast<std::uint8_t>(opcode); }

    void point_to(const void* address, std::size_t length) noexcept {
        entry.address = reinterpret_cast<std::uintptr_t>(address);
        entry.length = static_cast<std::uint32_t>(length);
    }
};

/// Gives the draft its tag and its place in the queue. Returns the tag; null with an exception set,
/// and then nothing was prepared.
PyObject* commit(RingObject* self, Draft& draft, const Options& options) noexcept;

/// The second half of that: the tag is free, or null for an operation that is nobody's. Runs no Python
/// code. Null with an exception set if the queue is full or there is no memory.
Operation* enqueue(RingObject* self, Draft& draft, const Options& options, PyObject* tag,
                   Py_hash_t hash) noexcept;

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
