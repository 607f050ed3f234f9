#include "fs/log_format.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include <unistd.h>

#include <penstock/fs/append_log.hpp>

namespace penstock::fs::detail {

namespace {

constexpr std::string_view magic{"penstock log 2\n\0", 16};
constexpr std::string_view old_magic{"penstock log 1\n\0", 16};
constexpr std::uint32_t continued_bit = 1U << 31U;
constexpr std::size_t piece = std::size_t{1} << 20U;

using CrcTables = std::array<std::array<std::uint32_t, 256>, 8>;

/// For eight bytes at a time: table n is the checksum of a byte with n zeros behind it.
constexpr CrcTables crc_tables = [] {
    CrcTables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xEDB88320U : 0U);
        }
        tables[0][byte] = value;
    }
    for (std::size_t table = 1; table < tables.size(); ++table) {
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const std::uint32_t before = tables[table - 1][byte];
            tables[table][byte] = (before >> 8U) ^ tables[0][before & 0xFFU];
        }
    }
    return tables;
}();

template <typename Number> Number number_at(const std::byte* where) noexcept {
    Number value = 0;
    for (std::size_t index = sizeof(Number); index-- > 0;) {
        value = static_cast<Number>(value << 8U) | std::to_integer<Number>(where[index]);
    }
    return value;
}

template <typename Number> void put(std::vector<std::byte>& into, Number value) {
    for (std::size_t index = 0; index < sizeof(Number); ++index) {
        into.push_back(static_cast<std::byte>(value >> (8 * index)));
    }
}

struct Header {
    std::uint32_t length;
    bool continued;
    std::uint64_t commit;
    std::uint32_t checksum;
};

/// The header at `place` of the file; nothing if it is none.
std::optional<Header> parse(const std::byte* data, const LogMarker& marker,
                            std::uint64_t place) noexcept {
    if (!std::equal(marker.begin(), marker.end(), data) ||
        number_at<std::uint32_t>(data + 24) != crc32({data, 24})) {
        return std::nullopt;
    }
    const auto tagged = number_at<std::uint32_t>(data + 4);
    const auto own = number_at<std::uint64_t>(data + 8);
    const std::uint64_t distance = number_at<std::uint32_t>(data + 16);
    const std::uint32_t length = tagged & ~continued_bit;
    if (length > largest_record || own != place || distance + log_file_header > own) {
        return std::nullopt;
    }
    return Header{.length = length,
                  .continued = (tagged & continued_bit) != 0,
                  .commit = own - distance,
                  .checksum = number_at<std::uint32_t>(data + 20)};
}

/// Reads up to the end of the file.
Result<std::size_t> read_fully(int fd, std::byte* into, std::size_t size,
                               std::uint64_t offset) noexcept {
    std::size_t done = 0;
    while (done < size) {
        const ssize_t count =
            ::pread(fd, into + done, size - done, static_cast<off_t>(offset + done));
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count < 0) {
            return last_failure();
        }
        if (count == 0) {
            break;
        }
        done += static_cast<std::size_t>(count);
    }
    return done;
}

} // namespace

std::uint32_t crc32(Bytes data) noexcept {
    std::uint32_t value = 0xFFFFFFFFU;
    const std::byte* at = data.data();
    std::size_t left = data.size();
    for (; left >= 8; left -= 8, at += 8) {
        const std::uint32_t low = number_at<std::uint32_t>(at) ^ value;
        const auto high = number_at<std::uint32_t>(at + 4);
        value = crc_tables[7][low & 0xFFU] ^ crc_tables[6][(low >> 8U) & 0xFFU] ^
                crc_tables[5][(low >> 16U) & 0xFFU] ^ crc_tables[4][low >> 24U] ^
                crc_tables[3][high & 0xFFU] ^ crc_tables[2][(high >> 8U) & 0xFFU] ^
                crc_tables[1][(high >> 16U) & 0xFFU] ^ crc_tables[0][high >> 24U];
    }
    for (; left > 0; --left, ++at) {
        value =
            crc_tables[0][(value ^ std::to_integer<std::uint32_t>(*at)) & 0xFFU] ^ (value >> 8U);
    }
    return ~value;
}

void encode_log_header(const LogMarker& marker, std::vector<std::byte>& into) {
    const std::size_t begin = into.size();
    for (const char each : magic) {
        into.push_back(static_cast<std::byte>(each));
    }
    into.insert(into.end(), marker.begin(), marker.end());
    put(into, crc32({into.data() + begin, into.size() - begin}));
}

void encode_record(const LogMarker& marker, std::uint64_t commit, std::uint64_t place,
                   Bytes payload, bool continued, std::vector<std::byte>& into) {
    const std::size_t begin = into.size();
    into.insert(into.end(), marker.begin(), marker.end());
    put(into, static_cast<std::uint32_t>(payload.size()) | (continued ? continued_bit : 0U));
    put(into, place);
    put(into, static_cast<std::uint32_t>(place - commit));
    put(into, crc32(payload));
    put(into, crc32({into.data() + begin, into.size() - begin}));
    into.insert(into.end(), payload.begin(), payload.end());
}

Result<std::optional<LogMarker>> read_log_marker(int fd) {
    std::array<std::byte, log_file_header + 1> head{}; // the byte more tells whether more follows
    const Result<std::size_t> size = read_fully(fd, head.data(), head.size(), 0);
    if (!size) {
        return failure(size.error());
    }
    const auto begins = [&](std::string_view what) {
        return std::memcmp(head.data(), what.data(), std::min(what.size(), *size)) == 0;
    };
    if (*size >= log_file_header &&
        number_at<std::uint32_t>(&head[20]) == crc32({head.data(), 20})) {
        if (begins(magic)) {
            LogMarker marker{};
            std::copy_n(&head[16], marker.size(), marker.begin());
            return marker;
        }
        if (begins(old_magic)) {
            return failure(LogError::old_format);
        }
    }
    const bool zeros = std::all_of(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(*size),
                                   [](std::byte each) { return each == std::byte{0}; });
    if (*size <= log_file_header && (zeros || begins(magic) || begins(old_magic))) {
        return std::optional<LogMarker>();
    }
    return failure(LogError::not_a_log);
}

LogScanner::LogScanner(int fd, const LogMarker& marker, std::uint64_t size, std::uint64_t offset,
                       std::uint64_t commit)
    : fd_(fd), marker_(marker), size_(size), offset_(offset), commit_(commit), end_(offset),
      buffer_at_(offset) {}

Result<bool> LogScanner::fill(std::uint64_t wanted) {
    if (offset_ + wanted > size_) {
        return false; // a length beyond the end of the file is a torn end
    }
    const std::uint64_t have = buffer_at_ + buffer_.size() - offset_;
    if (have >= wanted) {
        return true;
    }
    std::vector<std::byte> next(static_cast<std::size_t>(
        std::min(std::max<std::uint64_t>(wanted, piece), size_ - offset_)));
    std::copy_n(buffer_.end() - static_cast<std::ptrdiff_t>(have), have, next.begin());
    const Result<std::size_t> count =
        read_fully(fd_, next.data() + have, next.size() - have, offset_ + have);
    if (!count) {
        return failure(count.error());
    }
    next.resize(static_cast<std::size_t>(have) + *count);
    buffer_ = std::move(next);
    buffer_at_ = offset_;
    return buffer_.size() >= wanted;
}

Result<std::optional<std::vector<std::byte>>> LogScanner::next() {
    while (given_.empty() && !damaged_) {
        Result<bool> there = fill(log_record_header);
        if (!there || !*there) {
            return there ? Result<std::optional<std::vector<std::byte>>>(std::nullopt)
                         : failure(there.error());
        }
        const std::optional<Header> header =
            parse(buffer_.data() + (offset_ - buffer_at_), marker_, offset_);
        if (!header ||
            (header->commit != commit_ && (header->commit != offset_ || !held_.empty()))) {
            damaged_ = true;
            break;
        }
        there = fill(log_record_header + header->length);
        if (!there || !*there) {
            return there ? Result<std::optional<std::vector<std::byte>>>(std::nullopt)
                         : failure(there.error());
        }
        const std::byte* payload = buffer_.data() + (offset_ - buffer_at_) + log_record_header;
        if (crc32({payload, header->length}) != header->checksum) {
            damaged_ = true;
            break;
        }
        held_.emplace_back(payload, payload + header->length);
        offset_ += log_record_header + header->length;
        commit_ = header->commit;
        if (header->continued) {
            continue;
        }
        if (header->commit != given_commit_) {
            given_commit_ = header->commit;
            earlier_ = count_;
        }
        count_ += held_.size();
        end_ = offset_;
        std::ranges::move(held_, std::back_inserter(given_));
        held_.clear();
    }
    if (given_.empty()) {
        return std::optional<std::vector<std::byte>>();
    }
    std::optional<std::vector<std::byte>> record(std::move(given_.front()));
    given_.pop_front();
    return record;
}

Result<bool> later_commit_follows(int fd, const LogMarker& marker, std::uint64_t damaged_at,
                                  std::uint64_t size) {
    std::vector<std::byte> data(piece);
    std::uint64_t position = damaged_at;
    while (position < size) {
        // A file system may have left gigabytes of holes behind a torn end.
        const off_t found = ::lseek(fd, static_cast<off_t>(position), SEEK_DATA);
        if (found < 0 && errno == ENXIO) {
            return false;
        }
        position = found < 0 ? position : std::max(position, static_cast<std::uint64_t>(found));
        const Result<std::size_t> count = read_fully(
            fd, data.data(),
            static_cast<std::size_t>(std::min<std::uint64_t>(piece, size - position)), position);
        if (!count) {
            return failure(count.error());
        }
        if (*count < log_record_header) {
            return false;
        }
        for (std::size_t at = 0; at + log_record_header <= *count; ++at) {
            const void* next =
                ::memmem(data.data() + at, *count - at, marker.data(), marker.size());
            if (next == nullptr) {
                break;
            }
            at = static_cast<std::size_t>(static_cast<const std::byte*>(next) - data.data());
            if (at + log_record_header > *count) {
                break;
            }
            const std::optional<Header> header = parse(data.data() + at, marker, position + at);
            if (header && header->commit > damaged_at) {
                return true;
            }
        }
        position += *count - (log_record_header - 1);
    }
    return false;
}

} // namespace penstock::fs::detail
