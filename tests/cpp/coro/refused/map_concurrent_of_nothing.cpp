// Must not compile, with a message that names for_each_concurrent. ../CMakeLists.txt has the test.

#include <vector>

#include <penstock/task/concurrent.hpp>

penstock::Task<penstock::Result<>> call(int) {
    co_return penstock::Result<>();
}

void map() {
    (void)penstock::map_concurrent(std::vector<int>{1, 2}, 2, call);
}
