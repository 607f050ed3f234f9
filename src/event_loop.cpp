#include <penstock/event_loop.hpp>

#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include <penstock/io/files/choose_file_engine.hpp>
#include <penstock/task/run.hpp>

namespace penstock {

namespace {

constinit thread_local EventLoop* current_loop = nullptr;

} // namespace

namespace detail {

CurrentLoopGuard::CurrentLoopGuard(EventLoop& loop) : before_(current_loop) {
    if (current_loop != nullptr && !current_loop->poller().is_parents()) {
        throw std::logic_error("this thread already runs an event loop: co_await the task "
                               "instead of running it");
    }
    current_loop = &loop;
}

CurrentLoopGuard::~CurrentLoopGuard() {
    current_loop = before_;
}

} // namespace detail

/// Puts the work that is ready into a random order.
class EventLoop::Shuffle {
public:
    explicit Shuffle(std::uint64_t seed) : random_(seed) {}

    void operator()(io::WorkQueue& ready) {
        order_.clear();
        while (io::Work* work = ready.pop_front()) {
            order_.push_back(work);
        }
        std::ranges::shuffle(order_, random_);
        for (io::Work* work : order_) {
            ready.push_back(*work);
        }
    }

private:
    std::mt19937_64 random_;
    std::vector<io::Work*> order_;
};

EventLoop::EventLoop(const Options& options) {
    if (options.shuffle_seed) {
        shuffle_ = std::make_unique<Shuffle>(*options.shuffle_seed);
    }
}

EventLoop::~EventLoop() {
    while (posters_.load(std::memory_order_acquire) != 0) {
        std::this_thread::yield();
    }
    while (detail::LoopMember* member = members_.front()) {
        member->leave(*member);
    }
    if (files_) {
        base_.detach_files();
    }
    io::IntrusiveQueue<PostedFunction, &PostedFunction::next> functions;
    posted_.move_to(functions);
    while (PostedFunction* function = functions.pop_front()) {
        delete function;
    }
}

EventLoop* EventLoop::current_or_null() noexcept {
    return current_loop;
}

EventLoop& EventLoop::current() {
    if (current_loop == nullptr) {
        throw std::logic_error("this thread runs no event loop: call this from a task, which "
                               "penstock::run starts");
    }
    return *current_loop;
}

io::FileEngine& EventLoop::files() {
    if (!files_) {
        std::unique_ptr<io::FileEngine> engine = io::choose_file_engine().engine;
        if (const std::error_code error = base_.attach(*engine)) {
            throw std::system_error(error, "attaching the file engine");
        }
        files_ = std::move(engine);
    }
    return *files_;
}

void EventLoop::post(io::Work& work) noexcept {
    posters_.fetch_add(1, std::memory_order_relaxed);
    base_.post(work);
    posters_.fetch_sub(1, std::memory_order_release);
}

void EventLoop::push(PostedFunction& function) noexcept {
    posters_.fetch_add(1, std::memory_order_relaxed);
    posted_.push(function);
    base_.wakeup().notify();
    posters_.fetch_sub(1, std::memory_order_release);
}

void EventLoop::run_posted() noexcept {
    io::IntrusiveQueue<PostedFunction, &PostedFunction::next> functions;
    posted_.move_to(functions);
    while (PostedFunction* function = functions.pop_front()) {
        function->call();
        delete function;
    }
}

void EventLoop::run_until(const bool& done) {
    base_.poll_eagerly();
    while (!done) {
        // Functions posted by these run in the next iteration, so endless posting does not starve
        // the rest of this one.
        if (!posted_.empty()) {
            run_posted();
            if (done) {
                return;
            }
        }
        const std::int64_t limit = base_.prepare();
        if (shuffle_) {
            (*shuffle_)(base_.ready());
        }
        base_.block(limit);
        base_.dispatch();
    }
}

} // namespace penstock
