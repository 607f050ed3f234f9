// Which file engine is taken, and what is said about it.

#include <penstock/io/choose_file_engine.hpp>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <gtest/gtest.h>

#include "support/file_engines.hpp"

namespace {

using penstock::io::choose_file_engine;
using penstock::io::file_engine_wish;
using penstock::io::FileEngineChoice;
using penstock::io::FileEngineWish;
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

TEST(ChooseFileEngine, EnvironmentSaysWhatIsWished) {
    const std::pair<const char*, FileEngineWish> wishes[] = {
        {nullptr, FileEngineWish::automatic}, {"", FileEngineWish::automatic},
        {"auto", FileEngineWish::automatic},  {"uring", FileEngineWish::uring},
        {"threads", FileEngineWish::threads},
    };
    for (const auto& [value, wish] : wishes) {
        const Environment environment(value);
        EXPECT_EQ(file_engine_wish(), wish);
    }
}

TEST(ChooseFileEngine, UnknownWishIsNamedWithTheRemedy) {
    const Environment environment("fast");
    try {
        static_cast<void>(choose_file_engine());
        FAIL() << "taken";
    } catch (const std::invalid_argument& error) {
        EXPECT_STREQ(error.what(), "PENSTOCK_FILES is 'fast'; set it to auto, uring or threads, or "
                                   "unset it");
    }
}

TEST(ChooseFileEngine, ThreadsWhereTheyAreWished) {
    const Environment environment("threads");
    const FileEngineChoice choice = choose_file_engine();
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_TRUE(is_one_line(choice.reason));
}

TEST(ChooseFileEngine, RingWhereTheKernelAllowsIt) {
    if (Ring::refused()) {
        GTEST_SKIP() << "io_uring is refused here";
    }
    for (const FileEngineWish wish : {FileEngineWish::automatic, FileEngineWish::uring}) {
        const FileEngineChoice choice = choose_file_engine(wish);
        EXPECT_EQ(choice.engine->name(), "uring");
        EXPECT_TRUE(is_one_line(choice.reason));
    }
}

class RefusedRing : public ::testing::TestWithParam<int> {};

TEST_P(RefusedRing, FallsBackToThreadsWithAReason) {
    const FileEngineChoice choice =
        choose_file_engine(FileEngineWish::automatic, {.refuse_ring = GetParam()});
    EXPECT_EQ(choice.engine->name(), "threads");
    EXPECT_TRUE(is_one_line(choice.reason));
    EXPECT_NE(choice.reason.find("io_uring"), std::string::npos) << choice.reason;
}

TEST_P(RefusedRing, IsAnErrorWhereItIsWished) {
    try {
        static_cast<void>(choose_file_engine(FileEngineWish::uring, {.refuse_ring = GetParam()}));
        FAIL() << "made";
    } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), GetParam());
        EXPECT_NE(std::string(error.what()).find("PENSTOCK_FILES"), std::string::npos)
            << error.what();
    }
}

INSTANTIATE_TEST_SUITE_P(Each, RefusedRing,
                         ::testing::Values(EPERM, EACCES, ENOSYS, EINVAL, ENOMEM));

TEST(ChooseFileEngine, ErrorThatThreadsWouldNotBeSparedIsNotHidden) {
    EXPECT_THROW(
        static_cast<void>(choose_file_engine(FileEngineWish::automatic, {.refuse_ring = EMFILE})),
        std::system_error);
}

} // namespace
