#include <penstock/bridge/run_on.hpp>

#include <stdexcept>
#include <thread>

namespace penstock::detail {

struct LoopGroup::Loop {
    EventLoop loop;
    Canceller canceller;
    std::thread thread;
};

LoopGroup::LoopGroup(std::size_t loops) {
    if (loops == 0) {
        throw std::invalid_argument("a server needs at least one loop");
    }
    if (EventLoop::current_or_null() != nullptr) {
        throw std::logic_error("this thread already runs an event loop: call run_on from main");
    }
    for (std::size_t i = 0; i < loops; ++i) {
        loops_.push_back(std::make_unique<Loop>());
    }
}

LoopGroup::~LoopGroup() = default;

void LoopGroup::cancel_all() noexcept {
    for (const std::unique_ptr<Loop>& each : loops_) {
        each->loop.post([each = each.get()] { each->canceller.cancel(); });
    }
}

void LoopGroup::run_one(std::size_t index, const Member& member) noexcept {
    std::error_code error;
    std::exception_ptr exception;
    try {
        error = member(index, loops_[index]->loop, loops_[index]->canceller);
    } catch (...) {
        exception = std::current_exception();
    }
    if (!error && !exception) {
        return;
    }
    {
        const std::lock_guard guard(lock_);
        if (error_ || exception_) {
            return;
        }
        error_ = error;
        exception_ = exception;
    }
    cancel_all();
}

Result<> LoopGroup::run(const Member& member) {
    const std::size_t last = loops_.size() - 1;
    std::exception_ptr refused;
    try {
        for (std::size_t i = 0; i < last; ++i) {
            loops_[i]->thread = std::thread([this, i, &member] { run_one(i, member); });
        }
    } catch (const std::system_error&) { // no more threads
        refused = std::current_exception();
        cancel_all();
    }
    if (!refused) {
        run_one(last, member);
    }
    for (const std::unique_ptr<Loop>& each : loops_) {
        if (each->thread.joinable()) {
            each->thread.join();
        }
    }
    if (refused) {
        std::rethrow_exception(refused);
    }
    if (exception_) {
        std::rethrow_exception(exception_);
    }
    if (error_) {
        return failure(error_);
    }
    return {};
}

} // namespace penstock::detail
