// Whole files: reading, writing, copying.

#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <new>
#include <random>

#include <fcntl.h>
#include <unistd.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/shield.hpp>

namespace penstock::fs {

using penstock::detail::uninterrupted;

namespace {

/// Files up to this size are read with `File::read`. For larger ones a worker thread also allocates
/// the memory: page faults take the kernel longer than copying from the page cache.
constexpr std::uint64_t small_file = std::uint64_t{256} * 1024;

/// Reads a piece to the end of `content`, at the offset `content.size()`. Returns the result of
/// read(2), or a negated errno.
std::int64_t append(int fd, std::string& content, std::size_t most) {
    const std::size_t size = content.size();
    std::int64_t answer = 0;
    content.resize_and_overwrite(size + most, [&](char* data, std::size_t /*room*/) {
        answer =
            uninterrupted([&] { return ::pread(fd, data + size, most, static_cast<off_t>(size)); });
        answer = answer < 0 ? -errno : answer;
        return size + static_cast<std::size_t>(std::max<std::int64_t>(answer, 0));
    });
    return answer;
}

// A vector zeroes new elements. Small parts stay in the processor's cache in between.
std::int64_t append(int fd, std::vector<std::byte>& content, std::size_t most) {
    constexpr std::size_t part = std::size_t{128} * 1024;
    std::int64_t total = 0;
    while (static_cast<std::size_t>(total) < most) {
        const std::size_t size = content.size();
        const std::size_t asked = std::min(part, most - static_cast<std::size_t>(total));
        content.resize(size + asked);
        const ssize_t count = uninterrupted(
            [&] { return ::pread(fd, content.data() + size, asked, static_cast<off_t>(size)); });
        const int error = errno;
        content.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
        if (count < 0) {
            return total > 0 ? total : -error;
        }
        total += count;
        if (static_cast<std::size_t>(count) < asked) {
            break;
        }
    }
    return total;
}

/// The same on a worker thread.
template <typename Content>
class AppendOperation final
    : public penstock::detail::FileSystemOperation<AppendOperation<Content>, std::size_t> {
public:
    AppendOperation(const File& file, Content& content, std::size_t most) noexcept
        : file_(file.shared_descriptor()), content_(content), most_(most) {}

    void describe(io::FileOperation& request) const noexcept { request.to_call(&run); }
    [[nodiscard]] static std::size_t result(std::int64_t answer) noexcept {
        return static_cast<std::size_t>(answer);
    }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        AppendOperation& self = AppendOperation::derived_of(request);
        try {
            return append(self.file_.get(), self.content_, self.most_);
        } catch (const std::bad_alloc&) {
            return -ENOMEM;
        }
    }

    penstock::detail::SharedDescriptor file_;
    Content& content_;
    std::size_t most_;
};

/// Reads in pieces, so that a cancellation takes effect.
template <typename Content>
Task<Result<Content>> read_large(const File& file, std::uint64_t expected) {
    constexpr std::size_t largest_piece = std::size_t{8} * 1024 * 1024;
    constexpr std::size_t least = std::size_t{64} * 1024; // if the file has grown
    Content content;
    if (expected >= content.max_size()) {
        co_return failure(std::errc::file_too_large);
    }
    content.reserve(static_cast<std::size_t>(expected) + 1);
    for (;;) {
        // Asks for one byte more than expected, to detect the end of the file.
        const std::size_t room = content.capacity() - content.size();
        const std::size_t asked = room == 0 ? least : std::min(room, largest_piece);
        const Result<std::size_t> count = co_await AppendOperation<Content>(file, content, asked);
        if (!count) {
            co_return failure(count.error());
        }
        if (*count == 0) {
            co_return content;
        }
    }
}

/// Reads a whole file into a container of bytes. The size is only a hint: a file may grow, and
/// files in /proc report 0.
template <typename Content> Task<Result<Content>> read_all(std::string path) {
    constexpr std::size_t least = 4096;
    Result<File> file = co_await File::open(path);
    if (!file) {
        co_return failure(file.error());
    }
    const Result<Status> status = co_await file->status();
    if (!status) {
        co_return failure(status.error());
    }
    if (status->is_regular() && status->size > small_file) {
        co_return co_await read_large<Content>(*file, status->size);
    }
    Content content;
    content.resize(std::max<std::size_t>(status->size + 1, least));
    std::size_t size = 0;
    for (;;) {
        const Result<std::size_t> count =
            co_await file->read(MutableBytes(content.data() + size, content.size() - size));
        if (!count) {
            co_return failure(count.error());
        }
        if (*count == 0) {
            content.resize(size);
            co_return content;
        }
        size += *count;
        if (size == content.size()) {
            content.resize(size * 2);
        }
    }
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// A unique name in the same folder.
std::string temporary_name(const std::string& path) {
    static std::atomic<std::uint64_t> next{std::random_device()()};
    std::array<char, 16> digits{};
    const std::uint64_t number =
        next.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15U ^
        static_cast<std::uint64_t>(::getpid());
    const auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), number, 16);
    const std::size_t slash = path.rfind('/');
    const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
    return path.substr(0, name) + "." + path.substr(name) + "." + std::string(digits.data(), end) +
           ".tmp";
}

Task<Result<>> write_and_sync(const std::string& path, Bytes content, mode_t permissions,
                              bool exact_permissions) {
    Result<File> file = co_await File::open(
        path, {.read = false, .write = true, .create_new = true, .permissions = permissions});
    if (!file) {
        co_return failure(file.error());
    }
    if (exact_permissions && ::fchmod(file->native_handle(), permissions) != 0) {
        co_return last_failure();
    }
    if (const Result<> written = co_await file->write_all(content); !written) {
        co_return written;
    }
    if (const Result<> synced = co_await file->sync(); !synced) {
        co_return synced;
    }
    co_return co_await file->close();
}

/// Syncs the folder, so that a rename in it survives a power cut.
Task<Result<>> sync_folder(const std::string& path) {
    Result<File> folder = co_await File::open(folder_of(path));
    if (!folder) {
        co_return failure(folder.error());
    }
    co_return co_await folder->sync();
}

/// Resolves a symbolic link, also through further links. The target need not exist. A path that is
/// not a link resolves to itself.
class ResolveLinkOperation final
    : public penstock::detail::FileSystemOperation<ResolveLinkOperation, std::string> {
public:
    explicit ResolveLinkOperation(std::string path) noexcept : path_(std::move(path)) {}

    static void describe(io::FileOperation& request) noexcept { request.to_call(&run); }
    [[nodiscard]] std::string result(std::int64_t /*answer*/) noexcept { return std::move(path_); }

private:
    static std::int64_t run(io::FileOperation& request) noexcept {
        ResolveLinkOperation& self = derived_of(request);
        try {
            return self.follow();
        } catch (const std::bad_alloc&) {
            return -ENOMEM;
        }
    }

    std::int64_t follow() {
        constexpr int most_links = 40; // path_resolution(7)
        std::array<char, PATH_MAX> target{};
        for (int links = 0; links < most_links; ++links) {
            const ssize_t size = ::readlink(path_.c_str(), target.data(), target.size());
            if (size < 0) {
                return errno == EINVAL || errno == ENOENT ? 0 : -errno;
            }
            const std::string_view name(target.data(), static_cast<std::size_t>(size));
            path_ = name.starts_with('/') ? std::string(name)
                                          : path_.substr(0, path_.rfind('/') + 1).append(name);
        }
        return -ELOOP;
    }

    std::string path_;
};

Task<Result<>> replace_file(std::string link_or_path, Bytes content, mode_t permissions) {
    // Renaming over a link would replace the link instead of its target.
    Result<std::string> followed = co_await ResolveLinkOperation(std::move(link_or_path));
    if (!followed) {
        co_return failure(followed.error());
    }
    const std::string path = std::move(*followed);
    const Result<Status> old = co_await status(path);
    if (!old && old.error() != std::errc::no_such_file_or_directory) {
        co_return failure(old.error());
    }
    const std::string temporary = temporary_name(path);
    Result<> done;
    try {
        done = co_await write_and_sync(temporary, content, old ? old->permissions : permissions,
                                       old.has_value());
        if (done) {
            done = co_await rename(temporary, path);
        }
    } catch (...) { // no memory, so the engine could not remove it either
        ::unlink(temporary.c_str());
        throw;
    }
    if (!done) {
        // Removes the temporary file also if the task was cancelled.
        (void)co_await shield(remove_file(temporary));
        co_return done;
    }
    co_return co_await sync_folder(path);
}

bool is_copy_unsupported(const std::error_code& error) noexcept {
    return error == std::errc::operation_not_supported || error == std::errc::cross_device_link ||
           error == std::errc::invalid_argument || error == std::errc::function_not_supported ||
           error == std::errc::inappropriate_io_control_operation;
}

/// copy_file_range(2) or FICLONE.
class KernelCopyOperation final
    : public penstock::detail::FileSystemOperation<KernelCopyOperation, std::uint64_t> {
public:
    static constexpr std::size_t clone_all = 0;

    KernelCopyOperation(const File& from, const File& to, std::size_t size) noexcept
        : from_(from.native_handle()), to_(to.native_handle()), size_(size) {}

    void describe(io::FileOperation& request) const noexcept {
        if (size_ == clone_all) {
            request.to_clone(from_, to_);
        } else {
            request.to_copy_range(from_, io::FileOperation::current_position, to_,
                                  io::FileOperation::current_position, size_);
        }
    }
    [[nodiscard]] static std::uint64_t result(std::int64_t answer) noexcept {
        return static_cast<std::uint64_t>(answer);
    }

private:
    int from_;
    int to_;
    std::size_t size_;
};

Task<Result<std::uint64_t>> copy_through_buffer(File& from, File& to) {
    constexpr std::size_t piece = std::size_t{256} * 1024;
    std::vector<std::byte> buffer(piece);
    std::uint64_t copied = 0;
    for (;;) {
        const Result<std::size_t> count = co_await from.read(buffer);
        if (!count || *count == 0) {
            co_return count ? Result<std::uint64_t>(copied) : failure(count.error());
        }
        if (const Result<> written = co_await to.write_all(Bytes(buffer.data(), *count));
            !written) {
            co_return failure(written.error());
        }
        copied += *count;
    }
}

/// `to` must be empty.
Task<Result<std::uint64_t>> copy_content(File& from, File& to, std::uint64_t size) {
    // so that a cancellation takes effect
    constexpr std::size_t largest_piece = std::size_t{64} << 20;
    const Result<std::uint64_t> cloned =
        co_await KernelCopyOperation(from, to, KernelCopyOperation::clone_all);
    if (cloned) {
        co_return size;
    }
    if (!is_copy_unsupported(cloned.error())) {
        co_return failure(cloned.error());
    }
    std::uint64_t copied = 0;
    for (;;) {
        const Result<std::uint64_t> count = co_await KernelCopyOperation(from, to, largest_piece);
        if (!count && (copied > 0 || !is_copy_unsupported(count.error()))) {
            co_return failure(count.error());
        }
        // The kernel copies nothing from files that report no size, such as those in /proc.
        if (!count || (*count == 0 && copied == 0)) {
            co_return co_await copy_through_buffer(from, to);
        }
        if (*count == 0) {
            co_return copied;
        }
        copied += *count;
    }
}

} // namespace

Task<Result<std::vector<std::byte>>> read_file(std::string path) {
    return read_all<std::vector<std::byte>>(std::move(path));
}

Task<Result<std::string>> read_text(std::string path) {
    return read_all<std::string>(std::move(path));
}

Task<Result<>> create_directories(std::string path, mode_t permissions) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string part = path.substr(0, end);
        const Result<> made = co_await create_directory(part, permissions);
        if (!made && made.error() != std::errc::file_exists) {
            co_return made;
        }
        if (end == std::string::npos) {
            if (!made) {
                const Result<Status> there = co_await status(part);
                if (!there || !there->is_directory()) {
                    co_return made;
                }
            }
            co_return Result<>();
        }
    }
}

Task<Result<>> write_file(std::string path, Bytes content, WriteFileOptions options) {
    if (path.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    if (options.atomic) {
        co_return co_await replace_file(std::move(path), content, options.permissions);
    }
    OpenOptions writing = OpenOptions::writing();
    writing.permissions = options.permissions;
    Result<File> file = co_await File::open(path, writing);
    if (!file) {
        co_return failure(file.error());
    }
    const Result<> written = co_await file->write_all(content);
    const Result<> closed = co_await file->close(); // on the engine, because it may write back
    co_return written ? closed : written;
}

Task<Result<std::uint64_t>> copy_file(std::string from, std::string to) {
    Result<File> source = co_await File::open(from);
    if (!source) {
        co_return failure(source.error());
    }
    const Result<Status> status = co_await source->status();
    if (!status) {
        co_return failure(status.error());
    }
    if (status->is_directory()) {
        co_return failure(std::errc::is_a_directory);
    }
    OpenOptions writing = OpenOptions::writing();
    writing.truncate = false; // first checks that it is a different file
    writing.permissions = status->permissions;
    Result<File> target = co_await File::open(to, writing);
    if (!target) {
        co_return failure(target.error());
    }
    const Result<Status> old = co_await target->status();
    if (!old) {
        co_return failure(old.error());
    }
    if (old->device == status->device && old->inode == status->inode) {
        co_return failure(std::errc::file_exists);
    }
    if (const Result<> emptied = co_await target->truncate(0); !emptied) {
        co_return failure(emptied.error());
    }
    if (::fchmod(target->native_handle(), status->permissions) != 0) {
        co_return last_failure();
    }
    const Result<std::uint64_t> copied = co_await copy_content(*source, *target, status->size);
    // On the engine, also in a cancelled task: close may write back (ext4 does so for a file that
    // was truncated).
    const Result<> closed = co_await target->close();
    if (copied && !closed) {
        co_return failure(closed.error());
    }
    co_return copied;
}

} // namespace penstock::fs
