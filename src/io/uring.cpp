#include "io/uring.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <system_error>
#include <thread>

#include <penstock/io/uring_compat.hpp>
#include <unistd.h>

#include "io/thread_limit.hpp"

namespace penstock::io {

namespace {

constexpr unsigned needed_features =
    IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_RW_CUR_POS;

constexpr std::array needed_opcodes{IORING_OP_READ, IORING_OP_WRITE, IORING_OP_READV,
                                    IORING_OP_WRITEV, IORING_OP_ASYNC_CANCEL};

/// A number that no other thread has or had: a pthread_t is used again.
std::uint64_t this_thread() noexcept {
    static std::atomic<std::uint64_t> threads{0};
    thread_local const std::uint64_t number = ++threads;
    return number;
}

} // namespace

Uring::Uring(const FileEngineOptions& options, int event_fd)
    : failing_submissions_(options.failing_submissions) {
    int error = options.refuse_ring != 0 ? -options.refuse_ring : set_up(options.ring_entries);
    if (error != 0) {
        throw std::system_error(-error, std::system_category(), "io_uring_setup");
    }
    const char* step = "io_uring's features";
    error = (features_ & needed_features) == needed_features ? 0 : -ENOSYS;
    if (error == 0) {
        error = find_out_opcodes(options.withheld_opcodes);
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
    // What follows only makes it better: where the kernel has none of it the ring works all the same.
    std::array<unsigned, 2> workers{thread_limit(options), thread_limit(options)};
    io_uring_register_iowq_max_workers(&ring_, workers.data());
    if (io_uring_register_files_sparse(&ring_, most_fixed_files) == 0) {
        fixed_files_ = most_fixed_files;
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

// COOP_TASKRUN: an answer does not interrupt this thread where it runs, but waits for its next system
// call, which a loop's thread makes soon. SUBMIT_ALL: a request that cannot be does not hold up those
// behind it. Newest first; a kernel that does not know a flag says EINVAL.
int Uring::set_up(unsigned entries) noexcept {
    int error = -EINVAL;
    for (const unsigned flags :
         {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_SUBMIT_ALL, IORING_SETUP_SUBMIT_ALL, 0U}) {
        io_uring_params parameters{};
        parameters.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | flags;
        parameters.cq_entries = std::max(entries, fewest_entries) * 4;
        error = io_uring_queue_init_params(std::max(entries, fewest_entries), &ring_, &parameters);
        features_ = parameters.features;
        if (error != -EINVAL) {
            break;
        }
    }
    return error;
}

int Uring::find_out_opcodes(std::uint64_t withheld) noexcept {
    struct Free {
        void operator()(io_uring_probe* probe) const noexcept { io_uring_free_probe(probe); }
    };
    const std::unique_ptr<io_uring_probe, Free> probe(io_uring_get_probe_ring(&ring_));
    if (probe == nullptr) {
        return -ENOSYS; // before Linux 5.6
    }
    for (int opcode = 0; opcode < std::min<int>(probe->ops_len, 64); ++opcode) {
        if (io_uring_opcode_supported(probe.get(), opcode) != 0) {
            opcodes_ |= std::uint64_t{1} << opcode;
        }
    }
    const bool enough = std::all_of(needed_opcodes.begin(), needed_opcodes.end(),
                                    [this](unsigned opcode) { return supports(opcode); });
    opcodes_ &= ~withheld;
    return enough ? 0 : -ENOSYS;
}

// A registered descriptor spares the kernel a look-up at each enter, but belongs to one thread.
void Uring::bind_to_this_thread() noexcept {
    if (thread_ == this_thread()) {
        return;
    }
    if (thread_ != 0) {
        unbind();
    }
    plain_flags_ = ring_.int_flags;
    io_uring_register_ring_fd(&ring_);
    thread_ = this_thread();
}

// The other thread's registration goes with that thread: the index means something else in this one.
void Uring::unbind() noexcept {
    ring_.enter_ring_fd = ring_.ring_fd;
    ring_.int_flags = static_cast<decltype(ring_.int_flags)>(plain_flags_);
    thread_ = 0;
}

int Uring::submit() noexcept {
    if (prepared() == 0) {
        return 0;
    }
    if (failing_submissions_ != 0) {
        --failing_submissions_;
        return -EAGAIN;
    }
    bind_to_this_thread();
    while (prepared() != 0) {
        const int count = io_uring_submit(&ring_);
        if (count == -EINTR) {
            continue;
        }
        if (count <= 0) {
            return count == 0 ? -EAGAIN : count;
        }
    }
    return 0;
}

bool Uring::take(Answer& answer) noexcept {
    io_uring_cqe* entry = nullptr;
    if (io_uring_peek_cqe(&ring_, &entry) != 0 || entry == nullptr) {
        return false;
    }
    answer = {.user_data = entry->user_data, .result = uring::result_of(entry->res)};
    io_uring_cqe_seen(&ring_, entry);
    return true;
}

} // namespace penstock::io
