#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <penstock/http/request.hpp>
#include <penstock/http/response.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/result.hpp>
#include <penstock/task/task.hpp>

namespace penstock::http {

struct StaticFileOptions {
    /// The file that answers a request for a folder. Empty: 404.
    std::string index = "index.html";
    /// The Cache-Control field. Empty: none, and clients decide.
    std::string cache_control{};
    /// Serves names that begin with a dot. ".well-known" is always served.
    bool hidden = false;
    /// Sends "a.css.br", "a.css.zst" or "a.css.gz" for "a.css", with its media type and the coding
    /// in Content-Encoding, to clients that accept it (RFC 9110, section 12.5.3). The original must
    /// exist, and a sibling that is older than the original is not used. Each response has Vary.
    bool coded_siblings = false;
    /// Media types by file extension, before the built-in ones: {"wasm", "application/wasm"}.
    std::vector<std::pair<std::string, std::string>> media_types{};
};

/// The files of a folder as responses to GET and HEAD: with media type, ETag and Last-Modified,
/// conditional requests (If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since: 304, 412;
/// RFC 9110, section 13) and ranges (Range, If-Range: 206, 416; section 14). A request for several
/// ranges gets the whole file. Files over 16 KiB go through sendfile(2) where the connection is a
/// socket.
///
/// A path cannot leave the folder. The kernel resolves it beneath the folder (openat2(2),
/// RESOLVE_BENEATH), so symbolic links are followed as long as they stay inside, and absolute ones
/// never. Where a kernel before 5.6 or a container refuses openat2, no symbolic links are followed.
/// A path with dot segments, or of anything but a regular file, gets 404.
///
/// With `StaticFileOptions::coded_siblings`, a coded sibling has its own ETag, and ranges count its
/// bytes.
///
/// A path that the kernel cannot resolve from its caches is looked up on a worker thread.
///
/// Thread safety: any number of tasks of one thread may use it.
class StaticFiles {
public:
    /// Errors: those of open(2), such as `no_such_file_or_directory` and `not_a_directory`.
    [[nodiscard]] static Result<StaticFiles> open(std::string_view folder,
                                                  const StaticFileOptions& options = {});

    /// Answers a request with the file at `path`, which is relative to the folder and decoded. This
    /// object must outlive the task. Errors: those of reading the file and of
    /// `Response::write_all`, and `bad_file_descriptor` if this object was moved from.
    [[nodiscard]] Task<Result<>> serve(Request& request, Response& response,
                                       std::string path) const;

private:
    StaticFiles(OwnedDescriptor folder, StaticFileOptions options) noexcept
        : folder_(std::move(folder)), options_(std::move(options)) {}

    [[nodiscard]] std::string_view media_type_of(std::string_view path) const noexcept;

    OwnedDescriptor folder_;
    StaticFileOptions options_;
};

} // namespace penstock::http
