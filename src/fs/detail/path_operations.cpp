#include <penstock/fs/detail/path_operations.hpp>

#include <cerrno>
#include <memory>
#include <new>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h> // NOLINT(modernize-deprecated-headers): RENAME_NOREPLACE is not C++'s

namespace penstock::fs::detail {

namespace {

std::error_code check(std::string_view first, std::string_view second = {}) noexcept {
    const bool bad =
        first.find('\0') != std::string_view::npos || second.find('\0') != std::string_view::npos;
    return bad ? std::make_error_code(std::errc::invalid_argument) : std::error_code();
}

FileType type_of(const dirent& entry) noexcept {
    return file_type(static_cast<mode_t>(DTTOIF(entry.d_type)));
}

struct CloseDirectory {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
};

} // namespace

PathOperation::PathOperation(What what, std::string_view path, std::string_view other, mode_t mode)
    : FileSystemOperation(check(path, other)), path_(path), other_(other), mode_(mode),
      what_(what) {}

void PathOperation::describe(io::FileOperation& request) const noexcept {
    switch (what_) {
    case What::rename:
        return request.to_rename(path_.c_str(), other_.c_str());
    case What::rename_new:
        return request.to_rename(path_.c_str(), other_.c_str(), RENAME_NOREPLACE);
    case What::remove_file:
        return request.to_unlink(path_.c_str());
    case What::remove_directory:
        return request.to_unlink(path_.c_str(), AT_REMOVEDIR);
    case What::create_directory:
        return request.to_make_directory(path_.c_str(), mode_);
    case What::create_link:
        return request.to_link(path_.c_str(), other_.c_str());
    case What::create_symlink:
        return request.to_make_symlink(path_.c_str(), other_.c_str());
    }
}

ListOperation::ListOperation(std::string_view path)
    : FileSystemOperation(check(path)), path_(path) {}

void ListOperation::describe(io::FileOperation& request) const noexcept {
    request.to_call(&list);
}

std::int64_t ListOperation::list(io::FileOperation& request) {
    ListOperation& self = derived_of(request);
    const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(self.path_.c_str()));
    if (!directory) {
        return -errno;
    }
    try {
        for (;;) {
            errno = 0;
            const dirent* entry =
                ::readdir(directory.get()); // NOLINT(concurrency-mt-unsafe): own DIR
            if (entry == nullptr) {
                return -errno;
            }
            std::string_view name(entry->d_name);
            if (name != "." && name != "..") {
                self.entries_.push_back({.name = std::string(name), .type = type_of(*entry)});
            }
        }
    } catch (const std::bad_alloc&) {
        return -ENOMEM;
    }
}

} // namespace penstock::fs::detail
