#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::detail {

/// The key of a hash.
struct HashKey {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
};

/// SipHash-1-3 of a text (Aumasson and Bernstein, 2012). Without the key, nobody can choose texts
/// that have the same hash.
[[nodiscard]] std::uint64_t keyed_hash(const HashKey& key, std::string_view text) noexcept;

/// The key of this process: random, made by the first call. A forked child has its parent's.
[[nodiscard]] const HashKey& process_hash_key() noexcept;

/// The hash of a table whose keys a peer chooses. With `std::hash` a peer could choose thousands of
/// keys that share a bucket, so that each look-up compares them all (hash flooding).
struct KeyedHash {
    using is_transparent = void;

    [[nodiscard]] std::size_t operator()(std::string_view text) const noexcept {
        return keyed_hash(process_hash_key(), text);
    }
};

} // namespace penstock::detail
