// The load of the uvloop_bench page: workers, each a process with one blocking connection.
//
// It has the structure of the client of uvloop's benchmark, but in C++, so that the clients, which
// share a core here, are not the bottleneck. Takes the options of echo_client, where --connections
// is the number of workers, and prints the same JSON line; its client CPU time is the sum of the
// workers'.

#include "clocks.hpp"
#include "echo_load.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <new>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

namespace {

using bench::checked;
using bench::Nanoseconds;
using bench::now;
using bench::restarted;

constexpr timeval kPatience = {.tv_sec = 5, .tv_usec = 0};
constexpr timespec kPollEvery = {.tv_sec = 0, .tv_nsec = 500'000};

enum class Phase : int { warm_up, timed, over };

struct Worker {
    std::atomic<std::uint64_t> replies{0};
    bench::Histogram latency; // of the timed region; read after the worker has ended
};

// Shared by parent and workers, in memory that fork(2) does not copy.
struct Board {
    std::atomic<Phase> phase{Phase::warm_up};
};

template <typename Thing> Thing* shared_array(std::size_t count) {
    void* memory = mmap(nullptr, count * sizeof(Thing), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "mmap");
    }
    auto* things = static_cast<Thing*>(memory);
    for (std::size_t i = 0; i < count; ++i) {
        new (things + i) Thing();
    }
    return things;
}

[[noreturn]] void fail(std::uint32_t number, std::uint64_t counter, const char* what) {
    throw std::runtime_error("worker " + std::to_string(number) + ", message " +
                             std::to_string(counter) + ": " + what);
}

void send_all(int fd, std::string_view message) {
    while (!message.empty()) {
        const ssize_t count = restarted(
            [&] { return send(fd, message.data(), message.size(), MSG_NOSIGNAL); }, "send");
        message.remove_prefix(static_cast<std::size_t>(count));
    }
}

void work(const bench::EchoOptions& options, std::uint32_t number, const Board& board,
          Worker& self) {
    const int fd = bench::connect_to(options.address);
    for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
        checked(setsockopt(fd, SOL_SOCKET, option, &kPatience, sizeof kPatience), "setsockopt");
    }
    const bench::EchoText text(options.size);
    bench::EchoConversation conversation(text, number);
    std::vector<char> buffer(bench::kReceiveBuffer);
    Nanoseconds started = now(CLOCK_MONOTONIC);
    for (std::uint64_t counter = 1; board.phase != Phase::over; ++counter) {
        const std::string_view message = conversation.start(counter);
        send_all(fd, message);
        bench::Verdict verdict = bench::Verdict::more;
        while (verdict == bench::Verdict::more) {
            const ssize_t count =
                restarted([&] { return recv(fd, buffer.data(), buffer.size(), 0); }, "recv");
            if (count == 0) {
                fail(number, counter, "the server closed the connection");
            }
            verdict =
                conversation.take(buffer.data(), static_cast<std::size_t>(count), message.size());
        }
        if (verdict != bench::Verdict::complete) {
            fail(number, counter, bench::complaint(verdict));
        }
        const Nanoseconds time = now(CLOCK_MONOTONIC);
        if (board.phase == Phase::timed) {
            self.latency.add(time - started);
        }
        started = time;
        self.replies.fetch_add(1, std::memory_order_relaxed);
    }
    close(fd);
}

class Workers {
public:
    explicit Workers(const bench::EchoOptions& options)
        : count_(options.connections), board_(shared_array<Board>(1)),
          workers_(shared_array<Worker>(count_)) {
        for (std::uint32_t number = 0; number < count_; ++number) {
            start(options, number);
        }
    }

    void enter(Phase phase) { board_->phase = phase; }

    [[nodiscard]] std::uint64_t replies() const {
        std::uint64_t sum = 0;
        for (std::size_t i = 0; i < count_; ++i) {
            sum += workers_[i].replies;
        }
        return sum;
    }

    [[nodiscard]] Nanoseconds cpu() const {
        Nanoseconds sum = 0;
        for (const pid_t pid : pids_) {
            clockid_t clock{};
            if (clock_getcpuclockid(pid, &clock) == 0) {
                sum += now(clock);
            }
        }
        return sum;
    }

    // Throws if a worker has ended early; the worker itself reports the reason.
    void check() const {
        siginfo_t info{};
        checked(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT), "waitid");
        if (info.si_pid != 0) {
            throw std::runtime_error("a worker gave up");
        }
    }

    [[nodiscard]] bench::Histogram join() {
        enter(Phase::over);
        bench::Histogram latency;
        bool failed = false;
        for (std::size_t i = 0; i < count_; ++i) {
            int status = 0;
            checked(waitpid(pids_[i], &status, 0), "waitpid");
            failed = failed || status != 0;
            latency.add(workers_[i].latency);
        }
        if (failed) {
            throw std::runtime_error("a worker gave up");
        }
        return latency;
    }

private:
    void start(const bench::EchoOptions& options, std::uint32_t number) {
        const pid_t pid = checked(fork(), "fork");
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(bench::run_load("echo_workers",
                                  [&] { work(options, number, *board_, workers_[number]); }));
        }
        pids_.push_back(pid);
    }

    std::size_t count_;
    Board* board_;
    Worker* workers_;
    std::vector<pid_t> pids_;
};

void run(const bench::EchoOptions& options) {
    Workers workers(options);
    const auto sleep_until = [&](Nanoseconds end) {
        while (now(CLOCK_MONOTONIC) < end) {
            nanosleep(&kPollEvery, nullptr);
            workers.check();
        }
    };
    bench::TimedRegion region(options.server_pid);
    sleep_until(now(CLOCK_MONOTONIC) + bench::to_ns(options.warmup));
    workers.enter(Phase::timed);
    const Nanoseconds cpu = workers.cpu();
    const std::uint64_t before = workers.replies();
    region.begin();
    if (options.requests == 0) {
        sleep_until(region.begun + bench::to_ns(options.seconds));
    }
    // At least one, even if the server was held up for the whole region.
    while (workers.replies() - before < std::max<std::uint64_t>(options.requests, 1)) {
        sleep_until(now(CLOCK_MONOTONIC) + kPollEvery.tv_nsec);
    }
    const std::uint64_t requests = workers.replies() - before;
    region.end();
    region.client_cpu = workers.cpu() - cpu;
    const bench::Histogram latency = workers.join();
    bench::print_figures(requests, workers.replies(), region, latency);
}

} // namespace

int main(int argc, char** argv) {
    return bench::run_load("echo_workers",
                           [&] { run(bench::parse_options<bench::EchoOptions>(argc, argv)); });
}
