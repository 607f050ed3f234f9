// Append logs. tests/append_log_cases.txt has the files that Python and C++ share.

#include <penstock/fs/append_log.hpp>
#include <penstock/owned_descriptor.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/yield.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/child_process.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::TemporaryFolder;

struct Case {
    std::string outcome;
    std::uint64_t records = 0;
    std::uint64_t torn = 0;
    std::string bytes;
};

std::string from_hex(const std::string& digits) {
    std::string bytes;
    for (std::size_t at = 0; at + 1 < digits.size(); at += 2) {
        bytes += static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16));
    }
    return bytes;
}

std::map<std::string, Case> read_cases() {
    std::ifstream table(PENSTOCK_APPEND_LOG_CASES);
    EXPECT_TRUE(table) << "the table is missing";
    std::map<std::string, Case> cases;
    for (std::string line; std::getline(table, line);) {
        if (line.starts_with('#')) {
            continue;
        }
        std::vector<std::string> fields;
        for (std::size_t begin = 0; begin <= line.size();) {
            const std::size_t end = std::min(line.find(" | ", begin), line.size());
            fields.push_back(line.substr(begin, end - begin));
            begin = end + 3;
        }
        fields.resize(5); // the file may be empty
        cases[fields[0]] = {.outcome = fields[1],
                            .records = std::stoull(fields[2]),
                            .torn = std::stoull(fields[3]),
                            .bytes = from_hex(fields[4])};
    }
    return cases;
}

Task<std::vector<std::string>> records_of(std::string path, std::error_code* error = nullptr) {
    std::vector<std::string> records;
    auto reading = fs::read_log(std::move(path));
    while (auto record = co_await reading.next()) {
        if (!*record) {
            if (error != nullptr) {
                *error = record->error();
            }
            break;
        }
        std::string& text = records.emplace_back();
        for (const std::byte each : **record) {
            text += static_cast<char>(each);
        }
    }
    co_return records;
}

const std::vector<std::string> complete{"", "a", "bc", "one", "two", "three"};

TEST(AppendLog, EachCaseIsOpenedAsTheTableSays) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::map<std::string, Case> cases = read_cases();
        EXPECT_GT(cases.size(), 10U);
        for (const auto& [name, expected] : cases) {
            const std::string path = folder.file(name, expected.bytes);
            const Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
            if (expected.outcome != "ok") {
                EXPECT_EQ(log.error(), expected.outcome == "damaged" ? fs::LogError::damaged
                                                                     : fs::LogError::not_a_log)
                    << name;
                EXPECT_EQ(folder.content(name), expected.bytes) << name;
                continue;
            }
            EXPECT_TRUE(log) << name << ": " << log.error().message();
            if (log) {
                EXPECT_EQ(log->recovered().records, expected.records) << name;
                EXPECT_EQ(log->recovered().torn, expected.torn) << name;
                if (expected.records > 0 && expected.torn > 0) {
                    EXPECT_EQ(folder.content(name) + folder.content(name + ".torn"), expected.bytes)
                        << name;
                }
            }
        }
    };
    run(body());
}

TEST(AppendLog, AppendsWriteTheBytesThatPythonWrites) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::map<std::string, Case> cases = read_cases();
        const std::string path = folder.file("log", cases.at("complete").bytes);
        EXPECT_EQ(co_await records_of(path), complete);
        Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
        EXPECT_EQ(*co_await log->append("more"), 6U);
        const std::array<Bytes, 2> batch{Bytes("xyz"), Bytes("")};
        EXPECT_EQ(*co_await log->append_many(batch), 7U);
        EXPECT_EQ(log->count(), 9U);
        EXPECT_EQ(folder.content("log"), cases.at("continued").bytes);
        EXPECT_EQ(log->size(), cases.at("continued").bytes.size());
        EXPECT_EQ((co_await fs::AppendLog::open(path)).error(), fs::LogError::locked);
        EXPECT_TRUE(co_await log->close());
        EXPECT_EQ((co_await log->append("late")).error(), fs::LogError::closed);
        EXPECT_TRUE(co_await fs::AppendLog::open(path));
    };
    run(body());
}

TEST(AppendLog, ADamageIsToldBehindTheRecordsBeforeIt) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path =
            folder.file("log", read_cases().at("damage before the last commit").bytes);
        std::error_code error;
        EXPECT_EQ(co_await records_of(path, &error), (std::vector<std::string>{""}));
        EXPECT_EQ(error, fs::LogError::damaged);
        (void)co_await records_of(folder.path("missing"), &error);
        EXPECT_EQ(error, std::errc::no_such_file_or_directory);
        (void)co_await records_of(std::string(path) + '\0' + "more", &error);
        EXPECT_EQ(error, std::errc::invalid_argument);
    };
    run(body());
}

TEST(AppendLog, AppendsOfManyTasksKeepTheirOrderAndAreShared) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("log");
        std::vector<std::string> expected;
        {
            Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
            co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
                for (int number = 0; number < 300; ++number) {
                    expected.push_back(std::to_string(number));
                    scope.spawn([](fs::AppendLog& to, int each) -> Task<void> {
                        const std::string text = std::to_string(each);
                        EXPECT_EQ(*co_await to.append(text), static_cast<std::uint64_t>(each));
                    }(*log, number));
                }
                co_return;
            });
        }
        EXPECT_EQ(co_await records_of(path), expected);
        EXPECT_EQ((co_await fs::AppendLog::open(path))->recovered().records, 300U);
    };
    run(body());
}

TEST(AppendLog, ACancelledAppendIsWrittenWholeOrNotAtAll) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("log");
        std::uint64_t written = 0;
        {
            Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
            co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
                for (int number = 0; number < 50; ++number) {
                    scope.spawn([](fs::AppendLog& to) -> Task<void> {
                        (void)co_await to.append("cancelled");
                    }(*log));
                }
                (void)co_await penstock::yield();
                scope.cancel();
            });
            EXPECT_TRUE(co_await log->append("last"));
            written = log->count();
        }
        const std::vector<std::string> found = co_await records_of(path);
        EXPECT_EQ(found.size(), written);
        EXPECT_EQ(found.back(), "last");
    };
    run(body());
}

TEST(AppendLog, AFailedWriteLeavesTheLogAsItWas) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("log");
        Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
        EXPECT_TRUE(co_await log->append("first"));
        const auto handler = std::signal(SIGXFSZ, SIG_IGN);
        rlimit before{};
        EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
        rlimit small = before;
        small.rlim_cur = 2000;
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
        const std::string large(5000, 'x');
        EXPECT_EQ((co_await log->append(large)).error(), std::errc::file_too_large);
        EXPECT_EQ(folder.content("log").size(), log->size());
        EXPECT_EQ(*co_await log->append("second"), 1U);
        EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
        (void)std::signal(SIGXFSZ, handler);
        EXPECT_EQ(co_await records_of(path), (std::vector<std::string>{"first", "second"}));
    };
    run(body());
}

/// A record whose content shows its number and that it is whole.
std::string record_of(std::uint32_t number) {
    std::string record = std::to_string(number);
    record.append(1 + std::size_t{number} * 7919 % 3000, static_cast<char>('a' + number % 26));
    return record;
}

/// Appends for ever with several tasks, in a process of its own; writes each acknowledged number.
[[noreturn]] void append_until_killed(const std::string& path, std::uint32_t first, int to) {
    const auto body = [&]() -> Task<void> {
        Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
        std::uint32_t number = first;
        const auto append = [&]() -> Task<void> {
            for (;;) {
                const std::uint32_t mine = number++;
                if (!co_await log->append(record_of(mine)) ||
                    ::write(to, &mine, sizeof mine) != sizeof mine) {
                    co_return;
                }
            }
        };
        co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
            for (int task = 0; task < 8; ++task) {
                scope.spawn(append());
            }
            co_return;
        });
    };
    run(body());
    ::_exit(1);
}

TEST(AppendLog, AKilledWriterLosesNoAcknowledgedRecord) {
    if (!penstock::testing::child_may_start_threads) {
        GTEST_SKIP() << "the child starts a thread";
    }
    const TemporaryFolder folder;
    const std::string path = folder.path("log");
    std::uint32_t next = 0;
    for (int kills = 0; kills < 20; ++kills) {
        std::array<int, 2> pipe{};
        ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
        const penstock::OwnedDescriptor from(pipe[0]);
        penstock::OwnedDescriptor to(pipe[1]);
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::alarm(60);
            append_until_killed(path, next, to.get());
        }
        to.reset();
        std::vector<std::uint32_t> acknowledged;
        std::uint32_t number = 0;
        while (::read(from.get(), &number, sizeof number) == sizeof number) {
            acknowledged.push_back(number);
            if (acknowledged.size() == static_cast<std::size_t>(1 + kills % 7 * 13)) {
                EXPECT_EQ(::kill(child, SIGKILL), 0);
            }
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFSIGNALED(status));

        std::vector<std::string> found;
        run([&]() -> Task<void> {
            EXPECT_TRUE(co_await fs::AppendLog::open(path)); // repairs it
            found = co_await records_of(path);
        }());
        for (const std::uint32_t each : acknowledged) {
            ASSERT_LT(each, found.size());
        }
        next = static_cast<std::uint32_t>(found.size());
        for (std::uint32_t each = 0; each < next; ++each) {
            ASSERT_EQ(found[each], record_of(each)) << "after " << kills << " kills";
        }
    }
    EXPECT_GT(next, 200U);
}

TEST(AppendLog, LargeRecordsAndLongLogsAreReadInPieces) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("log");
        const std::string large(3'000'001, 'L');
        const std::string small(1000, 's');
        {
            Result<fs::AppendLog> log = co_await fs::AppendLog::open(path);
            EXPECT_TRUE(co_await log->append(large));
            const std::vector<Bytes> many(5000, Bytes(small));
            EXPECT_TRUE(co_await log->append_many(many));
            EXPECT_TRUE(co_await log->append(large));
        }
        const std::vector<std::string> found = co_await records_of(path);
        EXPECT_EQ(found.size(), 5002U);
        EXPECT_TRUE(found.front() == large && found.back() == large && found[2500] == small);
        EXPECT_EQ((co_await fs::AppendLog::open(path))->recovered().records, 5002U);
    };
    run(body());
}

} // namespace
