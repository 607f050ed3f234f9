#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include <penstock/detail/io/file_system_operation.hpp>
#include <penstock/fs/directory_entry.hpp>

namespace penstock::fs::detail {

using penstock::detail::FileSystemOperation;

/// Operations on one or two paths, without a result.
class PathOperation final : public FileSystemOperation<PathOperation, void> {
public:
    enum class What : unsigned char {
        rename,
        rename_new,
        remove_file,
        remove_directory,
        create_directory,
        create_link,
        create_symlink,
    };

    PathOperation(What what, std::string_view path, std::string_view other = {}, mode_t mode = 0);
    void describe(io::FileOperation& request) const noexcept;

private:
    std::string path_;
    std::string other_;
    mode_t mode_;
    What what_;
};

class ListOperation final : public FileSystemOperation<ListOperation, std::vector<DirectoryEntry>> {
public:
    explicit ListOperation(std::string_view path);
    void describe(io::FileOperation& request) const noexcept;
    [[nodiscard]] std::vector<DirectoryEntry> result(std::int64_t /*answer*/) noexcept {
        return std::move(entries_);
    }

private:
    static std::int64_t list(io::FileOperation& request);

    std::string path_;
    std::vector<DirectoryEntry> entries_;
};

} // namespace penstock::fs::detail
