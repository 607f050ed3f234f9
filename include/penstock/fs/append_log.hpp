#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <sys/types.h>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>
#include <penstock/task/async_generator.hpp>
#include <penstock/task/task.hpp>

namespace penstock::fs {

/// Errors of append logs.
enum class LogError {
    not_a_log = 1, ///< the file holds something else; it is unchanged
    old_format,    ///< a log of format 1, which only Python's AppendLog reads and continues
    locked,        ///< another writer has it open
    damaged,       ///< records that were durable are damaged; the file is unchanged
    failed,        ///< a sync failed, or a failed write could not be undone: open the log anew
    too_long,      ///< a record of more than 1 GiB, or a batch of more than 64 MiB
    closed,        ///< the log is closed
};

[[nodiscard]] std::error_code make_error_code(LogError error) noexcept;

/// What opening a log found.
struct Recovered {
    std::uint64_t records = 0; ///< all that were acknowledged, and perhaps further complete ones
    std::uint64_t size = 0;    ///< of the file now, in bytes: its header and those records
    std::uint64_t torn = 0;    ///< bytes of an unfinished write that were cut off behind them
    std::string kept_in{};     ///< the file beside the log that has the torn bytes. Empty: none
};

/// A file of records that survives a crash at any moment. `penstock.files.AppendLog` of Python
/// reads and continues the same files; `docs/files.md` has the format and the rules.
///
///     Result<fs::AppendLog> log = co_await fs::AppendLog::open("orders.log");
///     Result<std::uint64_t> number = co_await log->append(order);
///
/// An append returns when its record is durable. Appends that wait at the same time share one write
/// and one fdatasync(2). After a crash, opening finds every record whose append had returned, in
/// order. A torn end is kept beside the log, in `NAME.torn`, and cut off.
///
/// A log has one writer at a time, by flock(2). Readers need no lock: `read_log`.
///
/// Cancellation of an append: a record that has not been handed to the kernel is not written, and
/// the result is `operation_canceled`. Otherwise it is written completely.
///
/// Thread safety: none. A log belongs to one loop. Destroying it closes the file.
class AppendLog {
public:
    /// Opens or creates the log, and repairs it after a crash. Reads and checks the whole file on a
    /// worker thread. When this returns, all records that it has found are durable.
    ///
    /// Errors: those of `LogError`, and of the system calls.
    [[nodiscard]] static Task<Result<AppendLog>> open(std::string path, mode_t permissions = 0666);

    AppendLog(AppendLog&&) noexcept;
    AppendLog& operator=(AppendLog&&) noexcept;
    AppendLog(const AppendLog&) = delete;
    AppendLog& operator=(const AppendLog&) = delete;
    ~AppendLog();

    /// Appends one record. Returns the record's number, counted from 0, when the record is durable.
    /// The bytes must live until the task has ended.
    ///
    /// Errors: those of the write, such as `no_space_on_device`: the record is not in the log, not
    /// even after a power cut, and the log stays usable. After `LogError::failed` it is unknown
    /// whether the log has the record when it is opened again.
    [[nodiscard]] Task<Result<std::uint64_t>> append(Bytes record);

    /// Appends a batch, and returns the number of its first record. After a crash, the log has all
    /// of its records or none.
    [[nodiscard]] Task<Result<std::uint64_t>> append_many(std::span<const Bytes> records);

    [[nodiscard]] const Recovered& recovered() const noexcept;
    [[nodiscard]] std::uint64_t count() const noexcept; ///< durable records
    [[nodiscard]] std::uint64_t size() const noexcept;  ///< bytes of them and of the file's header

    /// Waits for the appends that have begun, and closes the file. Later appends are
    /// `LogError::closed`.
    [[nodiscard]] Task<Result<>> close();

private:
    struct State;

    explicit AppendLog(std::shared_ptr<State> state) noexcept;

    std::shared_ptr<State> state_;
};

/// Yields the records of a log up to the last complete one, even while a writer of any process has
/// it open. At a damaged record the sequence ends. If records of a later commit follow that place,
/// the last item is `LogError::damaged`. Reads the file on worker threads, in pieces.
[[nodiscard]] AsyncGenerator<Result<std::vector<std::byte>>> read_log(std::string path);

} // namespace penstock::fs

template <> struct std::is_error_code_enum<penstock::fs::LogError> : std::true_type {};
