#include "io/files/descriptor_waits.hpp"

#include <cerrno>
#include <cstdint>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

namespace penstock::io {

namespace {

std::uint64_t tag(int fd, std::uint32_t registration) noexcept {
    return std::uint64_t{registration} << 32 | static_cast<std::uint32_t>(fd);
}

/// A new epoll that watches `interrupt`, or -1. No entry has registration 0.
int make_epoll(int interrupt) noexcept {
    const int made = epoll_create1(EPOLL_CLOEXEC);
    epoll_event wanted{.events = EPOLLIN, .data = {.u64 = tag(interrupt, 0)}};
    if (made >= 0 && epoll_ctl(made, EPOLL_CTL_ADD, interrupt, &wanted) != 0) {
        const int error = errno;
        ::close(made);
        errno = error;
        return -1;
    }
    return made;
}

} // namespace

DescriptorWaits::DescriptorWaits() : epoll_(make_epoll(interrupt_.descriptor())) {
    if (epoll_ < 0) {
        throw std::system_error(errno, std::system_category(), "epoll");
    }
}

DescriptorWaits::~DescriptorWaits() {
    ::close(epoll_);
}

/// The entry of a descriptor, which may be new. Throws `std::bad_alloc`.
DescriptorWaits::Entries::iterator DescriptorWaits::entry_of(int fd) {
    if (spare_.empty() || entries_.contains(fd)) {
        return entries_.try_emplace(fd).first;
    }
    Entries::node_type node = spare_.extract(spare_.begin());
    node.key() = fd;
    return entries_.insert(std::move(node)).position;
}

/// Keeps the entry of a descriptor for which no operation waits any more. Returns the one after it.
// Moving a node between trees does not allocate. A hash table could have to grow for it.
DescriptorWaits::Entries::iterator DescriptorWaits::retire(Entries::iterator entry) noexcept {
    const Entries::iterator next = std::next(entry);
    entry->second.registration = 0;
    spare_.insert(entries_.extract(entry));
    return next;
}

// Level-triggered: what is ready already is reported at once. poll(2) and epoll_ctl(2) use the same
// bits.
epoll_event DescriptorWaits::wanted(Entries::const_iterator entry) noexcept {
    unsigned events = 0;
    for (const FileOperation* it = entry->second.operations.front(); it != nullptr;
         it = OperationList::after(*it)) {
        events |= static_cast<unsigned short>(it->engine.awaited_events);
    }
    return {.events = events, .data = {.u64 = tag(entry->first, entry->second.registration)}};
}

// Modified first: a descriptor that was closed meanwhile has left the epoll by itself, or become an
// orphan, and its number may belong to another file.
int DescriptorWaits::watch(Entries::iterator entry) noexcept {
    const bool registered = entry->second.registration != 0;
    if (!registered) {
        entry->second.registration = ++registrations_;
    }
    epoll_event event = wanted(entry);
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, entry->first, &event) == 0) {
        return 0;
    }
    if (errno != ENOENT) {
        return errno;
    }
    if (registered) {
        orphans_possible_ = true;
        entry->second.registration = ++registrations_;
        event = wanted(entry);
    }
    return epoll_ctl(epoll_, EPOLL_CTL_ADD, entry->first, &event) == 0 ? 0 : errno;
}

int DescriptorWaits::add(FileOperation& operation) noexcept {
    Entries::iterator entry;
    try {
        entry = entry_of(operation.engine.awaited_fd);
    } catch (const std::bad_alloc&) {
        return ENOMEM;
    }
    entry->second.operations.push_back(operation);
    const int error = watch(entry);
    if (error != 0) {
        entry->second.operations.remove(operation);
        if (entry->second.operations.empty()) {
            retire(entry);
        }
    }
    return error;
}

/// After operations have left. Fails only for a descriptor that was closed.
void DescriptorWaits::update(Entries::iterator entry) noexcept {
    if (!entry->second.operations.empty()) {
        (void)watch(entry);
        return;
    }
    if (epoll_ctl(epoll_, EPOLL_CTL_DEL, entry->first, nullptr) != 0) {
        orphans_possible_ = true;
    }
    retire(entry);
}

void DescriptorWaits::remove(FileOperation& operation) noexcept {
    const auto entry = entries_.find(operation.engine.awaited_fd);
    if (entry != entries_.end()) {
        entry->second.operations.remove(operation);
        update(entry);
    }
}

void DescriptorWaits::remove_all(OperationList& into) noexcept {
    while (!entries_.empty()) {
        into.append(entries_.begin()->second.operations);
        update(entries_.begin());
    }
}

int DescriptorWaits::wait(Events& events, int milliseconds) noexcept {
    const int count =
        epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), milliseconds);
    return count > 0 ? count : 0;
}

void DescriptorWaits::take(const epoll_event& event, OperationList& ready) noexcept {
    if (event.data.u64 == tag(interrupt_.descriptor(), 0)) {
        interrupt_.clear();
        return;
    }
    const auto entry = entries_.find(static_cast<int>(static_cast<std::uint32_t>(event.data.u64)));
    if (entry == entries_.end() ||
        tag(entry->first, entry->second.registration) != event.data.u64) {
        orphan_seen_ = true; // or it was removed after the `wait`
        return;
    }
    const bool ended = (event.events & (EPOLLERR | EPOLLHUP)) != 0;
    OperationList& operations = entry->second.operations;
    for (FileOperation *it = operations.front(), *next = nullptr; it != nullptr; it = next) {
        next = OperationList::after(*it);
        if (ended || (event.events & static_cast<unsigned short>(it->engine.awaited_events)) != 0) {
            operations.remove(*it);
            ready.push_back(*it);
        }
    }
    update(entry);
}

// If the kernel refuses, the old epoll stays, and a later event of an orphan tries again.
void DescriptorWaits::drop_orphans(OperationList& ready) noexcept {
    if (!std::exchange(orphan_seen_, false) || !orphans_possible_) {
        return;
    }
    const int fresh = make_epoll(interrupt_.descriptor());
    if (fresh < 0) {
        return;
    }
    for (auto it = entries_.begin(); it != entries_.end();) {
        epoll_event event = wanted(it);
        if (epoll_ctl(epoll_, EPOLL_CTL_MOD, it->first, &event) != 0) {
            ready.append(it->second.operations); // closed while they waited
            it = retire(it);
        } else if (epoll_ctl(fresh, EPOLL_CTL_ADD, it->first, &event) == 0) {
            ++it;
        } else {
            ::close(fresh);
            return;
        }
    }
    if (::dup3(fresh, epoll_, O_CLOEXEC) == epoll_) {
        orphans_possible_ = false;
    }
    ::close(fresh);
}

} // namespace penstock::io
