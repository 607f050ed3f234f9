#pragma once

// The bytes of an append log, format 2. `python/penstock/files/_log/log_format.py` is its other
// half, and tells why it is so.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include <penstock/result.hpp>
#include <penstock/stream/bytes.hpp>

namespace penstock::fs::detail {

using LogMarker = std::array<std::byte, 4>;

constexpr std::size_t log_file_header = 24;
constexpr std::size_t log_record_header = 28;
constexpr std::uint64_t largest_record = std::uint64_t{1} << 30U;
constexpr std::uint64_t largest_batch = std::uint64_t{64} << 20U;

[[nodiscard]] std::uint32_t crc32(Bytes data) noexcept;

/// Appends the first bytes of a log's file.
void encode_log_header(const LogMarker& marker, std::vector<std::byte>& into);

/// Appends a record at offset `place` of the file, of a commit that begins at `commit`.
void encode_record(const LogMarker& marker, std::uint64_t commit, std::uint64_t place,
                   Bytes payload, bool continued, std::vector<std::byte>& into);

/// The marker of the log that is open as `fd`; nothing if its creation was interrupted. Blocks.
[[nodiscard]] Result<std::optional<LogMarker>> read_log_marker(int fd);

/// Reads the records of a log, one after the other, and checks each. Blocks.
class LogScanner {
public:
    /// From a record at `offset` on, whose commit began at `commit`, up to `size`.
    LogScanner(int fd, const LogMarker& marker, std::uint64_t size,
               std::uint64_t offset = log_file_header, std::uint64_t commit = 0);

    /// The next record that is complete, with its whole batch; nothing at the end, or at a damage.
    [[nodiscard]] Result<std::optional<std::vector<std::byte>>> next();

    /// Whether the bytes at `offset` are certainly no record.
    [[nodiscard]] bool damaged() const noexcept { return damaged_; }
    [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
    [[nodiscard]] std::uint64_t end() const noexcept { return end_; } ///< of the last given record
    [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
    [[nodiscard]] std::uint64_t commit() const noexcept { return given_commit_; }
    [[nodiscard]] std::uint64_t earlier() const noexcept { return earlier_; } ///< of other commits

private:
    /// Makes `wanted` bytes from `offset_` on available. False at the end of the file.
    Result<bool> fill(std::uint64_t wanted);

    int fd_;
    LogMarker marker_;
    std::uint64_t size_;
    std::uint64_t offset_;
    std::uint64_t commit_;
    std::uint64_t end_;
    std::uint64_t count_ = 0;
    std::uint64_t given_commit_ = 0;
    std::uint64_t earlier_ = 0;
    std::vector<std::byte> buffer_;
    std::uint64_t buffer_at_;
    std::vector<std::vector<std::byte>> held_; ///< of a batch that is not complete
    std::deque<std::vector<std::byte>> given_;
    bool damaged_ = false;
};

/// Whether a header of a commit that began after `damaged_at` follows there. Blocks.
[[nodiscard]] Result<bool> later_commit_follows(int fd, const LogMarker& marker,
                                                std::uint64_t damaged_at, std::uint64_t size);

} // namespace penstock::fs::detail
