#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sys/types.h>

#include <penstock/net/endpoint.hpp>
#include <penstock/result.hpp>

namespace penstock::http {

/// One request and its answer, for an access log.
struct AccessRecord {
    Result<net::Endpoint> peer;
    std::string_view method{}; ///< empty if the head could not be read
    std::string_view target{};
    unsigned major_version = 1;
    unsigned minor_version = 1;
    int status = 0;
    std::uint64_t body_size = 0; ///< of the response, as it was sent
    std::string_view referer{};
    std::string_view user_agent{};
    std::chrono::nanoseconds duration{}; ///< from the request's head to the response's end
};

struct AccessLogOptions {
    enum class Format : std::uint8_t {
        common,   ///< NCSA common log format
        combined, ///< the same with Referer and User-Agent
        json,     ///< an object a line: time, peer, method, target, status, bytes, seconds ...
    };

    Format format = Format::combined;
    /// Lines that wait for the disk, in bytes. Further ones are dropped, and a line tells how many.
    std::size_t buffer = std::size_t{1} << 20U;
    std::chrono::milliseconds interval{200}; ///< how long a line waits for others
    mode_t permissions = 0640;
};

/// A log of the requests of servers, for `ServerOptions::access_log`:
///
///     auto log = unwrap(http::AccessLog::open("access.log"));
///     http::Server server({.access_log = log});
///
/// A thread of its own writes the lines in blocks, so no request waits for the disk. What strangers
/// choose cannot forge a line: quotes, backslashes and every byte that is not printable ASCII are
/// written as `\xHH`, in JSON as `\u00HH`. Times are UTC.
///
/// A request whose connection ended before the response was complete has the status and the bytes
/// of what was sent; if nothing was, the status 499, as nginx has it.
///
/// Thread safety: any thread may use it; servers of several loops may share one.
class AccessLog {
public:
    /// Opens or creates a file, to append to it. Errors: those of open(2). Throws
    /// `std::system_error` if no thread can be started.
    [[nodiscard]] static Result<std::shared_ptr<AccessLog>> open(std::string path,
                                                                 const AccessLogOptions& options);
    [[nodiscard]] static Result<std::shared_ptr<AccessLog>> open(std::string path) {
        return open(std::move(path), AccessLogOptions());
    }

    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;
    /// Writes what is left.
    ~AccessLog();

    /// Adds a line. What fails for lack of memory counts as dropped.
    void add(const AccessRecord& record) noexcept;

    /// Opens the file anew by its name, after what was added before is written: for logrotate(8).
    /// Errors: those of open(2); it goes on with the file that is open then.
    [[nodiscard]] Result<> reopen();

    /// Waits until what was added before is written. Blocks.
    void flush();

    /// Lines that were dropped since it was opened: the buffer was full, or writing failed.
    [[nodiscard]] std::uint64_t dropped() const noexcept;

private:
    struct State;

    explicit AccessLog(std::unique_ptr<State> state) noexcept;

    std::unique_ptr<State> state_;
};

} // namespace penstock::http
