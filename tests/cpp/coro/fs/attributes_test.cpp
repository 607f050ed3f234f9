// Permissions, owners, times and extended attributes; locks; aligned memory; many files at once.

#include <penstock/fs/aligned_buffer.hpp>
#include <penstock/fs/attributes.hpp>
#include <penstock/fs/file.hpp>
#include <penstock/fs/lock.hpp>
#include <penstock/fs/paths.hpp>
#include <penstock/task/run.hpp>
#include <penstock/task/scope.hpp>
#include <penstock/task/sleep.hpp>
#include <penstock/task/timeout.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/temporary_folder.hpp"

namespace {

namespace fs = penstock::fs;
using penstock::Bytes;
using penstock::Result;
using penstock::run;
using penstock::Task;
using penstock::testing::TemporaryFolder;

std::string text_of(const std::vector<std::byte>& bytes) {
    std::string text;
    std::ranges::transform(bytes, std::back_inserter(text),
                           [](std::byte each) { return static_cast<char>(each); });
    return text;
}

TEST(Attributes, PermissionsAndTimesAreSet) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", "content");
        const std::string link = folder.path("link");
        EXPECT_TRUE(co_await fs::create_symlink("file", link));
        EXPECT_TRUE(co_await fs::set_permissions(link, 0640));
        EXPECT_EQ((co_await fs::status(path))->permissions, 0640U);

        using namespace std::chrono_literals;
        const fs::Status::Time before_the_epoch{-1500ms};
        const fs::Status::Time later{1'700'000'000s + 123'456'789ns};
        EXPECT_TRUE(
            co_await fs::set_times(path, {.accessed = before_the_epoch, .modified = later}));
        EXPECT_TRUE(co_await fs::set_times(path, {}));
        EXPECT_TRUE(co_await fs::set_times(link, {.modified = before_the_epoch}, false));
        const Result<fs::Status> found = co_await fs::status(path);
        EXPECT_EQ(found->accessed, before_the_epoch);
        EXPECT_EQ(found->modified, later);
        EXPECT_EQ((co_await fs::status(link, false))->modified, before_the_epoch);
    };
    run(body());
}

TEST(Attributes, AnOwnerIsSet) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file");
        EXPECT_TRUE(co_await fs::set_owner(path, {.user = ::getuid(), .group = ::getgid()}));
        if (::getuid() == 0) {
            EXPECT_TRUE(co_await fs::set_owner(path, {.group = 1234}));
            EXPECT_TRUE(co_await fs::set_owner(path, {.user = 4321}));
            const Result<fs::Status> found = co_await fs::status(path);
            EXPECT_EQ(found->owner, 4321U);
            EXPECT_EQ(found->group, 1234U);
        }
    };
    run(body());
}

TEST(Attributes, ExtendedAttributesAreSetReadListedAndRemoved) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file");
        const Result<> set = co_await fs::set_attribute(path, "user.first", "one");
        if (!set && set.error() == std::errc::operation_not_supported) {
            co_return; // the file system of the temporary folder has none
        }
        EXPECT_TRUE(set);
        EXPECT_TRUE(co_await fs::set_attribute(path, "user.empty", ""));
        EXPECT_TRUE(co_await fs::set_attribute(path, "user.first", std::string(1000, 'x')));
        EXPECT_EQ(text_of(*co_await fs::attribute(path, "user.first")), std::string(1000, 'x'));
        EXPECT_TRUE((co_await fs::attribute(path, "user.empty"))->empty());
        std::vector<std::string> names = *co_await fs::attribute_names(path);
        std::erase_if(names, [](const std::string& name) { return !name.starts_with("user."); });
        std::ranges::sort(names);
        EXPECT_EQ(names, (std::vector<std::string>{"user.empty", "user.first"}));
        EXPECT_TRUE(co_await fs::remove_attribute(path, "user.first"));
        const std::error_code absent(ENODATA, std::system_category());
        EXPECT_EQ((co_await fs::attribute(path, "user.first")).error(), absent);
        EXPECT_EQ((co_await fs::remove_attribute(path, "user.first")).error(), absent);
    };
    run(body());
}

TEST(Attributes, WhatIsMissingOrNoNameIsRefused) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string missing = folder.path("missing");
        EXPECT_EQ((co_await fs::set_permissions(missing, 0600)).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await fs::set_owner(missing, {})).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await fs::set_times(missing, {.modified = fs::Status::Time()})).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await fs::attribute_names(missing)).error(),
                  std::errc::no_such_file_or_directory);
        EXPECT_EQ((co_await fs::lock(folder.path("missing/lock"))).error(),
                  std::errc::no_such_file_or_directory);
        const std::string zero("a\0b", 3);
        EXPECT_EQ((co_await fs::set_permissions(zero, 0600)).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::attribute(missing, zero)).error(), std::errc::invalid_argument);
        EXPECT_EQ((co_await fs::lock(zero)).error(), std::errc::invalid_argument);
    };
    run(body());
}

TEST(Locks, ExcludeEachOtherUntilTheyEnd) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("lock");
        Result<fs::Lock> held = co_await fs::lock(path);
        EXPECT_TRUE(held && *held);
        EXPECT_EQ((co_await fs::lock(path, {.wait = false})).error(),
                  std::errc::resource_unavailable_try_again);
        EXPECT_EQ((co_await fs::lock(path, {.shared = true, .wait = false})).error(),
                  std::errc::resource_unavailable_try_again);
        std::vector<int> order;
        co_await penstock::with_scope([&](penstock::Scope& scope) -> Task<void> {
            scope.spawn([](std::string name, std::vector<int>& steps) -> Task<void> {
                const Result<fs::Lock> mine = co_await fs::lock(name);
                EXPECT_TRUE(mine);
                steps.push_back(2);
            }(path, order));
            (void)co_await penstock::sleep_for(std::chrono::milliseconds(5));
            order.push_back(1);
            held->release();
        });
        EXPECT_EQ(order, (std::vector<int>{1, 2}));
        const Result<fs::Lock> one = co_await fs::lock(path, {.shared = true});
        const Result<fs::Lock> other = co_await fs::lock(path, {.shared = true, .wait = false});
        EXPECT_TRUE(one && other);
    };
    run(body());
}

TEST(Locks, ACancelledWaitLocksNothing) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.path("lock");
        Result<fs::Lock> held = co_await fs::lock(path);
        const Result<fs::Lock> waited =
            co_await penstock::timeout(std::chrono::milliseconds(5), fs::lock(path));
        EXPECT_EQ(waited.error(), std::errc::timed_out);
        held->release();
        EXPECT_TRUE(co_await fs::lock(path, {.wait = false}));
    };
    run(body());
}

TEST(AlignedBuffers, BeginAndEndAtMultiplesOfTheAlignment) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        const std::string path = folder.file("file", std::string(10'000, 'x'));
        fs::AlignedBuffer buffer(5000);
        EXPECT_EQ(buffer.size(), 8192U);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 4096, 0U);
        EXPECT_EQ(fs::AlignedBuffer(1, 512).size(), 512U);
        Result<fs::File> file = co_await fs::File::open(path, {.direct = true});
        if (!file && file.error() == std::errc::invalid_argument) {
            co_return; // the file system of the temporary folder has no direct reads
        }
        EXPECT_EQ(*co_await file->read_at(4096, buffer.bytes()), 10'000U - 4096);
        EXPECT_EQ(buffer.bytes()[0], std::byte{'x'});
        const fs::AlignedBuffer moved = std::move(buffer);
        EXPECT_EQ(moved.bytes().size(), 8192U);
    };
    run(body());
}

TEST(WholeFiles, ManyAreReadInTheirOrder) {
    const auto body = []() -> Task<void> {
        const TemporaryFolder folder;
        std::vector<std::string> paths;
        paths.reserve(100);
        for (int number = 0; number < 100; ++number) {
            paths.push_back(folder.file(std::to_string(number), std::to_string(number * number)));
        }
        const auto contents = co_await fs::read_many(paths, 7);
        EXPECT_EQ(contents->size(), 100U);
        for (std::size_t number = 0; number < contents->size(); ++number) {
            EXPECT_EQ(text_of((*contents)[number]), std::to_string(number * number));
        }
        EXPECT_TRUE((co_await fs::read_many({}))->empty());
        paths[50] = folder.path("missing");
        EXPECT_EQ((co_await fs::read_many(std::move(paths))).error(),
                  std::errc::no_such_file_or_directory);
    };
    run(body());
}

} // namespace
