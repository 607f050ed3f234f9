#include "io/files/uring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>

#include <unistd.h>

#include <penstock/io/files/uring_compat.hpp>

#include "io/files/thread_limit.hpp"

namespace penstock::io {

namespace {

constexpr unsigned needed_features =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS;

constexpr std::array needed_opcodes{IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV,
                                    IORING_OP_WRITEV, IORING_OP_ASYNC_CANCEL};

/// A number that is never reused, unlike a pthread_t.
std::uint64_t this_thread() noexcept {
    static std::atomic<std::uint64_t> threads{0};
    thread_local const std::uint64_t number = ++threads;
    return number;
}

} // namespace

Uring::Uring(const FileEngineOptions& options, int event_fd, RingKernel& kernel) : kernel_(kernel) {
    int error = set_up(options.ring_entries);
    if (error != 0) {
        throw std::system_error(-error, std::system_category(), "io_uring_setup");
    }
    const char* step = "io_uring's features";
    error = (features_ & needed_features) == needed_features ? 0 : -ENOSYS;
    if (error == 0) {
        error = probe_opcodes();
    }
    if (error == 0) {
        step = "io_uring_register of an eventfd";
        error = io_uring_register_eventfd(&ring_, event_fd);
    }
    if (error == 0) {
        step = "madvise of the ring";
        error = io_uring_ring_dontfork(&ring_);
    }
    if (error < 0) {
        io_uring_queue_exit(&ring_);
        throw std::system_error(-error, std::system_category(), step);
    }
    capacity_ = *ring_.cq.kring_entries;
    // Optional improvements: the ring also works without them.
    std::array<unsigned, 2> workers{thread_limit(options), thread_limit(options)};
    io_uring_register_iowq_max_workers(&ring_, workers.data());
    if (io_uring_register_files_sparse(&ring_, max_fixed_files) == 0) {
        fixed_files_ = max_fixed_files;
    }
}

Uring::~Uring() {
    if (abandoned_) {
        ::close(ring_.ring_fd);
        return;
    }
    if (thread_ != 0 && thread_ != this_thread()) {
        unbind();
    }
    io_uring_queue_exit(&ring_);
}

// COOP_TASKRUN: a completion does not interrupt this thread; it waits for the thread's next system
// call, which a loop's thread makes soon. SUBMIT_ALL: an invalid request does not stop the requests
// behind it. Newest flags first; a kernel without one of the flags returns EINVAL.
int Uring::set_up(unsigned entries) noexcept {
    int error = -EINVAL;
    for (const unsigned flags :
         {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL, IORING_SETUP_SUBMIT_ALL, 0U}) {
        io_uring_params parameters{};
        parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | flags;
        parameters.cq_entries = std::max(entries, min_entries) * 4;
        error = kernel_.set_up(std::max(entries, min_entries), ring_, parameters);
        features_ = parameters.features;
        if (error != -EINVAL) {
            break;
        }
    }
    return error;
}

int Uring::probe_opcodes() noexcept {
    opcodes_ = kernel_.supported_opcodes(ring_);
    const bool enough = std::all_of(needed_opcodes.begin(), needed_opcodes.end(),
                                    [this](unsigned opcode) { return supports(opcode); });
    return enough ? 0 : -ENOSYS;
}

// A registered ring descriptor saves the kernel a look-up at each enter, but belongs to one thread.
void Uring::bind_to_this_thread() noexcept {
    if (thread_ == this_thread()) {
        return;
    }
    if (thread_ != 0) {
        unbind();
    }
    unbound_flags_ = ring_.int_flags;
    io_uring_register_ring_fd(&ring_);
    thread_ = this_thread();
}

// The registration ends with the other thread. Its index has another meaning in this thread.
void Uring::unbind() noexcept {
    ring_.enter_ring_fd = ring_.ring_fd;
    ring_.int_flags = static_cast<decltype(ring_.int_flags)>(unbound_flags_);
    thread_ = 0;
}

int Uring::submit() noexcept {
    if (prepared() == 0) {
        return 0;
    }
    bind_to_this_thread();
    while (prepared() != 0) {
        const int count = kernel_.submit(ring_);
        if (count == -EINTR) {
            continue;
        }
        if (count <= 0) {
            return count == 0 ? -EAGAIN : count;
        }
    }
    return 0;
}

// A refused io_uring_enter(2) has taken nothing: the kernel's head stands before the first request
// that it has not read.
bool Uring::take_back(std::uint64_t& user_data) noexcept {
    const unsigned head = io_uring_smp_load_acquire(ring_.sq.khead) + taken_back_;
    const unsigned prepared_until = ring_.sq.sqe_tail;
    if (head == prepared_until) {
        return false;
    }
    user_data = ring_.sq.sqes[head & *ring_.sq.kring_mask].user_data;
    ++taken_back_;
    return true;
}

void Uring::cancel_all() noexcept {
    io_uring_sync_cancel_reg all{};
    all.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
    io_uring_register_sync_cancel(&ring_, &all);
}

bool Uring::pop(Completion& completion) noexcept {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0 || entry == nullptr) {
        return false;
    }
    completion = {.user_data = entry->user_data, .result = uring::result_of(entry->res)};
    io_uring_cqe_seen(&ring_, entry);
    return true;
}

} // namespace penstock::io
