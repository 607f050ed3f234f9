#include <penstock/task/task_trace.hpp>

#include <csignal>
#include <cstdio>
#include <map>
#include <new>
#include <string_view>
#include <vector>

#include <penstock/detail/task/promise_base.hpp>
#include <penstock/task/task_context.hpp>

namespace penstock {

namespace {

class Trace {
public:
    explicit Trace(const EventLoop& loop) {
        using Tasks = io::IntrusiveList<TaskContext>;
        for (const TaskContext* task = loop.tasks().front(); task != nullptr;
             task = Tasks::after(*task)) {
            children_[task->parent()].push_back(task);
        }
        write_children(nullptr, 0);
    }

    [[nodiscard]] const std::string& text() const noexcept { return text_; }

private:
    void write_children(const TaskContext* parent, std::size_t depth) {
        for (const TaskContext* task : children_[parent]) {
            write(*task, depth);
            write_children(task, depth + 1);
        }
    }

    void write(const TaskContext& task, std::size_t depth) {
        const std::string margin(2 * depth, ' ');
        text_ += margin + "task " + std::to_string(++number_) +
                 (task.waiting() == nullptr ? " runs" : " waits") +
                 (task.cancelled() ? ", cancelled\n" : "\n");
        if (task.waiting() == nullptr) {
            return;
        }
        for (const detail::PromiseBase* coroutine = task.waiting()->promise(); coroutine != nullptr;
             coroutine = coroutine->caller()) {
            text_ += margin + "    at " + coroutine->where().function_name() + " (" +
                     std::string(name_of(coroutine->where().file_name())) + ":" +
                     std::to_string(coroutine->where().line()) + ")\n";
        }
    }

    static std::string_view name_of(std::string_view path) noexcept {
        return path.substr(path.rfind('/') + 1);
    }

    std::map<const TaskContext*, std::vector<const TaskContext*>> children_;
    std::string text_;
    int number_ = 0;
};

} // namespace

std::string trace_tasks(const EventLoop& loop) {
    return Trace(loop).text();
}

TraceOnSignal::TraceOnSignal() : TraceOnSignal(SIGQUIT) {}

TraceOnSignal::TraceOnSignal(int signal_number)
    : SignalPipe(EventLoop::current().poller(), &print), loop_(EventLoop::current()) {
    if (const std::error_code error = subscribe(signal_number)) {
        throw std::system_error(error, "a task trace on signal " + std::to_string(signal_number));
    }
}

void TraceOnSignal::print(io::SignalPipe& pipe, int /*signal_number*/) {
    std::string text;
    try {
        text = trace_tasks(static_cast<TraceOnSignal&>(pipe).loop_);
    } catch (const std::bad_alloc&) { // which must not end the traced tasks
        (void)std::fputs("no memory for a trace of the tasks\n", stderr);
    }
    (void)std::fwrite(text.data(), 1, text.size(), stderr);
}

} // namespace penstock
