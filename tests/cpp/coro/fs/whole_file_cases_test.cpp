// The cases of whole files that Python and C++ share: tests/whole_file_cases.txt.

#include <penstock/fs/paths.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <penstock/task/run.hpp>

#include "support/temporary_folder.hpp"

namespace {

using penstock::Result;
using penstock::run;
using penstock::testing::TemporaryFolder;
namespace fs = penstock::fs;

constexpr std::uintmax_t sparse_size = std::uintmax_t{64} << 20;

std::string octal(mode_t mode) {
    std::array<char, 8> digits{};
    (void)std::snprintf(digits.data(), digits.size(), "%04o", mode);
    return digits.data();
}

struct Case {
    std::string done;
    std::string source;
    std::string before;
    mode_t umask;
    std::string result;
    std::string after;

    [[nodiscard]] std::string shown() const {
        return done + " | " + source + " | " + before + " | " + octal(umask) + " | " + result;
    }
};

std::string trimmed(std::string_view text) {
    const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
    const std::size_t end = text.find_last_not_of(' ');
    return std::string(text.substr(begin, end - begin + 1));
}

std::vector<Case> read_cases() {
    std::vector<Case> cases;
    std::ifstream table(PENSTOCK_WHOLE_FILE_CASES);
    for (std::string line; std::getline(table, line);) {
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        std::vector<std::string> cells;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t end = std::min(line.find('|', begin), line.size());
            cells.push_back(trimmed(std::string_view(line).substr(begin, end - begin)));
            begin = end + 1;
        }
        cases.push_back({.done = cells.at(0),
                         .source = cells.at(1),
                         .before = cells.at(2),
                         .umask = static_cast<mode_t>(std::stoul(cells.at(3), nullptr, 8)),
                         .result = cells.at(4),
                         .after = cells.at(5)});
    }
    return cases;
}

std::string text_of(std::string_view word) {
    std::string text;
    for (int i = 0; i < 1000; ++i) {
        text += word;
    }
    return text;
}

const std::string old_content = text_of("old");
const std::string new_content = text_of("new!");

/// The folder of one case.
class CaseFolder {
public:
    [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }

    /// Creates what a cell of the table names. Returns false if this user may not.
    [[nodiscard]] bool make(const std::string& name, std::string_view what,
                            const std::string& content) const {
        const std::size_t space = what.find(' ');
        const std::string_view kind = what.substr(0, space);
        const std::string detail(space == std::string_view::npos ? "" : what.substr(space + 1));
        if (kind == "file") {
            folder_.fill(name, content);
        } else if (kind == "empty") {
            folder_.fill(name, "");
        } else if (kind == "sparse") {
            folder_.fill(name, content);
            std::filesystem::resize_file(path(name), sparse_size);
            std::fstream file(path(name), std::ios::in | std::ios::out | std::ios::binary);
            file.seekp(sparse_size / 2);
            file << content;
        } else if (kind == "folder") {
            std::filesystem::create_directory(path(name));
        } else if (kind == "fifo") {
            EXPECT_EQ(::mkfifo(path(name).c_str(), 0666), 0);
        } else if (kind == "socket") {
            sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
            std::ranges::copy(path(name), address.sun_path);
            const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            EXPECT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
            ::close(fd);
        } else if (kind == "device") {
            return ::mknod(path(name).c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0 ||
                   errno != EPERM;
        } else if (kind == "same") {
            std::filesystem::create_hard_link(path("source"), path(name));
        } else if (kind == "loop") {
            std::filesystem::create_symlink(name, path(name));
        } else if (kind == "link") {
            const std::string inside = "inside " + name;
            std::filesystem::create_symlink(inside, path(name));
            return make(inside, detail, content);
        } else {
            EXPECT_EQ(kind, "none");
        }
        if (kind == "file" || kind == "empty" || kind == "sparse") {
            const auto mode = static_cast<mode_t>(std::stoul(detail, nullptr, 8));
            EXPECT_EQ(::chmod(path(name).c_str(), mode), 0);
        }
        return true;
    }

    /// What is there, as the table says it.
    [[nodiscard]] std::string seen(const std::string& name) const {
        struct stat status{};
        if (::lstat(path(name).c_str(), &status) != 0) {
            return "none";
        }
        if (S_ISLNK(status.st_mode)) {
            const std::string inside = std::filesystem::read_symlink(path(name)).string();
            return inside == name ? "loop" : "link " + seen(inside);
        }
        struct stat source{};
        if (name != "source" && ::stat(path("source").c_str(), &source) == 0 &&
            source.st_ino == status.st_ino) {
            return "same";
        }
        if (S_ISREG(status.st_mode)) {
            const auto size = static_cast<std::uintmax_t>(status.st_size);
            const bool holes = static_cast<std::uintmax_t>(status.st_blocks) * 512 < size / 2;
            const std::string_view kind = size == 0             ? "empty"
                                          : size != sparse_size ? "file"
                                          : holes               ? "sparse"
                                                                : "filled";
            return std::string(kind) + " " + octal(status.st_mode & 07777U);
        }
        const std::map<mode_t, std::string> kinds{
            {S_IFDIR, "folder"}, {S_IFIFO, "fifo"}, {S_IFSOCK, "socket"}, {S_IFCHR, "device"}};
        return kinds.at(status.st_mode & S_IFMT);
    }

    [[nodiscard]] std::vector<std::string> names() const {
        std::vector<std::string> found;
        for (const auto& entry : std::filesystem::directory_iterator(path("."))) {
            found.push_back(entry.path().filename().string());
        }
        std::ranges::sort(found);
        return found;
    }

    [[nodiscard]] std::string content(const std::string& name) const {
        return folder_.content(name);
    }

private:
    TemporaryFolder folder_;
};

std::string name_of(const std::error_code& error) {
    const std::map<std::error_code, std::string> names{
        {{EISDIR, std::system_category()}, "EISDIR"},
        {{EINVAL, std::system_category()}, "EINVAL"},
        {{ELOOP, std::system_category()}, "ELOOP"},
        {{ENOENT, std::system_category()}, "ENOENT"},
        {{EEXIST, std::system_category()}, "same file"}};
    const auto found = names.find({error.value(), std::system_category()});
    return found == names.end() ? error.message() : found->second;
}

std::string result_of(const Case& tried, const std::string& source, const std::string& target) {
    if (tried.done == "copy") {
        const auto copied = run(fs::copy_file(source, target, {.sync = false}));
        return copied ? "ok" : name_of(copied.error());
    }
    const Result<> written =
        run(fs::write_file(target, new_content, {.atomic = tried.done == "replace"}));
    return written ? "ok" : name_of(written.error());
}

void check(const Case& tried) {
    const CaseFolder folder;
    if ((tried.source != "-" && !folder.make("source", tried.source, new_content)) ||
        !folder.make("target", tried.before, old_content)) {
        return; // only root may make a device
    }
    std::vector<std::string> expected = folder.names();

    const mode_t umask_before = ::umask(tried.umask);
    const std::string result = result_of(tried, folder.path("source"), folder.path("target"));
    ::umask(umask_before);

    EXPECT_EQ(result, tried.result);
    EXPECT_EQ(folder.seen("target"), tried.after);
    if (tried.result == "ok") {
        if (tried.before == "none") {
            expected.emplace_back("target");
        } else if (tried.before == "link none") {
            expected.emplace_back("inside target");
        }
        std::ranges::sort(expected);
        EXPECT_TRUE(folder.content("target") ==
                    (tried.source == "-" ? new_content : folder.content("source")));
    } else if (tried.before.contains("same")) {
        EXPECT_TRUE(folder.content("target") == new_content);
    } else if (tried.before.contains("file")) {
        EXPECT_TRUE(folder.content("target") == old_content);
    }
    EXPECT_EQ(folder.names(), expected);
}

TEST(WholeFileCases, AreAsTheTableSays) {
    const std::vector<Case> cases = read_cases();
    EXPECT_GT(cases.size(), 50U);
    for (const Case& each : cases) {
        SCOPED_TRACE(each.shown());
        check(each);
    }
}

} // namespace
