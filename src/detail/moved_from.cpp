#include <penstock/detail/moved_from.hpp>

#include <cstdio>
#include <cstdlib>

namespace penstock::detail {

void report_moved_from(const char* object) noexcept {
    (void)std::fprintf(stderr, "penstock: %s was used after it was moved from\n", object);
    std::abort();
}

} // namespace penstock::detail
