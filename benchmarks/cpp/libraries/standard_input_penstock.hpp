// Ends a scope at the end of standard input.
#pragma once

#include <array>
#include <cstdint>
#include <unistd.h>

#include <penstock/penstock.hpp>

namespace bench {

struct StandardInput : penstock::io::Watch {
    explicit StandardInput(penstock::Scope& ended) : Watch(&on_event), scope(ended) {
        (void)penstock::EventLoop::current().poller().add(*this, STDIN_FILENO,
                                                          penstock::io::readable);
    }
    ~StandardInput() { penstock::EventLoop::current().poller().remove(*this); }
    StandardInput(const StandardInput&) = delete;
    StandardInput& operator=(const StandardInput&) = delete;

    static void on_event(penstock::io::Watch& watch, std::uint32_t /*events*/) {
        std::array<char, 4096> ignored{};
        if (::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0) {
            static_cast<StandardInput&>(watch).scope.cancel();
        }
    }

    penstock::Scope& scope;
};

} // namespace bench
