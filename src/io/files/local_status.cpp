#include <penstock/io/files/local_status.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace penstock::io {

namespace {

constexpr unsigned unique_mount_id = local_status_mask & ~STATX_BASIC_STATS;

constexpr std::array<std::string_view, 3> types_in_memory{"tmpfs", "ramfs", "devtmpfs"};

/// And those of FUSE, whose names begin with it.
constexpr std::array<std::string_view, 11> remote_types{
    "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "lustre", "coda", "vboxsf", "virtiofs"};

Storage storage_of_type(std::string_view type) noexcept {
    const auto is_in = [&](const auto& types) {
        return std::ranges::find(types, type) != types.end();
    };
    if (is_in(types_in_memory)) {
        return Storage::memory;
    }
    if (type == "overlay") {
        return Storage::layers;
    }
    return is_in(remote_types) || type.starts_with("fuse") ? Storage::remote : Storage::unknown;
}

/// The type of file system in a line of /proc/self/mountinfo (proc_pid_mountinfo(5)), if the line
/// is of that device: the third field is the device, the first one behind " - " is the type.
std::string_view type_in(const char* line, unsigned device_major, unsigned device_minor) {
    unsigned major = 0;
    unsigned minor = 0;
    if (std::sscanf(line, "%*u %*u %u:%u ", &major, &minor) != 2 || major != device_major ||
        minor != device_minor) {
        return {};
    }
    const std::string_view text(line);
    constexpr std::string_view separator = " - "; // a space in a path is written as \040
    const std::size_t place = text.find(separator);
    if (place == std::string_view::npos) {
        return {};
    }
    const std::string_view rest = text.substr(place + separator.size());
    return rest.substr(0, rest.find(' '));
}

/// What the mount table says of a device. It asks no file system.
Storage find_storage(unsigned device_major, unsigned device_minor) noexcept {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> table(
        std::fopen("/proc/self/mountinfo", "re"), &std::fclose);
    if (!table) {
        return Storage::unknown;
    }
    char* line = nullptr;
    std::size_t capacity = 0;
    Storage found = Storage::unknown;
    while (found == Storage::unknown) {
        if (::getline(&line, &capacity, table.get()) < 0) {
            break;
        }
        found = storage_of_type(type_in(line, device_major, device_minor));
    }
    std::free(line); // NOLINT(cppcoreguidelines-no-malloc): of getline
    return found;
}

struct Verdict {
    std::uint64_t mount = 0; ///< 0 is no mount's number
    Storage storage = Storage::unknown;
};

thread_local std::array<Verdict, 8> verdicts;
thread_local std::size_t oldest = 0;

} // namespace

Storage storage_of(const struct statx& status) noexcept {
    if (status.stx_dev_major != 0) {
        return Storage::device;
    }
    // The device number alone is given again after an unmount, and then to any file system.
    if ((status.stx_mask & unique_mount_id) == 0) {
        return Storage::unknown;
    }
    const auto* known = std::ranges::find(verdicts, status.stx_mnt_id, &Verdict::mount);
    if (known != verdicts.end()) {
        return known->storage;
    }
    const Storage storage = find_storage(status.stx_dev_major, status.stx_dev_minor);
    verdicts[oldest++ % verdicts.size()] = {.mount = status.stx_mnt_id, .storage = storage};
    return storage;
}

} // namespace penstock::io
