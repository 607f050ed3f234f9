#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace penstock::testing {

/// A folder for one test, removed with its content.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "penstock-XXXXXX").string();
        if (::mkdtemp(name.data()) == nullptr) {
            throw std::system_error(errno, std::system_category(), "mkdtemp");
        }
        path_ = name;
    }
    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] std::string path(std::string_view name) const { return (path_ / name).string(); }

    void fill(std::string_view name, std::string_view content) const {
        std::ofstream(path(name), std::ios::binary) << content;
    }

    /// Creates a file and returns its path.
    [[nodiscard]] std::string file(std::string_view name, std::string_view content = {}) const {
        fill(name, content);
        return path(name);
    }

    [[nodiscard]] std::string content(std::string_view name) const {
        std::ifstream stream(path(name), std::ios::binary);
        std::string text;
        // By bytes, an instrumented test needs half a second for each of the sparse files.
        std::vector<char> block(1U << 20);
        while (stream.read(block.data(), static_cast<std::streamsize>(block.size())) ||
               stream.gcount() > 0) {
            text.append(block.data(), static_cast<std::size_t>(stream.gcount()));
        }
        return text;
    }

private:
    std::filesystem::path path_;
};

} // namespace penstock::testing
