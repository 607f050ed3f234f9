#include <penstock/fs/append_log.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/sync/mutex.hpp>
#include <penstock/task/shield.hpp>

#include "detail/error_category.hpp"
#include "fs/log_file.hpp"
#include "fs/log_format.hpp"

namespace penstock::fs {

namespace {

struct LogErrors {
    static constexpr const char* name = "penstock.log";

    static std::string message(int value) {
        switch (static_cast<LogError>(value)) {
        case LogError::not_a_log:
            return "the file is not an append log; nothing was changed";
        case LogError::old_format:
            return "the log has format 1; copy it: penstock log salvage OLD --to NEW";
        case LogError::locked:
            return "another writer has the log open";
        case LogError::damaged:
            return "records that were durable are damaged; nothing was changed. Copy the good ones "
                   "to a new log: penstock log salvage OLD --to NEW";
        case LogError::failed:
            return "the disk did not confirm a write; close the log and open it anew";
        case LogError::too_long:
            return "a record of more than 1 GiB, or a batch of more than 64 MiB; append it in "
                   "parts";
        case LogError::closed:
            return "the log is closed";
        }
        return penstock::detail::unknown_error(value);
    }
};

/// More appends than these begin another commit.
constexpr std::uint64_t commit_bytes = std::uint64_t{8} << 20U;

/// The records of one append.
struct Entry {
    std::span<const Bytes> records;
    std::uint64_t size = 0; ///< with headers
    std::uint64_t first = 0;
};

/// What one write and one sync make durable.
struct Commit {
    std::vector<Entry*> entries;
    std::uint64_t size = 0;
    std::error_code error;
    bool begun = false;
    bool ended = false;
};

} // namespace

std::error_code make_error_code(LogError error) noexcept {
    return {static_cast<int>(error), penstock::detail::category_of<LogErrors>()};
}

struct AppendLog::State {
    explicit State(detail::OpenedLog opened)
        : log(std::move(opened)), count(log.recovered.records), end(log.recovered.size) {}

    detail::OpenedLog log;
    std::uint64_t count;
    std::uint64_t end;
    sync::Mutex writing;
    std::shared_ptr<Commit> pending;
    bool failed = false;
    bool closed = false;

    [[nodiscard]] std::error_code refusal() const noexcept {
        if (closed) {
            return make_error_code(LogError::closed);
        }
        return failed ? make_error_code(LogError::failed) : std::error_code();
    }

    /// What a write has come to; the loop's thread takes it over.
    struct Written {
        std::error_code error{};
        std::uint64_t size = 0;
        bool failed = false; ///< what is on the disk is unknown
    };

    /// Blocks.
    [[nodiscard]] Written write(const Commit& commit) const {
        const int fd = log.file.get();
        std::vector<std::byte> data;
        data.reserve(static_cast<std::size_t>(commit.size));
        for (const Entry* entry : commit.entries) {
            for (std::size_t index = 0; index < entry->records.size(); ++index) {
                detail::encode_record(log.marker, end, end + data.size(), entry->records[index],
                                      index + 1 < entry->records.size(), data);
            }
        }
        Written done{.size = data.size()};
        const Result<> written = detail::write_fully(fd, data, end);
        if (!written) {
            done.error = written.error();
        } else if (::fdatasync(fd) != 0) {
            done.failed = true;
        } else {
            return done;
        }
        // Durably: the kernel may have written a part already, and a power cut would bring it back.
        if (::ftruncate(fd, static_cast<off_t>(end)) != 0 || ::fdatasync(fd) != 0) {
            done.failed = true;
        }
        if (done.failed) {
            done.error = make_error_code(LogError::failed);
        }
        return done;
    }

    void take_over(Commit& commit, const Written& done) noexcept {
        commit.error = done.error;
        failed = failed || done.failed;
        if (!done.error) {
            for (Entry* entry : commit.entries) {
                entry->first = count;
                count += entry->records.size();
            }
            end += done.size;
        }
    }
};

namespace {

/// The commit for a further entry: the last one, unless it has begun or is full.
std::shared_ptr<Commit> join(std::shared_ptr<Commit>& pending, Entry& entry) {
    if (!pending || pending->begun || pending->size + entry.size > commit_bytes) {
        pending = std::make_shared<Commit>();
    }
    pending->entries.push_back(&entry);
    pending->size += entry.size;
    return pending;
}

} // namespace

AppendLog::AppendLog(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
AppendLog::AppendLog(AppendLog&&) noexcept = default;
AppendLog& AppendLog::operator=(AppendLog&&) noexcept = default;
AppendLog::~AppendLog() = default;

Task<Result<AppendLog>> AppendLog::open(std::string path, mode_t permissions) {
    if (path.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    Result<detail::OpenedLog> opened =
        co_await to_thread([&] { return detail::open_log_file(path, permissions); });
    if (!opened) {
        co_return failure(opened.error());
    }
    co_return AppendLog(std::make_shared<State>(*std::move(opened)));
}

Task<Result<std::uint64_t>> AppendLog::append(Bytes record) {
    const std::array<Bytes, 1> records{record};
    co_return co_await append_many(records);
}

Task<Result<std::uint64_t>> AppendLog::append_many(std::span<const Bytes> records) {
    const std::shared_ptr<State> state = state_;
    if (const std::error_code refusal = state->refusal()) {
        co_return failure(refusal);
    }
    if (records.empty()) {
        co_return state->count;
    }
    Entry entry{.records = records};
    for (const Bytes& record : records) {
        if (record.size() > detail::largest_record) {
            co_return failure(LogError::too_long);
        }
        entry.size += detail::log_record_header + record.size();
    }
    if (records.size() > 1 && entry.size > detail::largest_batch) {
        co_return failure(LogError::too_long);
    }
    const std::shared_ptr<Commit> commit = join(state->pending, entry);
    // Who gets the mutex first writes for all who have joined meanwhile.
    const Result<sync::Mutex::Guard> guard = co_await state->writing.lock();
    if (!guard && !commit->begun) {
        std::erase(commit->entries, &entry);
        co_return failure(guard.error());
    }
    if (!guard && !commit->ended) {
        // The kernel may have it. The writer refers to the entry, so it must have ended.
        const auto ended = co_await shield([](State& log) -> Task<Result<>> {
            const Result<sync::Mutex::Guard> turn = co_await log.writing.lock();
            co_return turn ? Result<>() : failure(turn.error());
        }(*state));
        (void)ended;
        co_return failure(guard.error());
    }
    if (!commit->ended) {
        commit->begun = true;
        commit->error = state->refusal();
        if (!commit->error) {
            const Result<State::Written> done =
                co_await shield(to_thread([&] { return state->write(*commit); }));
            if (done) {
                state->take_over(*commit, *done);
            } else {
                commit->error = done.error();
            }
        }
        commit->ended = true;
    }
    if (commit->error) {
        co_return failure(commit->error);
    }
    co_return entry.first;
}

const Recovered& AppendLog::recovered() const noexcept {
    return state_->log.recovered;
}

std::uint64_t AppendLog::count() const noexcept {
    return state_->count;
}

std::uint64_t AppendLog::size() const noexcept {
    return state_->end;
}

Task<Result<>> AppendLog::close() {
    const std::shared_ptr<State> state = state_;
    const Result<sync::Mutex::Guard> guard = co_await state->writing.lock();
    if (!guard) {
        co_return failure(guard.error());
    }
    state->closed = true;
    state->log.file = OwnedDescriptor(); // everything is synced, so closing waits for nothing
    co_return Result<>();
}

AsyncGenerator<Result<std::vector<std::byte>>> read_log(std::string path) {
    using Records = std::vector<std::vector<std::byte>>;
    constexpr std::size_t most_bytes = std::size_t{1} << 20U;
    constexpr std::size_t most_records = 4096;
    if (path.contains('\0')) {
        co_yield failure(std::errc::invalid_argument);
        co_return;
    }
    OwnedDescriptor file;
    std::optional<detail::LogScanner> scanner;
    detail::LogMarker marker{};
    std::uint64_t size = 0;
    const Result<> opened = co_await to_thread([&]() -> Result<> {
        file = OwnedDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
        struct stat status{};
        if (!file || ::fstat(file.get(), &status) != 0) {
            return last_failure();
        }
        const Result<std::optional<detail::LogMarker>> found = detail::read_log_marker(file.get());
        if (!found) {
            return failure(found.error());
        }
        if (*found) {
            marker = **found;
            size = static_cast<std::uint64_t>(status.st_size);
            scanner.emplace(file.get(), marker, size);
        }
        return {};
    });
    if (!opened) {
        co_yield failure(opened.error());
        co_return;
    }
    while (scanner) {
        Result<Records> records = co_await to_thread([&]() -> Result<Records> {
            Records read;
            for (std::size_t bytes = 0; bytes < most_bytes && read.size() < most_records;) {
                Result<std::optional<std::vector<std::byte>>> record = scanner->next();
                if (!record) {
                    return failure(record.error());
                }
                if (!*record) {
                    break;
                }
                bytes += (*record)->size();
                read.push_back(**std::move(record));
            }
            return read;
        });
        if (!records) {
            co_yield failure(records.error());
            co_return;
        }
        if (records->empty()) {
            break;
        }
        for (std::vector<std::byte>& record : *records) {
            co_yield std::move(record);
        }
    }
    if (scanner && scanner->damaged()) {
        const Result<bool> later = co_await to_thread([&] {
            return detail::later_commit_follows(file.get(), marker, scanner->offset(), size);
        });
        if (!later || *later) {
            co_yield failure(later ? make_error_code(LogError::damaged) : later.error());
        }
    }
}

} // namespace penstock::fs
