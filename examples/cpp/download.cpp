// Downloads files, several at a time, into a folder. A file gets its name when it is complete.
//
//     download FOLDER LIMIT URL...

#include <penstock/http/client.hpp>
#include <penstock/penstock.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace penstock;

namespace {

std::string file_name(const std::string& url) {
    const std::string path = url.substr(0, url.find_first_of("?#"));
    const std::string name = path.substr(path.rfind('/') + 1);
    return name.empty() ? "index.html" : name;
}

Task<Result<std::uint64_t>> save(http::ClientResponse& response, const std::string& path) {
    fs::File file = co_await unwrap(fs::File::open(path, fs::OpenOptions::writing()));
    const std::uint64_t size = co_await unwrap(copy(response, file));
    co_await unwrap(file.close());
    co_return size;
}

// Returns a line about the download. Its own failure does not end the others.
Task<std::string> download(http::Client& client, const std::string& folder,
                           const std::string& url) {
    Result<http::ClientResponse> response = co_await client.send({.url = url});
    if (!response) {
        co_return response.error().message();
    }
    if (!http::is_success(response->status())) {
        co_return url + ": " + std::to_string(http::code(response->status()));
    }
    const std::string path = folder + "/" + file_name(url);
    const std::string part = path + ".part";
    const Result<std::uint64_t> size = co_await save(*response, part);
    const Result<> named = size ? co_await fs::rename(part, path) : Result<>(failure(size.error()));
    if (!named) {
        (void)co_await shield(fs::remove_file(part));
        co_return url + ": " + named.error().message();
    }
    co_return path + ": " + std::to_string(*size) + " bytes";
}

Task<Result<>> download_all(std::string folder, std::size_t limit, std::vector<std::string> urls) {
    http::Client client;
    const auto one = [&](const std::string& url) { return download(client, folder, url); };
    for (const std::string& line : co_await unwrap(map_concurrent(urls, limit, one))) {
        std::puts(line.c_str());
    }
    co_return Result<>();
}

} // namespace

int main(int count, char** arguments) {
    if (count < 4) {
        std::fprintf(stderr, "download FOLDER LIMIT URL...\n");
        return 2;
    }
    const std::vector<std::string> urls(arguments + 3, arguments + count);
    const auto limit = static_cast<std::size_t>(std::atoi(arguments[2]));
    const Result<> downloaded = run(download_all(arguments[1], limit, urls));
    if (!downloaded) {
        std::fprintf(stderr, "download: %s\n", downloaded.error().message().c_str());
        return 1;
    }
}
