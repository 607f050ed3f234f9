#include "io/files/uring_engine.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <unistd.h>

#include <penstock/io/files/open_from_cache.hpp>
#include <penstock/io/files/read_status.hpp>
#include <penstock/io/files/uring_compat.hpp>
#include <penstock/owned_descriptor.hpp>

#include "io/files/engine_making.hpp"
#include "io/files/file_call.hpp"
#include "io/files/uring_request.hpp"

namespace penstock::io {

namespace {

using Kind = FileOperation::Kind;
using Stage = FileOperation::EngineState::Stage;

/// The open, the read and the tail of a `read_file`. Linked requests must be in one submission.
constexpr unsigned read_file_requests = 3;

bool is_write(Kind kind) noexcept {
    return kind == Kind::write || kind == Kind::writev;
}

bool is_transfer(Kind kind) noexcept {
    return kind == Kind::read || kind == Kind::readv || kind == Kind::write || kind == Kind::writev;
}

/// Whether a request was not executed although it was not cancelled: a signal arrived, the kernel
/// lacked memory, or the thread that submitted it has ended. A worker thread then executes the
/// operation.
bool was_not_executed(std::int32_t result) noexcept {
    return result == -EINTR || result == -EAGAIN || result == -ECANCELED;
}

/// The size of the file that has just been opened under this path, or 0. A hint only: the path may
/// name another file by now. Does not block, because it sends no query to a server
/// (AT_STATX_DONT_SYNC).
std::uint64_t size_hint(const FileOperation& operation) noexcept {
    struct statx status{};
    const int found =
        read_status(operation.fd, operation.path, AT_STATX_DONT_SYNC, STATX_SIZE, status);
    return found == 0 ? status.stx_size : 0;
}

/// Whether an open should have waited for a FIFO's other end. The kernel first tries an open with
/// O_NONBLOCK, which for a FIFO changes the result: reading opens without a writer, writing fails
/// without a reader.
bool did_not_wait(const FileOperation& operation, std::int32_t result) noexcept {
    if (operation.may_block_indefinitely || operation.engine.may_block_indefinitely ||
        (operation.flags & (O_NONBLOCK | O_PATH)) != 0) {
        return false;
    }
    const bool reads = (operation.flags & O_ACCMODE) == O_RDONLY;
    return result == -ENXIO || (result >= 0 && reads && file_type(result) == S_IFIFO);
}

/// What is known about a path without waiting for a device.
enum class Look : std::uint8_t { waits, does_not_wait, unknown };

/// Whether opening the path may wait for another process: it is a FIFO or a device.
Look look_at(const FileOperation& operation) noexcept {
    const int follow = operation.flags & O_NOFOLLOW;
    const OwnedDescriptor found(
        open_from_cache(operation.path, O_PATH | O_CLOEXEC | follow, operation.fd));
    if (found.get() < 0) {
        return found.get() == -EAGAIN ? Look::unknown : Look::does_not_wait;
    }
    const int type = file_type(found.get());
    if (type < 0) {
        return Look::unknown;
    }
    return S_ISFIFO(type) || S_ISCHR(type) ? Look::waits : Look::does_not_wait;
}

/// Whether the kernel opens on a thread of its own, which a FIFO or a device would hold. It tries
/// other opens with O_NONBLOCK first (see `did_not_wait`).
bool opens_on_a_thread(const FileOperation& operation) noexcept {
    constexpr int slow = O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY);
    return operation.kind == Kind::open && (operation.flags & slow) != 0 &&
           (operation.flags & (O_NONBLOCK | O_EXCL)) == 0;
}

} // namespace

UringEngine::UringEngine(const FileEngineOptions& options, RingKernel& kernel)
    : PooledEngine(options), ring_(std::make_unique<Uring>(options, descriptor(), kernel)),
      max_transfer_(options.max_transfer), nosignal_writes_(kernel.may_support_nosignal()) {
    for (unsigned slot = 0; slot < ring_->fixed_files(); ++slot) {
        free_slots_.push(slot);
    }
}

UringEngine::~UringEngine() {
    close();
}

void UringEngine::release() noexcept {
    ring_.reset(); // also closes the fixed files
    PooledEngine::release();
}

void UringEngine::abandon() noexcept {
    ring_->abandon();
    ring_.reset();
    PooledEngine::abandon();
}

bool UringEngine::ring_supports(const FileOperation& operation) const noexcept {
    if (refusal_ != 0 || operation.may_block_indefinitely || operation.kind == Kind::splice) {
        return false;
    }
    if (operation.kind == Kind::read_file) {
        return !free_slots_.empty() && ring_->supports(IORING_OP_OPENAT) &&
               ring_->supports(IORING_OP_CLOSE) && look_at(operation) != Look::waits;
    }
    // The kernel writes on the submitting thread, while it submits or later when a pipe gets room,
    // and raises SIGPIPE there. Worker threads block the signal.
    if (is_write(operation.kind) && !nosignal_writes_ && is_stream(operation.fd)) {
        return false;
    }
    return ring_->supports(opcode_of(operation)) &&
           (!opens_on_a_thread(operation) || look_at(operation) == Look::does_not_wait);
}

void UringEngine::add(FileOperation& operation) noexcept {
    if (is_stream_transfer(operation)) {
        workers().add_transfer(operation);
    } else if (ring_supports(operation)) {
        prepare_or_queue(operation);
    } else {
        workers().add(operation);
    }
}

void UringEngine::prepare_or_queue(FileOperation& operation) noexcept {
    if (refusal_ != 0) {
        pass_to_workers(operation);
        return;
    }
    operation.engine.in_ring = true;
    if (!waiting_.empty() || !prepare(operation)) {
        queue(operation);
    }
}

/// Keeps an operation that `prepare` had no room for.
void UringEngine::queue(FileOperation& operation) noexcept {
    if (refusal_ != 0) { // found when room was made
        pass_to_workers(operation);
        return;
    }
    operation.engine.stage = Stage::queued;
    waiting_.push_back(operation);
}

/// Prepares the requests of an operation. False if there is no room for them now.
bool UringEngine::prepare(FileOperation& operation) noexcept {
    const bool new_file = operation.kind == Kind::read_file && operation.engine.slot < 0;
    if (!reserve(new_file ? read_file_requests : 1)) {
        return false;
    }
    if (new_file && free_slots_.empty()) {
        move_to_workers(operation);
        return true;
    }
    if (operation.kind == Kind::read_file) {
        prepare_read_file(operation);
    } else {
        io_uring_sqe* request = ring_->next();
        describe(*request, operation, max_transfer_);
        if (is_write(operation.kind) && nosignal_writes_) {
            request->rw_flags |= uring::rwf_nosignal;
        }
        tag(request, operation, Part::all);
        expect_next(operation, Part::all);
    }
    operation.engine.stage = Stage::running;
    running_.push_back(operation);
    return true;
}

// The byte that is read beyond the buffer's end is stored apart, so that no byte of a pipe is lost.
// The links are hard: a short read breaks a soft link, and the tail, which shows the end of the
// file, would then not be read.
void UringEngine::prepare_read_file(FileOperation& operation) noexcept {
    FileOperation::EngineState& state = operation.engine;
    const bool opens = state.slot < 0;
    const unsigned elsewhere = opens_on_server(operation) ? IOSQE_ASYNC : 0U;
    if (opens) {
        state.slot = static_cast<std::int16_t>(free_slots_.pop());
        // exec(2) does not pass fixed files on, and the kernel refuses O_CLOEXEC for them.
        io_uring_sqe* open = ring_->next();
        io_uring_prep_openat_direct(open, operation.fd, operation.path,
                                    operation.flags & ~O_CLOEXEC, 0,
                                    static_cast<unsigned>(state.slot));
        open->flags |= IOSQE_IO_LINK | elsewhere;
        tag(open, operation, Part::open);
        expect_next(operation, Part::open);
    } else {
        expect_next(operation, operation.transferred < operation.length ? Part::read : Part::tail);
    }
    // The first read is small enough to run during the submission: the file may be small even if
    // the buffer is large.
    const std::uint64_t limit =
        opens ? std::min<std::uint64_t>(max_transfer_, inline_limit) : max_transfer_;
    const auto size =
        static_cast<unsigned>(std::min(operation.length - operation.transferred, limit));
    const auto here = static_cast<std::uint64_t>(FileOperation::current_position);
    state.result = 0;
    state.tail_result = 0;
    state.tail_requested = opens || size == 0;
    if (size != 0) {
        io_uring_sqe* read = ring_->next();
        io_uring_prep_read(read, state.slot,
                           static_cast<char*>(operation.buffer) + operation.transferred, size,
                           here);
        read->flags |= IOSQE_FIXED_FILE | (opens ? IOSQE_IO_HARDLINK : 0U) |
                       (size > inline_limit ? IOSQE_ASYNC : elsewhere);
        tag(read, operation, Part::read);
    }
    if (state.tail_requested) {
        io_uring_sqe* tail = ring_->next();
        io_uring_prep_read(tail, state.slot, &state.tail, 1, here);
        tail->flags |= IOSQE_FIXED_FILE | elsewhere;
        tag(tail, operation, Part::tail);
    }
}

void UringEngine::tag(io_uring_sqe* request, FileOperation& operation, Part part) noexcept {
    request->user_data =
        reinterpret_cast<std::uintptr_t>(&operation) | static_cast<std::uint64_t>(part);
    ++operation.engine.completions_due;
    ++requests_in_flight_;
}

/// Notes the part that completes next: a cancellation must name this part. The parts of a chain
/// with hard links run one after the other even if one of them is cancelled.
void UringEngine::expect_next(FileOperation& operation, Part part) noexcept {
    operation.engine.awaited_part = static_cast<std::uint8_t>(part);
    if (operation.engine.cancelled) {
        schedule_cancel(operation);
    }
}

/// Makes room for `requests` requests. False if the submission queue has no room for them, or the
/// completion queue none for their completions. A quarter of the completion queue is reserved for
/// cancellations: operations that never end must not block them.
bool UringEngine::reserve(unsigned requests) noexcept {
    if (refusal_ != 0 ||
        requests_in_flight_ + requests > ring_->capacity() - ring_->capacity() / 4) {
        return false;
    }
    if (ring_->room() < requests) {
        submit_prepared();
    }
    return refusal_ == 0 && ring_->room() >= requests;
}

// The kernel may refuse more until completions are taken, and handling a completion may prepare
// more requests: hence the guard against recursion.
void UringEngine::submit_prepared() noexcept {
    if (submitting_ || refusal_ != 0) {
        return;
    }
    submitting_ = true;
    constexpr int attempts = 3;
    for (int attempt = 0; attempt < attempts; ++attempt) {
        const int error = ring_->submit();
        stalled_ = error != 0;
        if (Uring::is_final(error)) {
            leave_ring(-error);
        }
        if (!stalled_) {
            break;
        }
        Uring::Completion completion{};
        while (ring_->pop(completion)) {
            if (FileOperation* operation = handle_completion(completion)) {
                done_.push_back(*operation);
            }
        }
    }
    submitting_ = false;
}

/// The kernel takes no more requests. What it has not taken goes to the workers, exactly once: an
/// operation with several requests when those that the kernel has taken have completed.
void UringEngine::leave_ring(int error) noexcept {
    refusal_ = error;
    stalled_ = false;
    std::uint64_t user_data = 0;
    while (ring_->take_back(user_data)) {
        take_back(user_data);
    }
    while (FileOperation* operation = waiting_.pop_front()) {
        pass_to_workers(*operation);
    }
    for (FileOperation* it = running_.front(); it != nullptr; it = OperationList::after(*it)) {
        it->engine.cancel_pending = false;
    }
    cancels_pending_ = 0;
}

/// A request that the kernel has not taken.
void UringEngine::take_back(std::uint64_t user_data) noexcept {
    const auto part = static_cast<Part>(user_data & part_mask);
    if (part == Part::cancel || part == Part::slot) {
        --requests_in_flight_; // the end of the ring closes the slot
        return;
    }
    // A request that was not executed: see `was_not_executed`.
    const Uring::Completion completion{.user_data = user_data, .result = -ECANCELED};
    if (FileOperation* operation = handle_completion(completion)) {
        done_.push_back(*operation);
        event().signal();
    }
}

/// Lets worker threads do the rest of an operation, from the beginning if only the ring can go on.
void UringEngine::pass_to_workers(FileOperation& operation) noexcept {
    FileOperation::EngineState& state = operation.engine;
    if (state.cancelled && operation.kind != Kind::close) {
        state.stage = Stage::completed;
        state.result = -ECANCELED;
        done_.push_back(operation);
        event().signal();
        return;
    }
    if (operation.kind == Kind::read_file && state.slot >= 0) {
        state.slot = -1; // the end of the ring closes it
        state.tail_read = false;
        operation.transferred = 0;
    }
    move_to_workers(operation);
}

void UringEngine::submit() noexcept {
    prepare_pending();
    submit_prepared();
    workers().flush();
}

void UringEngine::prepare_pending() noexcept {
    if (refusal_ != 0) {
        return;
    }
    while (!slots_to_close_.empty() && reserve(1)) {
        close_slot(slots_to_close_.pop());
    }
    prepare_cancels();
    while (FileOperation* operation = waiting_.pop_front()) {
        if (!prepare(*operation)) {
            if (refusal_ != 0) {
                pass_to_workers(*operation);
            } else {
                waiting_.push_front(*operation);
            }
            break;
        }
    }
}

// A request that is moving between two queues of the kernel is not found by a cancellation
// (-ENOENT). The cancellation is then repeated until the request ends.
//
// Nothing is submitted during a walk over the list: that may take completions, and elements off the
// list.
void UringEngine::prepare_cancels() noexcept {
    if (std::exchange(cancels_missed_, false)) {
        for (FileOperation* it = running_.front(); it != nullptr; it = OperationList::after(*it)) {
            if (it->engine.cancelled) {
                schedule_cancel(*it);
            }
        }
    }
    while (cancels_pending_ != 0) {
        for (FileOperation* it = running_.front();
             it != nullptr && cancels_pending_ != 0 && ring_->room() != 0;
             it = OperationList::after(*it)) {
            if (std::exchange(it->engine.cancel_pending, false)) {
                --cancels_pending_;
                prepare_cancel(*it);
            }
        }
        if (cancels_pending_ == 0) {
            return;
        }
        submit_prepared();
        if (ring_->room() == 0 || refusal_ != 0) {
            return;
        }
    }
}

void UringEngine::close_slot(unsigned slot) noexcept {
    if (refusal_ != 0) {
        return; // the end of the ring closes it
    }
    if (!reserve(1)) {
        slots_to_close_.push(slot);
        return;
    }
    io_uring_sqe* request = ring_->next();
    io_uring_prep_close_direct(request, slot);
    request->user_data = std::uint64_t{slot} << part_bits | static_cast<std::uint64_t>(Part::slot);
    ++requests_in_flight_;
}

void UringEngine::request_cancel(FileOperation& operation) noexcept {
    FileOperation::EngineState& state = operation.engine;
    if (!state.in_ring) {
        workers().cancel(operation);
        return;
    }
    if (operation.kind == Kind::close || std::exchange(state.cancelled, true)) {
        return;
    }
    if (state.stage == Stage::queued) {
        waiting_.remove(operation);
        state.stage = Stage::completed;
        state.result = -ECANCELED;
        done_.push_back(operation);
        event().signal();
    } else if (state.stage == Stage::running) {
        schedule_cancel(operation);
    }
}

bool UringEngine::request_withdrawal(FileOperation& operation) noexcept {
    if (!operation.engine.in_ring) {
        return workers().withdraw(operation);
    }
    if (operation.kind == Kind::close || operation.engine.stage != Stage::queued ||
        operation.transferred != 0) {
        return false;
    }
    request_cancel(operation);
    return true;
}

/// The next `submit` prepares the cancellation.
void UringEngine::schedule_cancel(FileOperation& operation) noexcept {
    if (refusal_ != 0) {
        return; // what the kernel has ends by itself
    }
    if (!std::exchange(operation.engine.cancel_pending, true)) {
        ++cancels_pending_;
    }
}

void UringEngine::request_cancel_all() noexcept {
    workers().cancel_all();
    for (FileOperation *it = waiting_.front(), *next = nullptr; it != nullptr; it = next) {
        next = OperationList::after(*it);
        request_cancel(*it);
    }
    for (FileOperation* it = running_.front(); it != nullptr; it = OperationList::after(*it)) {
        request_cancel(*it);
    }
    if (refusal_ != 0 && !running_.empty()) {
        ring_->cancel_all();
    }
}

// Names the request by its user data, which is an address. If the operation ends before this is
// submitted, and another one starts at the same address, the new request is behind this one in the
// queue and is not found.
void UringEngine::prepare_cancel(FileOperation& operation) noexcept {
    io_uring_sqe* request = ring_->next();
    io_uring_prep_cancel64(
        request, reinterpret_cast<std::uintptr_t>(&operation) | operation.engine.awaited_part, 0);
    request->user_data = static_cast<std::uint64_t>(Part::cancel);
    ++requests_in_flight_;
}

void UringEngine::resume(FileOperation& operation) noexcept {
    if (operation.engine.in_ring) {
        prepare_or_queue(operation);
    } else {
        PooledEngine::resume(operation);
    }
}

void UringEngine::close_opened_file(FileOperation& operation) noexcept {
    if (operation.engine.slot >= 0) {
        close_slot(static_cast<unsigned>(std::exchange(operation.engine.slot, std::int16_t{-1})));
    }
    PooledEngine::close_opened_file(operation);
}

FileOperation* UringEngine::pop_completed() noexcept {
    if (FileOperation* operation = done_.pop_front()) {
        return operation;
    }
    Uring::Completion completion{};
    while (ring_->pop(completion)) {
        if (FileOperation* operation = handle_completion(completion)) {
            return operation;
        }
    }
    return workers().pop_completed();
}

bool UringEngine::has_completed() noexcept {
    return !done_.empty() || ring_->has_completions() || stalled_ || workers().has_completed();
}

/// Returns the operation that this completes, or null.
FileOperation* UringEngine::handle_completion(const Uring::Completion& completion) noexcept {
    --requests_in_flight_;
    const auto part = static_cast<Part>(completion.user_data & part_mask);
    if (part == Part::cancel) {
        cancels_missed_ = cancels_missed_ || completion.result == -ENOENT;
        return nullptr;
    }
    if (part == Part::slot) {
        free_slots_.push(static_cast<unsigned>(completion.user_data >> part_bits));
        return nullptr;
    }
    auto& operation = *std::bit_cast<FileOperation*>(
        static_cast<std::uintptr_t>(completion.user_data & ~part_mask));
    FileOperation::EngineState& state = operation.engine;
    if (part == Part::open) {
        state.open_result = completion.result;
    } else if (part == Part::tail) {
        state.tail_result = completion.result;
    } else {
        state.result = completion.result;
    }
    if (--state.completions_due != 0) {
        const bool reads_next = part == Part::open && operation.transferred < operation.length;
        expect_next(operation, reads_next ? Part::read : Part::tail);
        return nullptr;
    }
    running_.remove(operation);
    if (std::exchange(state.cancel_pending, false)) {
        --cancels_pending_;
    }
    const bool done = operation.kind == Kind::read_file
                          ? handle_read_file_results(operation)
                          : handle_result(operation, completion.result);
    if (!done) {
        return nullptr;
    }
    state.stage = Stage::completed;
    return &operation;
}

/// Stores the result of an operation's only request. False if the operation is not complete.
bool UringEngine::handle_result(FileOperation& operation, std::int32_t result) noexcept {
    if (operation.kind == Kind::close && result == -EINTR) {
        operation.engine.result = 0; // the descriptor is closed (close(2), NOTES)
        return true;
    }
    if (operation.kind == Kind::open && did_not_wait(operation, result)) {
        // Stays open until the operation ends: another process may already have opened the other
        // end.
        operation.engine.open_fd = std::max(result, -1);
        if (operation.engine.cancelled) {
            operation.engine.result = -ECANCELED;
            return true;
        }
        operation.engine.may_block_indefinitely = true;
        move_to_workers(operation);
        return false;
    }
    if (result == -EAGAIN && is_transfer(operation.kind) && (operation.flags & RWF_NOWAIT) != 0) {
        return true;
    }
    if (result == -EOPNOTSUPP && is_write(operation.kind) && nosignal_writes_) {
        // The operation's own flags may be the cause; a worker thread then gets the same error.
        nosignal_writes_ = operation.flags != 0;
        move_to_workers(operation);
        return false;
    }
    if (was_not_executed(result) &&
        (!operation.engine.cancelled || operation.kind == Kind::close)) {
        move_to_workers(operation);
        return false;
    }
    return result < 0 || !is_transfer(operation.kind) || handle_transfer_result(operation, result);
}

bool UringEngine::handle_transfer_result(FileOperation& operation, std::int32_t result) noexcept {
    std::int64_t& outcome = operation.engine.result;
    const bool reads = operation.kind == Kind::read || operation.kind == Kind::readv;
    if (advance(operation, static_cast<std::uint32_t>(result)) || (result == 0 && reads)) {
        outcome = static_cast<std::int64_t>(operation.transferred);
    } else if (result == 0) {
        outcome = -EIO;
    } else if (operation.engine.cancelled) {
        outcome = -ECANCELED;
    } else {
        prepare_or_queue(operation);
        return false;
    }
    return true;
}

bool UringEngine::handle_read_file_results(FileOperation& operation) noexcept {
    FileOperation::EngineState& state = operation.engine;
    if (state.open_result < 0) {
        free_slots_.push(static_cast<unsigned>(std::exchange(state.slot, std::int16_t{-1})));
        state.result = state.open_result;
        // -EINVAL and -ENFILE: a kernel or a file system that cannot open into a slot.
        const bool refused = state.open_result == -EINVAL || state.open_result == -ENFILE;
        if (!state.cancelled && (refused || was_not_executed(state.open_result))) {
            move_to_workers(operation);
            return false;
        }
        return true;
    }
    if (state.result < 0) {
        const bool repeats =
            was_not_executed(static_cast<std::int32_t>(state.result)) && !state.cancelled;
        if (repeats && refusal_ != 0) {
            pass_to_workers(operation); // the slot with the file cannot be used any more
            return false;
        }
        if (repeats && operation.transferred == 0 && state.tail_result <= 0) {
            close_opened_file(operation);
            move_to_workers(operation);
            return false;
        }
        return true;
    }
    operation.transferred += static_cast<std::uint64_t>(state.result);
    const bool tail_known = state.tail_requested && !was_not_executed(state.tail_result);
    if (tail_known ? state.tail_result <= 0 : !state.tail_requested && state.result == 0) {
        state.result = state.tail_result < 0 ? state.tail_result
                                             : static_cast<std::int64_t>(operation.transferred);
        return true;
    }
    if (state.cancelled) {
        state.result = -ECANCELED;
        return true;
    }
    if (tail_known && operation.transferred == operation.length) {
        state.tail_read = true;
        state.result = request_capacity(operation, size_hint(operation));
        return true;
    }
    if (tail_known) {
        static_cast<char*>(operation.buffer)[operation.transferred++] = state.tail;
    }
    prepare_or_queue(operation);
    return false;
}

void UringEngine::move_to_workers(FileOperation& operation) noexcept {
    operation.engine.in_ring = false;
    workers().add(operation);
}

std::unique_ptr<FileEngine> make_uring_engine(const FileEngineOptions& options,
                                              RingKernel& kernel) {
    return std::make_unique<UringEngine>(options, kernel);
}

} // namespace penstock::io
