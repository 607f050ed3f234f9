#pragma once

// Opening an append log's file: lock it, check every byte, cut off a torn end. Blocking functions.

#include <string>

#include <sys/types.h>

#include <penstock/fs/append_log.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>

#include "fs/log_format.hpp"

namespace penstock::fs::detail {

struct OpenedLog {
    OwnedDescriptor file;
    LogMarker marker{};
    Recovered recovered{};
};

[[nodiscard]] Result<OpenedLog> open_log_file(const std::string& path, mode_t permissions);

/// Writes all of `data` at `offset`.
[[nodiscard]] Result<> write_fully(int fd, Bytes data, std::uint64_t offset) noexcept;

} // namespace penstock::fs::detail
