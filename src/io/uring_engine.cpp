#include "io/uring_engine.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include <penstock/io/choose_file_engine.hpp>
#include <penstock/io/uring_compat.hpp>

#include "io/file_call.hpp"
#include "io/uring_request.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;
using Place = FileOperation::EnginePart::Place;

/// The open, the read and the tail of a `read_file` go in one submission, or they are no chain.
constexpr unsigned read_file_requests = 3;

bool is_write(Kind kind) noexcept {
    return kind == Kind::write || kind == Kind::writev;
}

bool is_transfer(Kind kind) noexcept {
    return kind == Kind::read || kind == Kind::readv || kind == Kind::write || kind == Kind::writev;
}

/// Says that the request was not served, though nobody asked to have it cancelled: a signal came, the
/// kernel lacked something, or the thread that submitted it has ended. A worker thread then does it.
bool was_not_served(std::int32_t result) noexcept {
    return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

/// The size of the file that has just been opened under this path, or 0. Only a hint: it may be
/// another one by now. Asks no server (AT_STATX_DONT_SYNC), so it does not block.
std::uint64_t size_hint(const FileOperation& operation) noexcept {
    struct statx status{};
    const int found = statx(operation.fd, operation.path, AT_STATX_DONT_SYNC, STATX_SIZE, &status);
    return found == 0 ? status.stx_size : 0;
}

/// The kernel first tries an open as though O_NONBLOCK were set, which for a FIFO is an order: it opens
/// it for reading though nobody writes, and refuses to open it for writing when nobody reads.
bool did_not_wait(const FileOperation& operation, std::int32_t result) noexcept {
    if (operation.patient || operation.engine.patient ||
        (operation.flags & (O_NONBLOCK | O_PATH)) != 0) {
        return false;
    }
    struct stat status{};
    const bool reads = (operation.flags & O_ACCMODE) == O_RDONLY;
    return result == -ENXIO ||
           (result >= 0 && reads && fstat(result, &status) == 0 && S_ISFIFO(status.st_mode));
}

/// A terminal's driver waits though it is told not to (IOCB_NOWAIT; it knows O_NONBLOCK only), so a request
/// waits while it is being submitted, on the loop's thread.
bool waits_in_submission(const FileOperation& operation) noexcept {
    if (!is_transfer(operation.kind) || operation.offset != FileOperation::current_position) {
        return false;
    }
    struct stat status{};
    return fstat(operation.fd, &status) == 0 && S_ISCHR(status.st_mode) &&
           isatty(operation.fd) != 0;
}

} // namespace

UringEngine::UringEngine(const FileEngineOptions& options)
    : PooledEngine(options), ring_(std::make_unique<Uring>(options, descriptor())),
      max_transfer_(options.max_transfer), quiet_writes_(!options.withhold_quiet_writes) {
    for (unsigned slot = 0; slot < ring_->fixed_files(); ++slot) {
        free_slots_.push(slot);
    }
}

UringEngine::~UringEngine() {
    close();
}

void UringEngine::release() noexcept {
    ring_.reset(); // what slots may still be open go with it
    PooledEngine::release();
}

void UringEngine::abandon() noexcept {
    ring_->abandon();
    ring_.reset();
    PooledEngine::abandon();
}

bool UringEngine::ring_can(const FileOperation& operation) const noexcept {
    if (operation.patient) {
        return false; // the kernel's worker threads are fewer
    }
    if (operation.kind == Kind::read_file) {
        return !free_slots_.empty() && ring_->supports(IORING_OP_OPENAT) &&
               ring_->supports(IORING_OP_CLOSE);
    }
    // The kernel writes on the thread that submits, or on it at any moment once a pipe has room, and
    // raises SIGPIPE there. Worker threads have it blocked.
    if (is_write(operation.kind) && !quiet_writes_ && is_stream(operation.fd)) {
        return false;
    }
    return ring_->supports(opcode_of(operation)) && !waits_in_submission(operation);
}

void UringEngine::take(FileOperation& operation) noexcept {
    if (ring_can(operation)) {
        enter_or_wait(operation);
    } else {
        pool().add(operation);
    }
}

void UringEngine::enter_or_wait(FileOperation& operation) noexcept {
    operation.engine.in_ring = true;
    if (!waiting_.empty() || !enter(operation)) {
        operation.engine.place = Place::queued;
        waiting_.push_back(operation);
    }
}

/// Prepares the requests of an operation; false when there is no room for them now.
bool UringEngine::enter(FileOperation& operation) noexcept {
    const bool new_file = operation.kind == Kind::read_file && operation.engine.slot < 0;
    if (!make_way(new_file ? read_file_requests : 1)) {
        return false;
    }
    if (new_file && free_slots_.empty()) {
        hand_to_pool(operation);
        return true;
    }
    if (operation.kind == Kind::read_file) {
        enter_read_file(operation);
    } else {
        io_uring_sqe* request = ring_->next();
        describe(*request, operation, max_transfer_);
        if (is_write(operation.kind) && quiet_writes_) {
            request->rw_flags |= uring::rwf_nosignal;
        }
        tag(request, operation, Part::all);
        await(operation, Part::all);
    }
    operation.engine.place = Place::running;
    running_.push_back(operation);
    return true;
}

// What is read beyond the buffer's end has a byte of its own, so that a pipe's bytes are not lost. The
// links are hard: a short read would break a soft one, and then nothing would tell the end of the file.
void UringEngine::enter_read_file(FileOperation& operation) noexcept {
    FileOperation::EnginePart& mine = operation.engine;
    const bool opens = mine.slot < 0;
    if (opens) {
        mine.slot = static_cast<std::int16_t>(free_slots_.pop());
        // A fixed file is in no table that exec(2) would hand on, and the kernel refuses O_CLOEXEC.
        io_uring_sqe* open = ring_->next();
        io_uring_prep_openat_direct(open, operation.fd, operation.path,
                                    operation.flags & ~O_CLOEXEC, 0,
                                    static_cast<unsigned>(mine.slot));
        open->flags |= IOSQE_IO_LINK;
        tag(open, operation, Part::open);
        await(operation, Part::open);
    } else {
        await(operation, operation.transferred < operation.length ? Part::read : Part::tail);
    }
    // The first read is small enough to be done at once: the file may be, however large the buffer.
    const std::uint64_t limit =
        opens ? std::min<std::uint64_t>(max_transfer_, inline_limit) : max_transfer_;
    const auto size =
        static_cast<unsigned>(std::min(operation.length - operation.transferred, limit));
    const auto here = static_cast<std::uint64_t>(FileOperation::current_position);
    mine.result = 0;
    mine.tail_count = 0;
    mine.asks_tail = opens || size == 0;
    if (size != 0) {
        io_uring_sqe* read = ring_->next();
        io_uring_prep_read(read, mine.slot,
                           static_cast<char*>(operation.buffer) + operation.transferred, size,
                           here);
        read->flags |= IOSQE_FIXED_FILE | (opens ? IOSQE_IO_HARDLINK : 0U) |
                       (size > inline_limit ? IOSQE_ASYNC : 0U);
        tag(read, operation, Part::read);
    }
    if (mine.asks_tail) {
        io_uring_sqe* tail = ring_->next();
        io_uring_prep_read(tail, mine.slot, &mine.tail, 1, here);
        tail->flags |= IOSQE_FIXED_FILE;
        tag(tail, operation, Part::tail);
    }
}

void UringEngine::tag(io_uring_sqe* request, FileOperation& operation, Part part) noexcept {
    request->user_data =
        reinterpret_cast<std::uintptr_t>(&operation) | static_cast<std::uint64_t>(part);
    ++operation.engine.answers;
    ++unanswered_;
}

/// Names the part whose answer is next; a cancel has to reach that one. Of a cancelled chain the parts begin
/// one after the other, hard links being what they are.
void UringEngine::await(FileOperation& operation, Part part) noexcept {
    operation.engine.awaited = static_cast<std::uint8_t>(part);
    if (operation.engine.cancelled) {
        owe_cancel(operation);
    }
}

/// True when so many requests of operations can be prepared, and their answers will find room. A part of
/// the completion queue is kept for cancels: operations that wait for ever must not be in their way.
bool UringEngine::make_way(unsigned requests) noexcept {
    if (unanswered_ + requests > ring_->capacity() - ring_->capacity() / 4) {
        return false;
    }
    if (ring_->room() < requests) {
        push();
    }
    return ring_->room() >= requests;
}

// The kernel may refuse more until answers have been taken, and taking them may want to prepare more.
void UringEngine::push() noexcept {
    if (pushing_) {
        return;
    }
    pushing_ = true;
    constexpr int attempts = 3;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        stalled_ = ring_->submit() != 0;
        if (!stalled_) {
            break;
        }
        Uring::Answer answer{};
        while (ring_->take(answer)) {
            if (FileOperation* operation = take_answer(answer)) {
                done_.push_back(*operation);
            }
        }
    }
    pushing_ = false;
}

void UringEngine::submit() noexcept {
    enter_due();
    push();
    pool().flush();
}

void UringEngine::enter_due() noexcept {
    while (!slots_to_close_.empty() && make_way(1)) {
        close_slot(slots_to_close_.pop());
    }
    enter_cancels();
    while (FileOperation* operation = waiting_.pop_front()) {
        if (!enter(*operation)) {
            waiting_.push_front(*operation);
            break;
        }
    }
}

// A request that is on its way from one place in the kernel to another is not found there (-ENOENT): it
// is looked for again as long as it does not end.
//
// Nothing is submitted while the list is walked: that may take answers, and elements out of the list.
void UringEngine::enter_cancels() noexcept {
    if (std::exchange(cancels_missed_, false)) {
        for (FileOperation* it = running_.front(); it != nullptr; it = it->engine.next) {
            if (it->engine.cancelled) {
                owe_cancel(*it);
            }
        }
    }
    while (cancels_due_ != 0) {
        for (FileOperation* it = running_.front();
             it != nullptr && cancels_due_ != 0 && ring_->room() != 0; it = it->engine.next) {
            if (std::exchange(it->engine.cancel_due, false)) {
                --cancels_due_;
                enter_cancel(*it);
            }
        }
        if (cancels_due_ == 0) {
            return;
        }
        push();
        if (ring_->room() == 0) {
            return;
        }
    }
}

void UringEngine::close_slot(unsigned slot) noexcept {
    if (!make_way(1)) {
        slots_to_close_.push(slot);
        return;
    }
    io_uring_sqe* request = ring_->next();
    io_uring_prep_close_direct(request, slot);
    request->user_data = std::uint64_t{slot} << part_bits | static_cast<std::uint64_t>(Part::slot);
    ++unanswered_;
}

void UringEngine::stop(FileOperation& operation) noexcept {
    FileOperation::EnginePart& mine = operation.engine;
    if (!mine.in_ring) {
        pool().cancel(operation);
        return;
    }
    if (operation.kind == Kind::close || std::exchange(mine.cancelled, true)) {
        return;
    }
    if (mine.place == Place::queued) {
        waiting_.remove(operation);
        mine.place = Place::completed;
        mine.result = -ECANCELED;
        done_.push_back(operation);
        event().signal();
    } else if (mine.place == Place::running) {
        owe_cancel(operation);
    }
}

/// The next `submit` enters it.
void UringEngine::owe_cancel(FileOperation& operation) noexcept {
    if (!std::exchange(operation.engine.cancel_due, true)) {
        ++cancels_due_;
    }
}

void UringEngine::stop_all() noexcept {
    pool().cancel_all();
    for (FileOperation *it = waiting_.front(), *next = nullptr; it != nullptr; it = next) {
        next = it->engine.next;
        stop(*it);
    }
    for (FileOperation* it = running_.front(); it != nullptr; it = it->engine.next) {
        stop(*it);
    }
}

// By user data, which is an address. Should the operation end before this request is submitted, and
// another one begin at its address, then that one's request stands behind this one in the queue.
void UringEngine::enter_cancel(FileOperation& operation) noexcept {
    io_uring_sqe* request = ring_->next();
    io_uring_prep_cancel64(
        request, reinterpret_cast<std::uintptr_t>(&operation) | operation.engine.awaited, 0);
    request->user_data = static_cast<std::uint64_t>(Part::cancelled);
    ++unanswered_;
}

void UringEngine::resume(FileOperation& operation) noexcept {
    if (operation.engine.in_ring) {
        enter_or_wait(operation);
    } else {
        PooledEngine::resume(operation);
    }
}

void UringEngine::let_go(FileOperation& operation) noexcept {
    if (operation.engine.slot >= 0) {
        close_slot(static_cast<unsigned>(std::exchange(operation.engine.slot, std::int16_t{-1})));
    }
    PooledEngine::let_go(operation);
}

FileOperation* UringEngine::pop_completed() noexcept {
    if (FileOperation* operation = done_.pop_front()) {
        return operation;
    }
    Uring::Answer answer{};
    while (ring_->take(answer)) {
        if (FileOperation* operation = take_answer(answer)) {
            return operation;
        }
    }
    return pool().pop_completed();
}

bool UringEngine::has_completed() noexcept {
    return !done_.empty() || ring_->has_answers() || stalled_ || pool().has_completed();
}

/// Returns the operation that this answer completes, or null.
FileOperation* UringEngine::take_answer(const Uring::Answer& answer) noexcept {
    --unanswered_;
    const auto part = static_cast<Part>(answer.user_data & part_mask);
    if (part == Part::cancelled) {
        cancels_missed_ = cancels_missed_ || answer.result == -ENOENT;
        return nullptr;
    }
    if (part == Part::slot) {
        free_slots_.push(static_cast<unsigned>(answer.user_data >> part_bits));
        return nullptr;
    }
    auto& operation =
        *std::bit_cast<FileOperation*>(static_cast<std::uintptr_t>(answer.user_data & ~part_mask));
    FileOperation::EnginePart& mine = operation.engine;
    if (part == Part::open) {
        mine.opened = answer.result;
    } else if (part == Part::tail) {
        mine.tail_count = answer.result;
    } else {
        mine.result = answer.result;
    }
    if (--mine.answers != 0) {
        const bool reads_next = part == Part::open && operation.transferred < operation.length;
        await(operation, reads_next ? Part::read : Part::tail);
        return nullptr;
    }
    running_.remove(operation);
    if (std::exchange(mine.cancel_due, false)) {
        --cancels_due_;
    }
    const bool done = operation.kind == Kind::read_file ? settle_read_file(operation)
                                                        : settle(operation, answer.result);
    if (!done) {
        return nullptr;
    }
    mine.place = Place::completed;
    return &operation;
}

/// Puts down the result of an operation's only request. False when it goes on.
bool UringEngine::settle(FileOperation& operation, std::int32_t result) noexcept {
    if (operation.kind == Kind::close && result == -EINTR) {
        operation.engine.result = 0; // the descriptor is gone (close(2), NOTES)
        return true;
    }
    if (operation.kind == Kind::open && did_not_wait(operation, result)) {
        // Open until the operation is over: somebody may already have opened the other end.
        operation.engine.open_fd = std::max(result, -1);
        if (operation.engine.cancelled) {
            operation.engine.result = -ECANCELED;
            return true;
        }
        operation.engine.patient = true;
        hand_to_pool(operation);
        return false;
    }
    if (result == -EAGAIN && is_transfer(operation.kind) && (operation.flags & RWF_NOWAIT) != 0) {
        return true;
    }
    if (result == -EOPNOTSUPP && is_write(operation.kind) && quiet_writes_) {
        // Of the operation's own flags it may be true as well: then a worker thread is told the same.
        quiet_writes_ = operation.flags != 0;
        hand_to_pool(operation);
        return false;
    }
    if (was_not_served(result) && (!operation.engine.cancelled || operation.kind == Kind::close)) {
        hand_to_pool(operation);
        return false;
    }
    return result < 0 || !is_transfer(operation.kind) || settle_transfer(operation, result);
}

bool UringEngine::settle_transfer(FileOperation& operation, std::int32_t result) noexcept {
    std::int64_t& outcome = operation.engine.result;
    const bool reads = operation.kind == Kind::read || operation.kind == Kind::readv;
    if (advance(operation, static_cast<std::uint32_t>(result)) || (result == 0 && reads)) {
        outcome = static_cast<std::int64_t>(operation.transferred);
    } else if (result == 0) {
        outcome = -EIO;
    } else if (operation.engine.cancelled) {
        outcome = -ECANCELED;
    } else {
        enter_or_wait(operation);
        return false;
    }
    return true;
}

bool UringEngine::settle_read_file(FileOperation& operation) noexcept {
    FileOperation::EnginePart& mine = operation.engine;
    if (mine.opened < 0) {
        // Nothing was opened, so there is nothing to close.
        free_slots_.push(static_cast<unsigned>(std::exchange(mine.slot, std::int16_t{-1})));
        mine.result = mine.opened;
        // -EINVAL and -ENFILE: a kernel, or a file system, that cannot open into a slot.
        const bool refused = mine.opened == -EINVAL || mine.opened == -ENFILE;
        if (!mine.cancelled && (refused || was_not_served(mine.opened))) {
            hand_to_pool(operation);
            return false;
        }
        return true;
    }
    if (mine.result < 0) {
        if (was_not_served(static_cast<std::int32_t>(mine.result)) && !mine.cancelled &&
            operation.transferred == 0 && mine.tail_count <= 0) {
            let_go(operation);
            hand_to_pool(operation);
            return false;
        }
        return true;
    }
    operation.transferred += static_cast<std::uint64_t>(mine.result);
    const bool tail_tells = mine.asks_tail && !was_not_served(mine.tail_count);
    if (tail_tells ? mine.tail_count <= 0 : !mine.asks_tail && mine.result == 0) {
        mine.result = mine.tail_count < 0 ? mine.tail_count
                                          : static_cast<std::int64_t>(operation.transferred);
        return true;
    }
    if (mine.cancelled) {
        mine.result = -ECANCELED;
        return true;
    }
    if (tail_tells && operation.transferred == operation.length) {
        mine.has_tail = true;
        mine.result = ask_for_room(operation, size_hint(operation));
        return true;
    }
    if (tail_tells) {
        static_cast<char*>(operation.buffer)[operation.transferred++] = mine.tail;
    }
    enter_or_wait(operation);
    return false;
}

void UringEngine::hand_to_pool(FileOperation& operation) noexcept {
    operation.engine.in_ring = false;
    pool().add(operation);
}

std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options) {
    return std::make_unique<UringEngine>(options);
}

} // namespace penstock::io
