#include <penstock/process/command.hpp>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <penstock/task/all.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/timeout.hpp>

#include "support/watchdog.hpp"

namespace {

using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::process::Command;
using penstock::process::ExitStatus;
using penstock::process::Output;
using penstock::testing::Watchdog;

class CommandOutput : public ::testing::Test {
protected:
    void TearDown() override {
        EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1); // no child is left
        EXPECT_EQ(errno, ECHILD);
    }

    Watchdog watchdog;
};

TEST_F(CommandOutput, CollectsBothStreamsAndTheStatus) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await Command("sh")
            .arguments({"-c", "echo out; echo err >&2; exit 3"})
            .output();
    };
    const Result<Output> collected = run(program());
    ASSERT_TRUE(collected);
    EXPECT_EQ(collected->status, ExitStatus::exited(3));
    EXPECT_EQ(collected->output, "out\n");
    EXPECT_EQ(collected->error, "err\n");
}

TEST_F(CommandOutput, PassesMoreInputThanAPipeHolds) {
    const std::string input(1'000'000, 'x');
    const auto program = [&]() -> Task<Result<Output>> {
        co_return co_await Command("cat").output(input);
    };
    EXPECT_EQ(run(program())->output, input);
}

TEST_F(CommandOutput, AProcessThatDoesNotReadItsInputIsNoError) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await Command("true").output(std::string(1'000'000, 'x'));
    };
    EXPECT_TRUE(run(program())->status.success());
}

TEST_F(CommandOutput, KillsAProcessBeyondTheLimit) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await Command("yes").output(std::string(), 10'000);
    };
    EXPECT_EQ(run(program()).error(), std::errc::message_size);
}

TEST_F(CommandOutput, TakesTheLargestLimit) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await Command("echo").argument("all").output({}, SIZE_MAX);
    };
    EXPECT_EQ(run(program())->output, "all\n");
}

TEST_F(CommandOutput, KillsAProcessWhenItIsCancelled) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await penstock::timeout(std::chrono::milliseconds(1),
                                             Command("sleep").argument("1000").output());
    };
    EXPECT_EQ(run(program()).error(), std::errc::timed_out);
}

TEST_F(CommandOutput, NeedsItsCommandOnlyForTheCall) {
    const auto echo = [](const char* text) { return Command("echo").argument(text).output(); };
    const auto program = [&]() -> Task<Result<>> {
        std::vector<Task<Result<Output>>> tasks;
        tasks.push_back(echo("the first of two long texts"));
        tasks.push_back(echo("the second of two long texts"));
        const auto outputs = co_await penstock::all(std::move(tasks));
        EXPECT_EQ(outputs->at(0).output, "the first of two long texts\n");
        EXPECT_EQ(outputs->at(1).output, "the second of two long texts\n");
        co_return Result<>();
    };
    EXPECT_TRUE(run(program()));
}

TEST_F(CommandOutput, ReportsAProgramThatDoesNotExist) {
    const auto program = []() -> Task<Result<Output>> {
        co_return co_await Command("nonexistent-program").output();
    };
    EXPECT_EQ(run(program()).error(), std::errc::no_such_file_or_directory);
}

} // namespace
