#pragma once

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <penstock/io/files/choose_file_engine.hpp>

#include "support/temporary_folder.hpp"
#include "support/watchdog.hpp"

namespace penstock::testing {

/// An operation that records its results and calls a function, if it has one.
struct TestOperation : io::FileOperation {
    using Function = std::function<void(TestOperation&)>;

    explicit TestOperation(Function on_done = {})
        : FileOperation(&finish), function(std::move(on_done)) {}

    static void finish(io::FileOperation& operation, std::int64_t result) {
        auto& self = static_cast<TestOperation&>(operation);
        self.results.push_back(result);
        if (self.function) {
            const Function function = self.function;
            function(self);
        }
    }

    std::vector<std::int64_t> results;
    Function function;
};

/// Drives an engine as a foreign loop does until `operation` has completed. Returns its result.
inline std::int64_t complete(io::FileEngine& engine, const TestOperation& operation) {
    while (operation.in_flight()) {
        engine.wait();
        engine.process();
    }
    return operation.results.empty() ? INT64_MIN : operation.results.back();
}

/// The same for everything in flight.
inline void complete_all(io::FileEngine& engine) {
    while (engine.in_flight() != 0) {
        engine.wait();
        engine.process();
    }
}

/// Starts and completes one operation. `describe` fills it in.
template <typename Describe> std::int64_t run(io::FileEngine& engine, Describe describe) {
    TestOperation operation;
    describe(operation);
    if (const std::error_code error = engine.start(operation)) {
        return -error.value();
    }
    return complete(engine, operation);
}

struct Threads {
    static constexpr const char* name = "threads";
    static std::unique_ptr<io::FileEngine> make(const io::FileEngineOptions& options) {
        return io::make_worker_engine(options);
    }
    static bool refused() { return false; }
};

/// Its tests are skipped where the kernel or a container refuses the ring. With
/// PENSTOCK_REQUIRE_LOOPS=1 they fail instead.
struct Ring {
    static constexpr const char* name = "uring";
    static std::unique_ptr<io::FileEngine> make(const io::FileEngineOptions& options) {
        return io::make_uring_engine(options);
    }
    static bool refused() {
        try {
            if (make({}) != nullptr) {
                return false;
            }
        } catch (const std::system_error&) { // reported below
        }
        const char* required = std::getenv("PENSTOCK_REQUIRE_LOOPS");
        if (required != nullptr && std::string_view(required) == "1") {
            ADD_FAILURE() << "io_uring is refused here, and PENSTOCK_REQUIRE_LOOPS=1 asks for it";
        }
        return true;
    }
};

/// A test that runs on each engine, with its own folder.
template <typename Kind> class OnEachFileEngine : public ::testing::Test {
protected:
    void SetUp() override {
        if (Kind::refused()) {
            GTEST_SKIP() << "io_uring is refused here";
        }
        engine = make();
    }

    [[nodiscard]] static std::unique_ptr<io::FileEngine>
    make(const io::FileEngineOptions& options = {}) {
        return Kind::make(options);
    }

    Watchdog watchdog;
    TemporaryFolder folder;
    std::unique_ptr<io::FileEngine> engine;
};

using FileEngines = ::testing::Types<Threads, Ring>;

struct FileEngineNames {
    template <typename Kind> static std::string GetName(int /*index*/) { return Kind::name; }
};

} // namespace penstock::testing
