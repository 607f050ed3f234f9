// Every function of fs:: where a sandbox denies a system call: it does the same in another way.

#include <cerrno>
#include <cstdio>
#include <string>
#include <tuple>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <penstock/fs/file.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/fs/temporary_directory.hpp>
#include <penstock/fs/tree.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/unwrap.hpp>

#include "support/child_process.hpp"
#include "support/denied_calls.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::unwrap;
using penstock::testing::deny_system_call;
using penstock::testing::in_child_process;
using penstock::testing::replaceable_calls;
using penstock::testing::SystemCall;

/// The line of the first function with a wrong outcome; 0 if there is none.
Task<Result<int>> first_failure() {
    fs::TemporaryDirectory folder = co_await unwrap(fs::TemporaryDirectory::create());
    const std::string path = folder.path() + "/file";
    const std::string other = folder.path() + "/other";
    const penstock::Bytes content("content");

    co_await unwrap(fs::write_file(path, content));
    co_await unwrap(fs::write_file(path, content, {.atomic = true, .permissions = 0640}));
    if (co_await unwrap(fs::read_text(path)) != "content" ||
        co_await unwrap(fs::copy_file(path, other)) != 7 ||
        co_await unwrap(fs::read_text(other)) != "content") {
        co_return __LINE__;
    }
    const fs::Status status = co_await unwrap(fs::status(path));
    if (status.size != 7 || status.type != fs::FileType::regular ||
        !co_await unwrap(fs::exists(path)) || co_await unwrap(fs::exists(path + "x"))) {
        co_return __LINE__;
    }
    co_await unwrap(fs::remove_file(other));
    co_await unwrap(fs::rename_new(path, other));
    co_await unwrap(fs::create_link(other, path));
    const Result<> refused = co_await fs::rename_new(path, other);
    if (refused || refused.error() != std::errc::file_exists) {
        co_return __LINE__;
    }
    co_await unwrap(fs::rename(path, path + "2"));
    co_await unwrap(fs::create_symlink("other", path));
    if (co_await unwrap(fs::read_symlink(path)) != "other" ||
        !(co_await unwrap(fs::canonical(path))).ends_with("/other") ||
        (co_await unwrap(fs::space(path))).capacity == 0) {
        co_return __LINE__;
    }

    fs::File file = co_await unwrap(fs::File::open(other, {.write = true}));
    co_await unwrap(file.write_all_at(2, penstock::Bytes("XY")));
    std::string bytes(7, '#');
    if (co_await unwrap(file.read_at(0, bytes)) != 7 || bytes != "coXYent") {
        co_return __LINE__;
    }
    if (co_await unwrap(file.read(bytes)) != 7 || file.position().value_or(0) != 7) {
        co_return __LINE__;
    }
    co_await unwrap(file.write_all(penstock::Bytes("!")));
    co_await unwrap(file.sync());
    co_await unwrap(file.sync_data());
    co_await unwrap(file.truncate(3));
    if ((co_await unwrap(file.status())).size != 3) {
        co_return __LINE__;
    }
    co_await unwrap(file.close());

    co_await unwrap(fs::create_directories(folder.path() + "/deep/deeper"));
    co_await unwrap(fs::create_directory(folder.path() + "/empty"));
    co_await unwrap(fs::remove_directory(folder.path() + "/empty"));
    co_await unwrap(fs::write_file(folder.path() + "/deep/deeper/file", content));
    std::size_t entries = 0;
    auto walk = fs::walk(folder.path());
    while (const auto entry = co_await walk.next()) {
        if (!*entry) {
            co_return __LINE__;
        }
        ++entries;
    }
    // file, file2, other, deep, deeper, file
    if (entries != 6 || (co_await unwrap(fs::read_directory(folder.path()))).size() != 4 ||
        co_await unwrap(fs::remove_all(folder.path() + "/deep")) != 3) {
        co_return __LINE__;
    }
    co_await unwrap(folder.remove());
    co_return co_await unwrap(fs::exists(other)) ? __LINE__ : 0;
}

class DeniedCallOfFiles : public ::testing::TestWithParam<std::tuple<SystemCall, int>> {};

TEST_P(DeniedCallOfFiles, IsReplacedByAnotherWay) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "this sanitizer does not let the child of a fork start threads";
    }
    const auto& [call, error] = GetParam();
    const int result = in_child_process([&] {
        if (!deny_system_call(call.number, error)) {
            return penstock::testing::could_not_be_tried;
        }
        const Result<int> line = run(first_failure());
        if (!line || *line != 0) {
            const std::string why = line ? "line " + std::to_string(*line) : line.error().message();
            std::fprintf(stderr, "%s\n", why.c_str());
            return 1;
        }
        return 0;
    });
    if (result == penstock::testing::could_not_be_tried) {
        GTEST_SKIP() << "seccomp is refused here";
    }
    EXPECT_EQ(result, 0);
}

INSTANTIATE_TEST_SUITE_P(Each, DeniedCallOfFiles,
                         ::testing::Combine(::testing::ValuesIn(replaceable_calls),
                                            ::testing::Values(EPERM, ENOSYS)),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param).name) +
                                    (std::get<1>(test.param) == EPERM ? "_EPERM" : "_ENOSYS");
                         });

} // namespace
