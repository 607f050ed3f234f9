#include <penstock/detail/io/scatter_operations.hpp>

namespace penstock::detail {

ssize_t read_parts(int fd, std::span<const iovec> parts) noexcept {
    return uninterrupted([&] { return ::readv(fd, parts.data(), static_cast<int>(parts.size())); });
}

} // namespace penstock::detail
