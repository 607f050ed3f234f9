// Which file engine is chosen, and the reason that is reported.

#include <penstock/io/files/choose_file_engine.hpp>

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include "io/files/engine_making.hpp"
#include "support/file_engines.hpp"

namespace {

using penstock::io::choose_file_engine;
using penstock::io::file_engine_preference;
using penstock::io::FileEngineChoice;
using penstock::io::FileEnginePreference;
using penstock::io::MakeEngine;
using penstock::testing::Ring;

/// Sets PENSTOCK_FILES for one test.
class Environment {
public:
    explicit Environment(const char* value) {
        if (value != nullptr) {
            ::setenv("PENSTOCK_FILES", value, 1);
        } else {
            ::unsetenv("PENSTOCK_FILES");
        }
    }
    ~Environment() { ::unsetenv("PENSTOCK_FILES"); }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;
};

bool is_one_line(const std::string& text) {
    return !text.empty() && text.find('\n') == std::string::npos;
}

TEST(ChooseFileEngine, ReadsTheWishFromTheEnvironment) {
    const std::pair<const char*, FileEnginePreference> preferences[] = {
        {nullptr, FileEnginePreference::automatic}, {"", FileEnginePreference::automatic},
        {"auto", FileEnginePreference::automatic},  {"uring", FileEnginePreference::uring},
        {"threads", FileEnginePreference::threads},
    };
    for (const auto& [value, preference] : preferences) {
        const Environment environment(value);
        EXPECT_EQ(file_engine_preference(), preference);
    }
}

TEST(ChooseFileEngine, UnknownWishIsReportedWithTheRemedy) {
    const Environment environment("fast");
    try {
        static_cast<void>(choose_file_engine());
        FAIL() << "taken";
    } catch (const std::invalid_argument& error) {
        EXPECT_STREQ(error.what(), "PENSTOCK_FILES is 'fast'; set it to auto, uring or threads, or "
                                   "unset it");
    }
}

TEST(ChooseFileEngine, ThreadsWhereRequested) {
    const Environment environment("threads");
    const FileEngineChoice choice = choose_file_engine();
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_TRUE(is_one_line(choice.reason));
}

TEST(ChooseFileEngine, RingWhereTheKernelAllowsIt) {
    if (Ring::refused()) {
        GTEST_SKIP() << "io_uring is refused here";
    }
    for (const FileEnginePreference preference :
         {FileEnginePreference::automatic, FileEnginePreference::uring}) {
        const FileEngineChoice choice = choose_file_engine(preference);
        EXPECT_EQ(choice.engine->name(), "uring");
        EXPECT_TRUE(is_one_line(choice.reason));
    }
}

/// Fails to make a ring, like a kernel that refuses it.
MakeEngine refuse_with(int error) {
    return
        [error](
            const penstock::io::FileEngineOptions&) -> std::unique_ptr<penstock::io::FileEngine> {
            throw std::system_error(error, std::system_category(), "io_uring_setup");
        };
}

class RefusedRing : public ::testing::TestWithParam<int> {};

TEST_P(RefusedRing, FallsBackToThreadsWithAReason) {
    const FileEngineChoice choice =
        choose_file_engine(FileEnginePreference::automatic, {}, refuse_with(GetParam()));
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_TRUE(is_one_line(choice.reason));
    EXPECT_NE(choice.reason.find("io_uring"), std::string::npos) << choice.reason;
}

TEST_P(RefusedRing, IsAnErrorWhereTheRingIsRequired) {
    try {
        static_cast<void>(
            choose_file_engine(FileEnginePreference::uring, {}, refuse_with(GetParam())));
        FAIL() << "made";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), GetParam());
        EXPECT_NE(std::string(error.what()).find("PENSTOCK_FILES"), std::string::npos)
            << error.what();
    }
}

INSTANTIATE_TEST_SUITE_P(Each, RefusedRing,
                         ::testing::Values(EPERM, EACCES, ENOSYS, EINVAL, ENOMEM));

TEST(ChooseFileEngine, ErrorThatAlsoAffectsThreadsIsNotHidden) {
    EXPECT_THROW(static_cast<void>(
                     choose_file_engine(FileEnginePreference::automatic, {}, refuse_with(EMFILE))),
                 std::system_error);
}

} // namespace
