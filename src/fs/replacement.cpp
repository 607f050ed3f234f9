#include "fs/replacement.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <new>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <penstock/fs/paths.hpp>
#include <penstock/task/shield.hpp>

namespace penstock::fs::detail {

namespace {

/// Resolves a symbolic link, even through further links. The target need not exist. A path that is
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

/// The file that a path leads to.
struct Target {
    std::string path;                  ///< with symbolic links followed
    std::optional<mode_t> permissions; ///< of the file that has this name now
};

Task<Result<Target>> find_target(std::string link_or_path) {
    if (link_or_path.empty()) {
        co_return failure(std::errc::no_such_file_or_directory);
    }
    // Renaming over a link would replace the link instead of its target.
    Result<std::string> path = co_await ResolveLinkOperation(std::move(link_or_path));
    if (!path) {
        co_return failure(path.error());
    }
    const Result<Status> old = co_await status(*path);
    if (!old && old.error() == std::errc::no_such_file_or_directory) {
        co_return Target{.path = std::move(*path), .permissions = std::nullopt};
    }
    if (!old) {
        co_return failure(old.error());
    }
    if (!old->is_regular()) {
        co_return failure(old->is_directory() ? std::errc::is_a_directory
                                              : std::errc::invalid_argument);
    }
    co_return Target{.path = std::move(*path), .permissions = old->permissions & kept_permissions};
}

std::string folder_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// The part of a name that leaves room for `added` bytes. It is not cut inside a character of
/// UTF-8.
std::string_view shortened(std::string_view name, std::size_t added) noexcept {
    const auto continues = [](char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
    };
    if (name.size() + added <= NAME_MAX) {
        return name;
    }
    std::size_t size = NAME_MAX - added;
    while (size > 0 && continues(name[size])) {
        --size;
    }
    return name.substr(0, size);
}

/// A unique name in the same folder.
std::string temporary_name(const std::string& path) {
    static std::atomic<std::uint64_t> next{std::random_device()()};
    constexpr std::string_view ending = ".tmp";
    std::array<char, 16> digits{};
    const std::uint64_t number =
        next.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15U ^
        static_cast<std::uint64_t>(::getpid());
    const auto [end, error] =
        std::to_chars(digits.data(), digits.data() + digits.size(), number, 16);
    const std::string_view token(digits.data(), end);
    const std::size_t slash = path.rfind('/');
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    std::string name = path.substr(0, begin) + ".";
    name += shortened(std::string_view(path).substr(begin), 2 + token.size() + ending.size());
    name += ".";
    name += token;
    name += ending;
    return name;
}

/// Syncs the folder, so that a rename in it survives a power cut.
Task<Result<>> sync_folder(const std::string& path) {
    Result<File> folder = co_await File::open(folder_of(path));
    if (!folder) {
        co_return failure(folder.error());
    }
    co_return co_await folder->sync();
}

Task<Result<>> write_new_file(const std::string& path, const Target& target, Replacement how,
                              const Fill& fill) {
    constexpr mode_t owner_only = 0600;
    Result<File> file = co_await File::open(
        path, {.read = false,
               .write = true,
               .create_new = true,
               .permissions = target.permissions ? owner_only : how.permissions});
    if (!file) {
        co_return failure(file.error());
    }
    if (const Result<> filled = co_await fill(*file); !filled) {
        co_return filled;
    }
    if (how.keep_permissions && target.permissions &&
        ::fchmod(file->native_handle(), *target.permissions) != 0) {
        co_return last_failure();
    }
    if (how.sync) {
        if (const Result<> synced = co_await file->sync(); !synced) {
            co_return synced;
        }
    }
    // On the engine, even in a cancelled task: close may write back.
    co_return co_await file->close();
}

} // namespace

Task<Result<>> replace_file(std::string path, Replacement how, Fill fill) {
    const Result<Target> target = co_await find_target(std::move(path));
    if (!target) {
        co_return failure(target.error());
    }
    const std::string temporary = temporary_name(target->path);
    Result<> done;
    try {
        done = co_await write_new_file(temporary, *target, how, fill);
        if (done) {
            done = co_await rename(temporary, target->path);
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
    if (!how.sync) {
        co_return done;
    }
    // The file is replaced, so a cancellation that comes now must not look like one that left it.
    co_return co_await shield(sync_folder(target->path));
}

} // namespace penstock::fs::detail
