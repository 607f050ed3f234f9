#include <penstock/block_on.hpp>

namespace penstock::detail {

EventLoop& blocking_loop() {
    static thread_local EventLoop loop;
    return loop;
}

} // namespace penstock::detail
