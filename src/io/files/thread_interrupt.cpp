#include "io/files/thread_interrupt.hpp"

#include <csignal>

namespace penstock::io {

namespace {

void do_nothing(int /*number*/) {}

bool is_handled_by(void (*handler)(int), int number) noexcept {
    struct sigaction action{};
    return sigaction(number, nullptr, &action) == 0 && (action.sa_flags & SA_SIGINFO) == 0 &&
           action.sa_handler == handler;
}

int find_signal() noexcept {
    for (int number = SIGRTMAX; number >= SIGRTMIN; --number) {
        struct sigaction action{};
        action.sa_handler = &do_nothing; // without SA_RESTART
        if (is_handled_by(SIG_DFL, number) && sigaction(number, &action, nullptr) == 0) {
            return number;
        }
    }
    return 0;
}

/// 0 if there is none.
int interrupting_signal() noexcept {
    static const int number = find_signal();
    return number;
}

} // namespace

void allow_interrupts() noexcept {
    if (const int number = interrupting_signal()) {
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, number);
        pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
    }
}

void interrupt(pthread_t thread) noexcept {
    const int number = interrupting_signal();
    // The program may have installed its own handler since.
    if (number != 0 && is_handled_by(&do_nothing, number)) {
        pthread_kill(thread, number);
    }
}

} // namespace penstock::io
