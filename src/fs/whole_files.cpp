// Whole files: reading and writing.

#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>

#include <algorithm>
#include <cerrno>
#include <new>

#include <unistd.h>

#include <penstock/detail/io/pollable.hpp>
#include <penstock/task/concurrent.hpp>

#include "fs/replacement.hpp"

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

} // namespace

Task<Result<std::vector<std::byte>>> read_file(std::string path) {
    return read_all<std::vector<std::byte>>(std::move(path));
}

Task<Result<std::string>> read_text(std::string path) {
    return read_all<std::string>(std::move(path));
}

Task<Result<std::vector<std::vector<std::byte>>>> read_many(std::vector<std::string> paths,
                                                            std::size_t limit) {
    co_return co_await map_concurrent(paths, limit,
                                      [](const std::string& path) { return read_file(path); });
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
        co_return co_await detail::replace_file(
            std::move(path), {.permissions = options.permissions, .keep_permissions = true},
            [content](File& file) -> Task<Result<>> {
                co_return co_await file.write_all(content);
            });
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

} // namespace penstock::fs
