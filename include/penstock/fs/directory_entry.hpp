#pragma once

#include <string>

#include <penstock/fs/status.hpp>

namespace penstock::fs {

/// An entry of a directory.
struct DirectoryEntry {
    std::string name{};
    FileType type =
        FileType::unknown; ///< `unknown` if the file system does not report it; `status` does

    [[nodiscard]] friend bool operator==(const DirectoryEntry&, const DirectoryEntry&) = default;
};

} // namespace penstock::fs
