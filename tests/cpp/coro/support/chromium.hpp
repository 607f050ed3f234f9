#pragma once

#include <csignal>
#include <cstdlib>
#include <initializer_list>
#include <string>
#include <string_view>

#include <penstock/process/child.hpp>
#include <penstock/process/command.hpp>
#include <penstock/task/task.hpp>

#include "coro/support/tcp_pair.hpp"
#include "support/temporary_folder.hpp"

namespace penstock::testing {

/// Chromium without a window and with a profile of its own, until this object is destroyed.
class Chromium {
public:
    [[nodiscard]] static bool is_installed() {
        return std::system("command -v chromium >/dev/null") == 0;
    }

    explicit Chromium(const std::string& url, std::initializer_list<std::string_view> more = {})
        : child_(expect(process::Command("chromium")
                            // The sandbox refuses to run as root and inside of containers.
                            .arguments({"--headless=new", "--no-sandbox", "--disable-gpu",
                                        "--disable-dev-shm-usage", "--no-first-run",
                                        "--disable-background-networking",
                                        "--user-data-dir=" + profile_.path("")})
                            .arguments(more)
                            .arguments({url})
                            .output(process::Stdio::null())
                            .error(process::Stdio::null())
                            .kill_on_close()
                            .spawn())) {}

    /// Ends it with all of its processes.
    Task<> stop() {
        expect(child_.signal(SIGTERM));
        expect(co_await child_.wait());
    }

private:
    TemporaryFolder profile_;
    process::Child child_;
};

} // namespace penstock::testing
