// Every file operation where a sandbox denies a system call: it does the same in another way.

#include <penstock/io/files/choose_file_engine.hpp>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string>
#include <tuple>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/denied_calls.hpp"
#include "support/descriptors.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::choose_file_engine;
using penstock::io::FileEngine;
using penstock::io::FileEnginePreference;
using penstock::io::FileOperation;
using penstock::testing::deny_system_call;
using penstock::testing::in_child_process;
using penstock::testing::Pipe;
using penstock::testing::replaceable_calls;
using penstock::testing::run;
using penstock::testing::SystemCall;
using penstock::testing::TemporaryFolder;

constexpr auto current = FileOperation::current_position;

/// The line of the first operation with a wrong result; 0 if there is none.
int first_failure(FileEngine& engine, const std::string& folder) {
    const std::string path = folder + "/file";
    const std::string other = folder + "/other";
    const auto opened =
        run(engine, [&](auto& it) { it.to_open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600); });
    if (opened < 0) {
        return __LINE__;
    }
    const auto file = static_cast<int>(opened);
    if (run(engine, [&](auto& it) { it.to_write(file, "abc", 3, 0); }) != 3 ||
        run(engine, [&](auto& it) { it.to_write(file, "xyz", 3, current); }) != 3) {
        return __LINE__;
    }
    std::string bytes(8, '#');
    if (run(engine, [&](auto& it) { it.to_read(file, bytes.data(), 8, 1); }) != 2 ||
        bytes != "yz######") {
        return __LINE__;
    }
    std::array parts{iovec{.iov_base = bytes.data(), .iov_len = 1},
                     iovec{.iov_base = bytes.data() + 1, .iov_len = 7}};
    if (run(engine, [&](auto& it) { it.to_readv(file, parts.data(), 2, 0); }) != 3) {
        return __LINE__;
    }
    struct statx by_name{};
    struct statx by_descriptor{};
    if (run(engine, [&](auto& it) { it.to_stat(path.c_str(), by_name); }) != 0 ||
        run(engine, [&](auto& it) {
            it.to_stat("", by_descriptor, AT_EMPTY_PATH, STATX_BASIC_STATS, file);
        }) != 0) {
        return __LINE__;
    }
    if (by_name.stx_size != 3 || by_descriptor.stx_ino != by_name.stx_ino ||
        by_name.stx_mtime.tv_sec == 0 || !S_ISREG(by_name.stx_mode)) {
        return __LINE__;
    }
    if (run(engine, [&](auto& it) { it.to_rename(path.c_str(), other.c_str()); }) != 0 ||
        run(engine, [&](auto& it) { it.to_read_file(other.c_str(), bytes.data(), 8); }) != 3 ||
        run(engine, [&](auto& it) { it.to_unlink(other.c_str()); }) != 0 ||
        run(engine, [&](auto& it) { it.to_close(file); }) != 0) {
        return __LINE__;
    }
    const Pipe pipe;
    if (run(engine, [&](auto& it) { it.to_write(pipe.in.get(), "data", 4, current); }) != 4 ||
        run(engine, [&](auto& it) { it.to_read(pipe.out.get(), bytes.data(), 8, current); }) != 4) {
        return __LINE__;
    }
    return 0;
}

/// Runs the operations in a child with the call denied, before or after the engine is made.
int in_sandbox(const SystemCall& call, int error, FileEnginePreference preference, bool late) {
    const TemporaryFolder folder;
    return in_child_process([&] {
        if (!late && !deny_system_call(call.number, error)) {
            return penstock::testing::could_not_be_tried;
        }
        const auto choice = choose_file_engine(preference);
        if (late && !deny_system_call(call.number, error)) {
            return penstock::testing::could_not_be_tried;
        }
        const int line = first_failure(*choice.engine, folder.path(""));
        if (line != 0) {
            fprintf(stderr, "line %d\n", line);
        }
        return line == 0 ? 0 : 1;
    });
}

class DeniedCall : public ::testing::TestWithParam<std::tuple<SystemCall, int>> {};

TEST_P(DeniedCall, IsReplacedByAnotherWay) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "this sanitizer does not let the child of a fork start threads";
    }
    const auto& [call, error] = GetParam();
    for (const auto preference : {FileEnginePreference::automatic, FileEnginePreference::threads}) {
        for (const bool late : {false, true}) {
            const int result = in_sandbox(call, error, preference, late);
            if (result == penstock::testing::could_not_be_tried) {
                GTEST_SKIP() << "seccomp is refused here";
            }
            EXPECT_EQ(result, 0) << "threads: " << (preference == FileEnginePreference::threads)
                                 << ", denied after the engine was made: " << late;
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Each, DeniedCall,
                         ::testing::Combine(::testing::ValuesIn(replaceable_calls),
                                            ::testing::Values(EPERM, ENOSYS)),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param).name) +
                                    (std::get<1>(test.param) == EPERM ? "_EPERM" : "_ENOSYS");
                         });

} // namespace
