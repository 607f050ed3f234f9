// Prints the FNV-1a hash (64 bits) and the path of each file below a folder, in the order of their
// paths. The loop reads several files at a time, and the threads of a pool compute.
//
//     hash_files FOLDER

#include <penstock/penstock.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace penstock;

namespace {

// How many files are in memory at a time.
constexpr std::size_t most_files = 8;

std::uint64_t hash_of(Bytes content) noexcept {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const std::byte each : content) {
        hash = (hash ^ std::to_integer<std::uint64_t>(each)) * 0x100000001b3;
    }
    return hash;
}

// A sequence made of another one: only the files, without folders and links.
AsyncGenerator<Result<std::string>> files_below(std::string folder) {
    auto entries = fs::walk(std::move(folder));
    while (std::optional<Result<fs::WalkEntry>> entry = co_await entries.next()) {
        if (!*entry) {
            co_yield failure(entry->error());
        } else if ((*entry)->type == fs::FileType::regular) {
            co_yield std::move((*entry)->path);
        }
    }
}

Task<Result<std::string>> hash_file(CpuPool& pool, const std::string& path) {
    const std::vector<std::byte> content = co_await unwrap(fs::read_file(path));
    const std::uint64_t hash = co_await unwrap(pool.run([&] { return hash_of(content); }));
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(hash));
    co_return digits + ("  " + path);
}

Task<Result<>> hash_files(std::string folder) {
    std::vector<std::string> paths;
    auto files = files_below(std::move(folder));
    while (std::optional<Result<std::string>> path = co_await files.next()) {
        paths.push_back(co_await unwrap(std::move(*path)));
    }
    std::ranges::sort(paths);
    CpuPool pool("hash_files");
    const auto hash = [&](const std::string& path) { return hash_file(pool, path); };
    for (const std::string& line : co_await unwrap(map_concurrent(paths, most_files, hash))) {
        std::puts(line.c_str());
    }
    co_return Result<>();
}

} // namespace

int main(int count, char** arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: hash_files FOLDER\n");
        return 2;
    }
    const Result<> hashed = run(hash_files(arguments[1]));
    if (!hashed) {
        std::fprintf(stderr, "hash_files: %s\n", hashed.error().message().c_str());
        return 1;
    }
}
