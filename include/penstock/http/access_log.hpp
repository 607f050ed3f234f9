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
    /// How many bytes of lines may wait for the disk. Further lines are dropped. A later line says
    /// how many: `# 3 lines were dropped`, as JSON `{"dropped":3}`.
    std::size_t buffer = std::size_t{1} << 20U;
    std::chrono::milliseconds interval{200}; ///< how long a line waits for others
    mode_t permissions = 0640;               ///< of a new file, before the umask
};

/// A log of the requests of servers, for `ServerOptions::access_log`:
///
///     auto log = unwrap(http::AccessLog::open("access.log"));
///     http::Server server({.access_log = log});
///
/// A thread of its own writes the lines in blocks, so that no request waits for the disk. A client
/// cannot forge a line: quotes, backslashes and every byte that is not printable ASCII are written
/// as `\xHH`, in JSON as `\u00HH`. Times are UTC.
///
/// For a request whose connection ended before the response was complete, the line has the status
/// and the bytes that were sent. If nothing was sent, the status is 499, as in nginx.
///
/// Thread safety: any thread may use a log. Servers of several loops may share one.
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
    /// Blocks until the lines that were added are written.
    ~AccessLog();

    /// Adds a line. A line that fails for lack of memory counts as dropped.
    void add(const AccessRecord& record) noexcept;

    /// Writes the lines that were added before, and opens the file again by its path, for
    /// logrotate(8). Blocks. Errors: those of open(2). The log then goes on with the old file.
    [[nodiscard]] Result<> reopen();

    /// Blocks until the lines that were added before are written.
    void flush();

    /// The number of lines dropped since the log was opened: the buffer was full, or writing
    /// failed. A line of which only a part was written, as on a full disk, is one of them, and the
    /// next line begins behind it.
    [[nodiscard]] std::uint64_t dropped() const noexcept;

private:
    struct State;

    explicit AccessLog(std::unique_ptr<State> state) noexcept;

    std::unique_ptr<State> state_;
};

} // namespace penstock::http
