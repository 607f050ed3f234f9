#pragma once

#include <cstdint>
#include <string>

#include <penstock/result.hpp>

namespace penstock::fs::detail {

/// `fs::remove_all`, on the thread of the caller. The path has no zero byte.
[[nodiscard]] Result<std::uint64_t> remove_tree(const std::string& path);

} // namespace penstock::fs::detail
