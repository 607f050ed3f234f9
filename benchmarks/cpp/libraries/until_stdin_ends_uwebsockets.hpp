// A uWebSockets server until the end of its standard input, on which the stand ends it.
#pragma once

#include "job.hpp"

#include <cstdio>
#include <iostream>
#include <string>
#include <thread>
#include <utility>

#include <App.h>

namespace bench {

// Its port is any; its sockets have TCP_NODELAY on by themselves. Returns the code for main().
inline int run_until_stdin_ends(uWS::App app, const char* name) {
    bool listens = false;
    app.listen("127.0.0.1", 0, [&listens](us_listen_socket_t* socket) {
        if (socket != nullptr) {
            listens = true;
            const int port = us_socket_local_port(0, reinterpret_cast<us_socket_t*>(socket));
            report_port(static_cast<unsigned>(port));
        }
    });
    if (!listens) {
        std::fprintf(stderr, "%s: cannot listen on a port of the loopback address\n", name);
        return 1;
    }
    // Its loop takes no descriptor of others, so a thread waits for the end of the input.
    uWS::Loop* const loop = uWS::Loop::get();
    std::thread([loop, &app] {
        std::string ignored;
        while (std::getline(std::cin, ignored)) {
        }
        loop->defer([&app] { app.close(); });
    }).detach();
    app.run();
    return 0;
}

} // namespace bench
