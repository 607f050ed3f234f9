#include <penstock/http/static_files.hpp>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/bridge/to_thread.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/http/content.hpp>

#include "http/content_negotiation.hpp"
#include "http/media_type.hpp"

namespace penstock::http {

namespace {

// O_NONBLOCK: opening a FIFO must not wait for its writer.
constexpr int open_flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

/// Opens a path beneath a folder. A negated errno otherwise.
int open_beneath(int folder, const char* path, std::uint64_t resolve) noexcept {
    open_how how{};
    how.flags = open_flags;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve;
    const auto fd = static_cast<int>(::syscall(SYS_openat2, folder, path, &how, sizeof how));
    return fd >= 0 ? fd : -errno;
}

/// The same without openat2: no segment may be a symbolic link.
int open_step_by_step(int folder, std::string_view path) noexcept {
    OwnedDescriptor at;
    for (;;) {
        const std::string_view segment = path.substr(0, path.find('/'));
        path.remove_prefix(segment.size());
        std::array<char, 256> name{};
        if (segment.size() >= name.size()) {
            return -ENAMETOOLONG;
        }
        segment.copy(name.data(), segment.size());
        const int flags = path.empty() ? open_flags : O_PATH | O_DIRECTORY | O_CLOEXEC;
        at.reset(::openat(at ? at.get() : folder, name.data(), flags | O_NOFOLLOW));
        if (!at) {
            return -errno;
        }
        if (path.empty()) {
            return at.release();
        }
        path.remove_prefix(1);
    }
}

int open_on_worker(int folder, const std::string& path) noexcept {
    const int fd = open_beneath(folder, path.c_str(), 0);
    return fd == -ENOSYS || fd == -EPERM ? open_step_by_step(folder, path) : fd;
}

Task<int> open_path(int folder, const std::string& path) {
    const int cached = open_beneath(folder, path.c_str(), RESOLVE_CACHED);
    // EINVAL: a kernel before 5.12 does not know RESOLVE_CACHED.
    if (cached != -EAGAIN && cached != -EINVAL && cached != -ENOSYS && cached != -EPERM) {
        co_return cached;
    }
    const Result<int> opened =
        co_await to_thread([folder, &path] { return open_on_worker(folder, path); });
    co_return opened ? *opened : -ECANCELED;
}

/// Whether each segment is a name: not empty, no dot segment, not hidden.
bool is_servable(std::string_view path, bool hidden) noexcept {
    for (;;) {
        const std::string_view segment = path.substr(0, path.find('/'));
        if (segment.empty() || segment == "." || segment == ".." ||
            segment.find('\0') != std::string_view::npos ||
            (segment.front() == '.' && !hidden && segment != ".well-known")) {
            return false;
        }
        if (segment.size() == path.size()) {
            return true;
        }
        path.remove_prefix(segment.size() + 1);
    }
}

void answer(Response& response, Status status) {
    response.status(status);
    response.header("Content-Type", "text/plain; charset=utf-8");
    response.body(std::to_string(code(status)) + " " + std::string(reason(status)) + "\n");
}

Status status_of(int error) noexcept {
    switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case EXDEV: // outside of the folder
    case ENAMETOOLONG:
    case ENXIO:
    case EINVAL:
        return Status::not_found;
    case EACCES:
    case EPERM:
        return Status::forbidden;
    default:
        return Status::service_unavailable;
    }
}

unsigned long long modified_at(const struct stat& status) noexcept {
    return static_cast<unsigned long long>(status.st_mtim.tv_sec) * 1'000'000'000ULL +
           static_cast<unsigned long long>(status.st_mtim.tv_nsec);
}

/// Strong: it changes with each write that the file system's clock can tell apart. A coding is a
/// representation of its own, even if its size and time are those of the original.
std::string entity_tag(const struct stat& status, std::string_view coding) {
    std::array<char, 64> text{};
    const int size =
        std::snprintf(text.data(), text.size(), "\"%llx-%llx%s%.*s\"",
                      static_cast<unsigned long long>(status.st_size), modified_at(status),
                      coding.empty() ? "" : "-", static_cast<int>(coding.size()), coding.data());
    return {text.data(), static_cast<std::size_t>(size)};
}

/// The codings that a file beside the original may have. What is made once is made as small as can
/// be, so "br" comes first.
constexpr std::array<std::string_view, 3> ready_codings{"br", "zstd", "gzip"};
constexpr std::array<std::string_view, 3> ready_extensions{".br", ".zst", ".gz"};

/// What is sent for a file: itself, or a sibling that is coded.
struct Chosen {
    fs::File file;
    struct stat status{};
    std::string_view coding{};
};

/// Takes the coded sibling that the client prefers, if there is one that is not older than the
/// original. Changes the path. An error only if the task was cancelled.
Task<Result<>> choose_sibling(int folder, std::string& path, const Request& request,
                              Chosen& chosen) {
    std::array<std::string_view, 3> codings = ready_codings;
    const std::size_t size = path.size();
    while (const std::optional<std::size_t> wanted = negotiate_coding(request.fields(), codings)) {
        codings[*wanted] = {};
        path.resize(size);
        path += ready_extensions[*wanted];
        const int fd = co_await open_path(folder, path);
        if (fd == -ECANCELED) {
            co_return failure(std::errc::operation_canceled);
        }
        if (fd < 0) {
            continue;
        }
        fs::File file{OwnedDescriptor(fd)};
        struct stat status{};
        if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
            modified_at(status) >= modified_at(chosen.status)) {
            chosen = {.file = std::move(file), .status = status, .coding = ready_codings[*wanted]};
            co_return Result<>();
        }
    }
    co_return Result<>();
}

} // namespace

Result<StaticFiles> StaticFiles::open(std::string_view folder, const StaticFileOptions& options) {
    if (folder.contains('\0')) {
        return failure(std::errc::invalid_argument);
    }
    const std::string path(folder);
    OwnedDescriptor descriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!descriptor) {
        return last_failure();
    }
    return StaticFiles(std::move(descriptor), options);
}

std::string_view StaticFiles::media_type_of(std::string_view path) const noexcept {
    const std::string_view extension = extension_of(path);
    for (const auto& [name, type] : options_.media_types) {
        if (codec::http::equal_ignoring_case(name, extension)) {
            return type;
        }
    }
    return media_type_of_extension(extension);
}

Task<Result<>> StaticFiles::serve(Request& request, Response& response, std::string path) const {
    if (!folder_) {
        co_return failure(std::errc::bad_file_descriptor);
    }
    if (path.empty() || path.ends_with('/')) {
        path += options_.index;
    }
    if (!is_servable(path, options_.hidden)) {
        answer(response, Status::not_found);
        co_return Result<>();
    }
    const int fd = co_await open_path(folder_.get(), path);
    if (fd == -ECANCELED) {
        co_return failure(std::errc::operation_canceled);
    }
    if (fd < 0) {
        answer(response, status_of(-fd));
        co_return Result<>();
    }
    Chosen chosen{.file = fs::File{OwnedDescriptor(fd)}};
    if (::fstat(fd, &chosen.status) != 0) {
        co_return last_failure();
    }
    if (S_ISDIR(chosen.status.st_mode) && !options_.index.empty()) { // so that relative links work
        std::string location(request.path());
        location += '/';
        if (!request.query().empty()) {
            location.append("?").append(request.query());
        }
        answer(response, Status::moved_permanently);
        response.header("Location", location);
        co_return Result<>();
    }
    if (!S_ISREG(chosen.status.st_mode)) {
        answer(response, Status::not_found);
        co_return Result<>();
    }
    const std::string_view type = media_type_of(path);
    if (options_.coded_siblings) {
        append_vary(response.headers()); // whether there is one or not: it may come
        if (const Result<> looked = co_await choose_sibling(folder_.get(), path, request, chosen);
            !looked) {
            co_return looked;
        }
    }
    const std::optional<ContentRange> range = begin_content(
        request, response,
        {.size = static_cast<std::uint64_t>(chosen.status.st_size),
         .content_type = std::string(type),
         .entity_tag = entity_tag(chosen.status, chosen.coding),
         .modified = std::chrono::sys_seconds(std::chrono::seconds(chosen.status.st_mtim.tv_sec)),
         .cache_control = options_.cache_control});
    if (!range) {
        co_return Result<>();
    }
    if (!chosen.coding.empty()) {
        response.header("Content-Encoding", chosen.coding);
    }
    co_return co_await response.send_file(chosen.file, range->begin, range->size);
}

} // namespace penstock::http
