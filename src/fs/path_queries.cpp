#include <penstock/fs/paths.hpp>

#include <filesystem>
#include <system_error>
#include <utility>

#include <penstock/bridge/to_thread.hpp>

namespace penstock::fs {

namespace {

/// std::filesystem reports errors of the kernel in the generic category.
std::error_code of_kernel(std::error_code error) noexcept {
    return {error.value(), std::system_category()};
}

/// Calls a function of std::filesystem, which takes an error code last, on a worker thread.
template <typename Value, typename Function>
Task<Result<Value>> query(std::string path, Function function) {
    if (path.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    co_return co_await to_thread([&]() -> Result<Value> {
        std::error_code error;
        auto found = function(std::filesystem::path(std::move(path)), error);
        if (error) {
            return failure(of_kernel(error));
        }
        return Value(std::move(found));
    });
}

} // namespace

Task<Result<bool>> exists(std::string path) {
    const Result<Status> found = co_await status(path);
    if (found) {
        co_return true;
    }
    if (found.error() == std::errc::no_such_file_or_directory ||
        found.error() == std::errc::not_a_directory) {
        co_return false;
    }
    co_return failure(found.error());
}

Task<Result<std::string>> read_symlink(std::string path) {
    return query<std::string>(std::move(path),
                              [](const std::filesystem::path& link, std::error_code& error) {
                                  return std::filesystem::read_symlink(link, error).string();
                              });
}

Task<Result<std::string>> canonical(std::string path) {
    return query<std::string>(std::move(path),
                              [](const std::filesystem::path& any, std::error_code& error) {
                                  return std::filesystem::canonical(any, error).string();
                              });
}

Task<Result<Space>> space(std::string path) {
    return query<Space>(
        std::move(path), [](const std::filesystem::path& any, std::error_code& error) {
            const std::filesystem::space_info info = std::filesystem::space(any, error);
            return Space{.capacity = info.capacity, .free = info.free, .available = info.available};
        });
}

} // namespace penstock::fs
