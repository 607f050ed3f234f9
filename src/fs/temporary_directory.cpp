#include <penstock/fs/temporary_directory.hpp>

#include <cstdlib>
#include <new>
#include <system_error>

#include <unistd.h>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/fs/tree.hpp>

#include "fs/detail/remove_tree.hpp"

namespace penstock::fs {

Task<Result<TemporaryDirectory>> TemporaryDirectory::create(std::string prefix,
                                                            std::string parent) {
    if (prefix.contains('/') || prefix.contains('\0') || parent.contains('\0')) {
        co_return failure(std::errc::invalid_argument);
    }
    if (parent.empty()) {
        const char* configured = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe)
        parent = configured != nullptr && *configured != '\0' ? configured : "/tmp";
    }
    std::string path = std::move(parent) + "/" + prefix + "XXXXXX";
    const Result<> made = co_await to_thread([&]() -> Result<> {
        if (::mkdtemp(path.data()) == nullptr) {
            return last_failure();
        }
        return {};
    });
    if (!made) {
        co_return failure(made.error());
    }
    co_return TemporaryDirectory(std::move(path), ::getpid());
}

TemporaryDirectory::~TemporaryDirectory() {
    if (!path_.empty() && owner_ == ::getpid()) {
        try {
            (void)detail::remove_tree(path_);
        } catch (const std::bad_alloc&) { // NOLINT(bugprone-empty-catch): as other errors
        }
    }
}

Task<Result<>> TemporaryDirectory::remove() {
    if (path_.empty()) {
        co_return Result<>();
    }
    const Result<std::uint64_t> removed = co_await remove_all(path_);
    if (!removed) {
        co_return failure(removed.error());
    }
    path_.clear();
    co_return Result<>();
}

} // namespace penstock::fs
