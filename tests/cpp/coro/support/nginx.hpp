#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include <penstock/process/command.hpp>
#include <penstock/stream/buf_reader.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/task.hpp>

#include <gtest/gtest.h>

#include "coro/support/destroyed_child.hpp"
#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"

namespace penstock::testing {

/// nginx in the foreground, as one process, with its files in a folder of its own. It listens on a
/// Unix socket, so that no port can be taken by somebody else.
class Nginx {
public:
    Nginx() = default;
    Nginx(const Nginx&) = delete;
    Nginx& operator=(const Nginx&) = delete;

    /// Waits for its end. A test may then count descriptors, and nothing uses the folder.
    ~Nginx() {
        if (const pid_t pid = child_.pid()) {
            child_ = {};
            EXPECT_TRUE(is_reaped(pid));
        }
    }

    static constexpr const char* program = "/usr/sbin/nginx";

    [[nodiscard]] static bool is_installed() { return std::filesystem::exists(program); }

    /// Where `server` listens. Also the text for nginx's `listen`, behind "unix:".
    [[nodiscard]] std::string socket() const { return folder_.path("front"); }

    /// Starts it with the body of a `server` block, and of the `http` block around it. Returns when
    /// it accepts connections.
    Task<void> start(std::string_view server, std::string_view http = "",
                     std::string_view options = "") {
        std::string text = "daemon off; master_process off; worker_processes 1;\n"
                           "error_log stderr notice; events { worker_connections 64; }\n"
                           "http { access_log off;\n";
        for (const std::string_view what : {"client_body", "proxy", "fastcgi", "uwsgi", "scgi"}) {
            text.append(what).append("_temp_path ").append(folder_.path(what)).append(";\n");
        }
        text.append(http).append("\nserver { listen unix:").append(socket());
        text.append(" ").append(options).append(";\n").append(server).append("\n} }\n");
        const std::string file = folder_.file("nginx.conf", text);
        child_ = expect(process::Command(program)
                            .arguments({"-e", "stderr", "-p", folder_.path(""), "-c", file, "-g",
                                        "pid " + folder_.path("pid") + ";"})
                            .output(process::Stdio::null())
                            .error(process::Stdio::pipe())
                            .kill_on_close()
                            .spawn());
        BufReader lines(child_.error);
        for (;;) { // the sockets are open when it has chosen how to wait for them
            const auto line = expect(co_await lines.line());
            if (!line) {
                throw std::runtime_error("nginx has ended: " + seen_);
            }
            seen_.append(*line).append("\n");
            if (line->find("event method") != std::string_view::npos) {
                co_return;
            }
        }
    }

private:
    TemporaryFolder folder_;
    process::Child child_{};
    std::string seen_;
};

} // namespace penstock::testing
