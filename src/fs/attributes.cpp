#include <penstock/fs/attributes.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <penstock/bridge/to_thread.hpp>

namespace penstock::fs {

namespace {

bool has_zero(std::string_view first, std::string_view second = {}) noexcept {
    return first.contains('\0') || second.contains('\0');
}

/// Calls a function that returns -1 and sets errno on a worker thread.
template <typename Function> Task<Result<>> change(Function function) {
    co_return co_await to_thread([&function]() -> Result<> {
        if (function() != 0) {
            return last_failure();
        }
        return {};
    });
}

timespec native_time(const std::optional<Status::Time>& time) noexcept {
    if (!time) {
        return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    }
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*time);
    return {.tv_sec = seconds.time_since_epoch().count(), .tv_nsec = (*time - seconds).count()};
}

/// Calls a function that fills a buffer, or returns the size that it needs for none. The content
/// may grow between the two.
template <typename Content, typename Function> Task<Result<Content>> read_sized(Function function) {
    co_return co_await to_thread([&function]() -> Result<Content> {
        for (;;) {
            const ssize_t needed = function(nullptr, std::size_t{0});
            if (needed < 0) {
                return last_failure();
            }
            Content content;
            content.resize(static_cast<std::size_t>(needed));
            if (needed == 0) {
                return content;
            }
            const ssize_t size = function(content.data(), content.size());
            if (size >= 0) {
                content.resize(static_cast<std::size_t>(size));
                return content;
            }
            if (errno != ERANGE) {
                return last_failure();
            }
        }
    });
}

} // namespace

Task<Result<>> set_permissions(std::string path, mode_t permissions) {
    if (has_zero(path)) {
        co_return failure(std::errc::invalid_argument);
    }
    co_return co_await change([&] { return ::chmod(path.c_str(), permissions); });
}

Task<Result<>> set_owner(std::string path, Owner owner, bool follow) {
    if (has_zero(path)) {
        co_return failure(std::errc::invalid_argument);
    }
    constexpr auto same_user = static_cast<uid_t>(-1);
    constexpr auto same_group = static_cast<gid_t>(-1);
    co_return co_await change([&] {
        return ::fchownat(AT_FDCWD, path.c_str(), owner.user.value_or(same_user),
                          owner.group.value_or(same_group), follow ? 0 : AT_SYMLINK_NOFOLLOW);
    });
}

Task<Result<>> set_times(std::string path, FileTimes times, bool follow) {
    if (has_zero(path)) {
        co_return failure(std::errc::invalid_argument);
    }
    const std::array<timespec, 2> both{native_time(times.accessed), native_time(times.modified)};
    co_return co_await change([&] {
        return ::utimensat(AT_FDCWD, path.c_str(), both.data(), follow ? 0 : AT_SYMLINK_NOFOLLOW);
    });
}

Task<Result<std::vector<std::byte>>> attribute(std::string path, std::string name, bool follow) {
    if (has_zero(path, name)) {
        co_return failure(std::errc::invalid_argument);
    }
    const auto get = follow ? &::getxattr : &::lgetxattr;
    co_return co_await read_sized<std::vector<std::byte>>(
        [&](void* into, std::size_t size) { return get(path.c_str(), name.c_str(), into, size); });
}

Task<Result<>> set_attribute(std::string path, std::string name, Bytes value, bool follow) {
    if (has_zero(path, name)) {
        co_return failure(std::errc::invalid_argument);
    }
    const auto set = follow ? &::setxattr : &::lsetxattr;
    co_return co_await change(
        [&] { return set(path.c_str(), name.c_str(), value.data(), value.size(), 0); });
}

Task<Result<>> remove_attribute(std::string path, std::string name, bool follow) {
    if (has_zero(path, name)) {
        co_return failure(std::errc::invalid_argument);
    }
    const auto remove = follow ? &::removexattr : &::lremovexattr;
    co_return co_await change([&] { return remove(path.c_str(), name.c_str()); });
}

Task<Result<std::vector<std::string>>> attribute_names(std::string path, bool follow) {
    if (has_zero(path)) {
        co_return failure(std::errc::invalid_argument);
    }
    const auto list = follow ? &::listxattr : &::llistxattr;
    const Result<std::string> joined = co_await read_sized<std::string>(
        [&](char* into, std::size_t size) { return list(path.c_str(), into, size); });
    if (!joined) {
        co_return failure(joined.error());
    }
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < joined->size();) {
        const std::size_t end = joined->find('\0', begin);
        names.push_back(joined->substr(begin, end - begin));
        begin = end == std::string::npos ? joined->size() : end + 1;
    }
    co_return names;
}

} // namespace penstock::fs
