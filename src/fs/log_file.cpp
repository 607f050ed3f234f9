#include "fs/log_file.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::fs::detail {

namespace {

constexpr std::size_t piece = std::size_t{1} << 20U;

/// The kernel may release the lock of a writer that was killed a moment late.
Result<> lock_log(int fd) {
    constexpr std::chrono::milliseconds pause{10};
    constexpr int most_pauses = 100;
    for (int pauses = 0; ::flock(fd, LOCK_EX | LOCK_NB) != 0; ++pauses) {
        if (errno != EWOULDBLOCK) {
            return last_failure();
        }
        if (pauses == most_pauses) {
            return failure(LogError::locked);
        }
        std::this_thread::sleep_for(pause);
    }
    return {};
}

Result<> sync(int fd) noexcept {
    if (::fsync(fd) != 0) {
        return last_failure();
    }
    return {};
}

/// Makes the names in the folder of a file durable.
Result<> sync_folder_of(const std::string& path) {
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    if (error) {
        return failure(std::error_code(error.value(), std::system_category()));
    }
    const OwnedDescriptor folder(
        ::open(real.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return folder ? sync(folder.get()) : Result<>(last_failure());
}

Result<> copy_end(int from, std::uint64_t begin, std::uint64_t end, int to) {
    std::vector<std::byte> data(
        static_cast<std::size_t>(std::min<std::uint64_t>(piece, end - begin)));
    for (std::uint64_t at = begin; at < end;) {
        const ssize_t count =
            ::pread(from, data.data(),
                    static_cast<std::size_t>(std::min<std::uint64_t>(data.size(), end - at)),
                    static_cast<off_t>(at));
        if (count < 0) {
            return last_failure();
        }
        if (count == 0) {
            break;
        }
        const auto size = static_cast<std::size_t>(count);
        if (const Result<> written = write_fully(to, {data.data(), size}, at - begin); !written) {
            return written;
        }
        at += size;
    }
    return sync(to);
}

/// Cuts the file at `begin`, and keeps what goes in a new file beside it, which it returns.
Result<std::string> cut(int fd, const std::string& path, std::uint64_t begin, std::uint64_t end) {
    std::string name;
    OwnedDescriptor kept;
    for (int number = 1; !kept; ++number) {
        name = path + ".torn" + (number > 1 ? std::to_string(number) : "");
        kept = OwnedDescriptor(::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
        if (!kept && errno != EEXIST) {
            return last_failure();
        }
    }
    if (const Result<> copied = copy_end(fd, begin, end, kept.get()); !copied) {
        ::unlink(name.c_str()); // the file has everything
        return failure(copied.error());
    }
    if (const Result<> durable = sync_folder_of(name); !durable) {
        return failure(durable.error());
    }
    if (::ftruncate(fd, static_cast<off_t>(begin)) != 0) {
        return last_failure();
    }
    if (const Result<> durable = sync(fd); !durable) {
        return failure(durable.error());
    }
    return name;
}

Result<LogScanner> scan_all(LogScanner scanner) {
    for (;;) {
        const Result<std::optional<std::vector<std::byte>>> record = scanner.next();
        if (!record) {
            return failure(record.error());
        }
        if (!*record) {
            return scanner;
        }
    }
}

Result<> create(OpenedLog& log, std::uint64_t size) {
    if (::getrandom(log.marker.data(), log.marker.size(), 0) !=
        static_cast<ssize_t>(log.marker.size())) {
        return last_failure();
    }
    std::vector<std::byte> header;
    encode_log_header(log.marker, header);
    if (::ftruncate(log.file.get(), 0) != 0) {
        return last_failure();
    }
    if (const Result<> written = write_fully(log.file.get(), header, 0); !written) {
        return written;
    }
    log.recovered = {.records = 0, .size = log_file_header, .torn = size};
    return sync(log.file.get());
}

Result<> recover(OpenedLog& log, const std::string& path, std::uint64_t size) {
    const int fd = log.file.get();
    const Result<std::optional<LogMarker>> marker = read_log_marker(fd);
    if (!marker) {
        return failure(marker.error());
    }
    const std::optional<LogMarker>& known = *marker;
    if (!known) {
        return create(log, size);
    }
    log.marker = *known;
    Result<LogScanner> scanned = scan_all(LogScanner(fd, log.marker, size));
    if (!scanned) {
        return failure(scanned.error());
    }
    if (scanned->damaged()) {
        const Result<bool> later = later_commit_follows(fd, log.marker, scanned->offset(), size);
        if (!later || *later) {
            return failure(later ? make_error_code(LogError::damaged) : later.error());
        }
    }
    Recovered& found = log.recovered;
    found = {.records = scanned->count(), .size = scanned->end(), .torn = size - scanned->end()};
    if (found.size < size) {
        Result<std::string> kept = cut(fd, path, found.size, size);
        if (!kept) {
            return failure(kept.error());
        }
        found.kept_in = *std::move(kept);
    }
    // Also if nothing was cut: the next commit implies that everything before it is durable.
    if (const Result<> durable = sync(fd); !durable) {
        return durable;
    }
    if (found.records == 0) {
        return {};
    }
    // A sync that succeeds proves nothing if an earlier one has failed: its pages stay readable,
    // and are not written again. So the one commit that may be unconfirmed is read from the disk.
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = scanned->commit() - scanned->commit() % page;
    (void)::posix_fadvise(fd, static_cast<off_t>(begin), 0, POSIX_FADV_DONTNEED);
    const std::uint64_t commit = scanned->commit();
    const Result<LogScanner> on_disk =
        scan_all(LogScanner(fd, log.marker, found.size, commit, commit));
    if (!on_disk) {
        return failure(on_disk.error());
    }
    if (on_disk->end() < found.size) {
        Result<std::string> kept = cut(fd, path, on_disk->end(), found.size);
        if (!kept) {
            return failure(kept.error());
        }
        found = {.records = scanned->earlier() + on_disk->count(),
                 .size = on_disk->end(),
                 .torn = size - on_disk->end(),
                 .kept_in = *std::move(kept)};
    }
    return {};
}

} // namespace

Result<> write_fully(int fd, Bytes data, std::uint64_t offset) noexcept {
    while (!data.empty()) {
        const ssize_t count = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
        if (count < 0 && errno != EINTR) {
            return last_failure();
        }
        if (count > 0) {
            data = data.subspan(static_cast<std::size_t>(count));
            offset += static_cast<std::uint64_t>(count);
        }
    }
    return {};
}

Result<OpenedLog> open_log_file(const std::string& path, mode_t permissions) {
    for (;;) {
        constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
        OpenedLog log{.file = OwnedDescriptor(::open(path.c_str(), flags, permissions))};
        struct stat opened{};
        if (!log.file || ::fstat(log.file.get(), &opened) != 0) {
            return last_failure();
        }
        if (!S_ISREG(opened.st_mode)) {
            return failure(LogError::not_a_log);
        }
        if (const Result<> locked = lock_log(log.file.get()); !locked) {
            return failure(locked.error());
        }
        struct stat named{};
        // Before the lock was taken, another file may have got the name, or this one more records.
        if (::stat(path.c_str(), &named) != 0 || named.st_ino != opened.st_ino ||
            named.st_dev != opened.st_dev || ::fstat(log.file.get(), &opened) != 0) {
            continue;
        }
        const auto size = static_cast<std::uint64_t>(opened.st_size);
        if (const Result<> recovered = recover(log, path, size); !recovered) {
            return failure(recovered.error());
        }
        if (const Result<> durable = sync_folder_of(path); !durable) {
            return failure(durable.error());
        }
        return log;
    }
}

} // namespace penstock::fs::detail
