#pragma once

#include <array>
#include <cstdint>
#include <map>

#include <sys/epoll.h>

#include <penstock/io/files/file_operation.hpp>

#include "io/files/completion_event.hpp"
#include "io/files/operation_list.hpp"

namespace penstock::io {

/// Operations that wait until a descriptor is ready, in one epoll: any number of them costs one
/// thread, the one that calls `wait`.
///
/// Several operations may wait for one descriptor. When it is ready, all of them whose events have
/// come are taken: one may get the data, and the others then wait again.
///
/// A descriptor may be closed while an operation waits for it. If a duplicate of it is open
/// elsewhere, in this process or in another, the kernel keeps the registration, and nobody can
/// remove it under a number that is closed or names another file: an orphan. Its events would end
/// every `wait` at once, so `drop_orphans` moves to a new epoll, as `Poller` does.
///
/// After a warm-up a wait allocates nothing: the entries of past waits are kept, at most as many as
/// ever waited at once.
///
/// The caller holds one lock for all members but `wait` and `wake`.
class DescriptorWaits {
public:
    /// Throws `std::system_error` if the kernel refuses the epoll.
    DescriptorWaits();
    ~DescriptorWaits();
    DescriptorWaits(const DescriptorWaits&) = delete;
    DescriptorWaits& operator=(const DescriptorWaits&) = delete;

    /// Adds an operation, which waits as its `awaited_fd` and `awaited_events` say. Returns 0 or an
    /// errno: EPERM for a descriptor that is always ready (epoll_ctl(2)), ENOMEM, ENOSPC, EBADF.
    int add(FileOperation& operation) noexcept;

    void remove(FileOperation& operation) noexcept;

    /// Removes all operations and moves them to `into`.
    void remove_all(OperationList& into) noexcept;

    [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

    using Events = std::array<epoll_event, 64>;

    /// Blocks until a descriptor is ready, `wake` is called or so many milliseconds have passed.
    /// Returns the number of events.
    int wait(Events& events, int milliseconds) noexcept;

    /// Moves the operations that an event concerns to `ready`.
    void take(const epoll_event& event, OperationList& ready) noexcept;

    /// After the events of a `wait` were taken, and by its thread: gets rid of the orphans if one
    /// of the events was theirs. Operations whose descriptor was closed go to `ready`: an attempt
    /// tells them.
    void drop_orphans(OperationList& ready) noexcept;

    void wake() noexcept { interrupt_.signal(); }

private:
    struct Entry {
        OperationList operations;       ///< never empty
        std::uint32_t registration = 0; ///< tells its events from an orphan's
    };

    using Entries = std::map<int, Entry>; ///< by descriptor

    [[nodiscard]] static epoll_event wanted(Entries::const_iterator entry) noexcept;
    [[nodiscard]] Entries::iterator entry_of(int fd);
    Entries::iterator retire(Entries::iterator entry) noexcept;
    [[nodiscard]] int watch(Entries::iterator entry) noexcept;
    void update(Entries::iterator entry) noexcept;

    CompletionEvent interrupt_;
    int epoll_;
    Entries entries_;
    std::multimap<int, Entry> spare_; ///< entries to use again. Their keys mean nothing.
    std::uint32_t registrations_ = 0;
    bool orphans_possible_ = false;
    bool orphan_seen_ = false;
};

} // namespace penstock::io
