#pragma once

#include <cstdlib>
#include <string_view>

#include <gtest/gtest.h>

namespace penstock::testing {

/// Skips the running test if a program that it needs is not installed. Under
/// PENSTOCK_REQUIRE_LOOPS=1, as `make test` sets, the test fails instead. The caller returns
/// afterwards.
inline void require_program(std::string_view name, bool is_installed) {
    if (is_installed) {
        return;
    }
    const char* required = std::getenv("PENSTOCK_REQUIRE_LOOPS");
    ASSERT_TRUE(required == nullptr || std::string_view(required) != "1")
        << name << " is missing; run scripts/setup test";
    GTEST_SKIP() << name << " is not installed; run scripts/setup test";
}

} // namespace penstock::testing
